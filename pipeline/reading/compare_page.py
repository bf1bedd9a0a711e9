"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pipeline.errors import InputError
from pipeline.model.pages.style import page_style
from pipeline.reading.compare import Comparison


def write_page(path: Path, comparison: Comparison) -> None:
    """Write the page; InputError where that fails."""
    try:
        path.write_text(comparison_html(comparison), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--html {path}: cannot be written ({error.strerror or error})") from None


def comparison_html(comparison: Comparison) -> str:
    """The page; all text is escaped."""
    from jinja2 import Environment, StrictUndefined

    template = resources.files("pipeline.reading").joinpath("compare.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    largest = max((row.mean_absolute for row in comparison.tables), default=0.0) or 1.0
    return environment.from_string(template).render(comparison=comparison, largest=largest, style=page_style())
