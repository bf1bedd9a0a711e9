"""The plotting library that the report carries is the one of the package that it says it is from, unchanged."""

from __future__ import annotations

from importlib import metadata

import pytest
from project.report_script import TARGET, bundle


def test_the_script_is_that_of_the_package() -> None:
    stated = "vl-convert-python 1.9.0"
    assert stated in (TARGET.parent / "LICENSE-vega.txt").read_text("utf-8")
    if not metadata.version("vl-convert-python").startswith(stated.split()[-1]):
        pytest.skip("another version of vl-convert-python is installed than the script was made with")
    assert TARGET.read_text("utf-8") == bundle()
