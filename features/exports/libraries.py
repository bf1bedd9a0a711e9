"""Libraries that some layouts need, and that not everybody has installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pipeline.errors import InputError
from pipeline.missing import install_command


def required(layout: str, package: str, *packages: str) -> Any:
    """The library that a layout needs; InputError with what to install where it is missing."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(
            f"--format {layout}: needs the package {package}, which is not installed: {install_command(*packages)}"
        ) from None
