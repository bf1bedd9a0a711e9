"""Records that break a join are told in restricted/, with how many geounits and the first; the release keeps it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from releases.homes import SPEC, write_homes
from releases.small import request_of, run

from features.joins.confidential import JoinChecks
from features.joins.link import Households
from flows.checks.validation import validate
from pipeline.confidential import measure
from pipeline.errors import InputError
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import ReleaseSpec, parse_spec


def histograms(persons: dict[str, int], homes: dict[str, int], n: int = 3) -> tuple[sp.csr_array, sp.csr_array]:
    """Of either universe counts of cells, by label, in the second of `n` geounits; the others are empty."""
    found = []
    for universe, counts in zip(parse_spec(SPEC).universes(), (persons, homes), strict=True):
        cells = np.zeros((n, universe.schema.n_cells), dtype=np.int64)
        for label, count in counts.items():
            cells[1, universe.schema.cell_labels().index(label)] = count
        found.append(sp.csr_array(cells))
    first, second = found
    return first, second


def broken(spec: ReleaseSpec, persons: dict[str, int], homes: dict[str, int]) -> list[str]:
    """What a run says of these counts."""
    (link,) = (one for one in spec.links() if isinstance(one, Households))
    pairs = partial(measure._answer_pairs, *histograms(persons, homes))
    return JoinChecks().broken(link, pairs, "block", CODES)


CODES = np.array(["A0101", "A0102", "A0103"])
COUPLE = {"2 * adult * no": 3}


def told(join: str, found: str, implied: str) -> str:
    """What is said of the second geounit."""
    place = "the records break it in 1 geounit of level 'block', first in A0102"
    return f"join 'homes {join}': {place}: {found}, where its households imply {implied}"


@pytest.mark.parametrize("held", [1, 1 << 22])
@pytest.mark.parametrize(
    ("persons", "homes", "others", "says"),
    [
        ({"adult * household": 6}, COUPLE, False, []),
        ({"adult * household": 6, "adult * quarters": 50}, COUPLE, False, []),
        ({"adult * household": 8}, {"4+ * adult * no": 1}, False, []),
        ({"adult * household": 7}, COUPLE, False, [("size", "7 persons in 'household'", "6 to 6")]),
        (
            {"adult * household": 2, "old * household": 4}, COUPLE, False,
            [("householder", "2 persons in 'adult * household'", "3 or more")],
        ),
        (
            {"adult * household": 5, "child * household": 1}, COUPLE, False,
            [("children", "1 person in 'child * household'", "0 to 0")],
        ),
        ({"adult * household": 9}, COUPLE, True, []),
        ({"adult * household": 5}, COUPLE, True, [("size", "5 persons in 'household'", "6 or more")]),
    ],
)  # fmt: skip
def test_what_breaks_a_join_is_told(
    persons: dict[str, int],
    homes: dict[str, int],
    others: bool,
    says: list[tuple[str, str, str]],
    held: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where others count too, only that there are too few."""
    monkeypatch.setattr(measure, "ANSWERS_AT_ONCE", held)
    text = SPEC.replace('companion = "homes"\n', 'companion = "homes"\nothers = true\n') if others else SPEC
    assert broken(parse_spec(text), persons, homes) == [told(*one) for one in says]


def test_a_run_tells_the_agency_alone(tmp_path: Path) -> None:
    spec = write_homes(tmp_path)
    records = pd.read_csv(tmp_path / "persons.csv", dtype=str)
    home = records[(records["residence"] == "household")].sort_values("block").iloc[0]
    gone = (records["block"] == home["block"]) & (records["residence"] == "household")
    records[~gone].to_csv(tmp_path / "persons.csv", index=False)
    directory = RunDirectory(run(spec, tmp_path / "out"))
    told = directory.warnings.read_text()
    assert told.count("\n") == 3
    assert f"join 'homes size': the records break it in 1 geounit of level 'block', first in {home['block']}: 0" in told
    assert directory.warnings.is_relative_to(directory.root / "restricted")
    assert not any("break it" in path.read_text(errors="ignore") for path in directory.public.rglob("*.json"))


# -- what validation says beforehand ----------------------------------------------------------------------------------


#: A householder told apart by two attributes, beside sizes and children, limits sets of groups that are no product.
CHANGES = (
    ('residence = ["household", "quarters"]', 'residence = ["household", "quarters"]\nsex = ["f", "m"]'),
    ('head = ["adult", "old"], children', 'head = ["adult", "old"], head_sex = ["f", "m"], children'),
    ('householder = { age = "head" }', 'householder = { age = "head", sex = "head_sex" }'),
)


def test_limits_that_no_query_can_state_are_refused(tmp_path: Path) -> None:
    spec = write_homes(tmp_path / "spec", *CHANGES)
    with pytest.raises(InputError, match=r"joins: the households limit a set of groups .* that no query can state"):
        request_of(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert any("that no query can state" in finding.text for finding in validate(None, spec).findings)
