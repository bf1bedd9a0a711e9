"""Every file of a run has one place, and no name can lead out of the run's directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.release.layout import RunDirectory, file_name, query_file_name

ROOT = Path("/out/release")
RUN = RunDirectory(ROOT)


@pytest.mark.parametrize(
    ("query", "name"), [("total", "total"), ("votingage * hispanic", "votingage.hispanic"), ("a*b * c", "a.b.c")]
)
def test_a_query_names_its_file_however_it_is_spaced(query: str, name: str) -> None:
    assert query_file_name(query) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "-x", "a b", "x.", "a\0", "a\n", "x" * 201]
)
def test_a_name_that_cannot_be_a_file_is_refused_by_its_kind(name: str) -> None:
    with pytest.raises(InputError, match=r"level .* is to name a file"):
        file_name("level", name)
    for use in (RUN.main.histogram, lambda text: RUN.main.table(text, "x"), lambda text: RUN.main.table("x", text)):
        with pytest.raises(InputError):
            use(name)
    if name:
        with pytest.raises(InputError):
            RUN.universe(name)
