"""Tables that others protected: how they are judged, and that simulated runs protect the estimate as the office did."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from releases.protected_tables import SPEC, of_level, truth, write_tables

from features.published.agreement import LEAST, MANY, MOST, check_agreement, comparisons
from features.published.keys import PublishedKeys, ReceivedTables
from features.published.section import PublishedNumbers
from geography.spine import Spine
from pipeline.disclosure.cell_keys import CellKeyParameters, CellKeys, probabilities
from pipeline.disclosure.method import DisclosureMethod
from pipeline.disclosure.rounding import Gaussian, RandomRounding, Rounding
from pipeline.errors import InputError, SpecError
from pipeline.estimation.margins import PublicNoise
from pipeline.inputs.geography import read_spine
from pipeline.inputs.public_input import InputScope
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.arrays import IntArray

CELL_KEYS = CellKeys.of(CellKeyParameters())
STATED = {
    "rounding": (Rounding(5), 'method = "rounding"\nbase = 5'),
    "random-rounding": (RandomRounding(3), 'method = "random-rounding"\nbase = 3'),
    "cell-keys": (CELL_KEYS, 'method = "cell-keys"\nmost = 5\nvariance = "3"\nunpublished = 2'),
    "gaussian": (Gaussian(Fraction(5, 2)), 'method = "gaussian"\nsd = "5/2"'),
}
_AS_STATED = 'method = "random-rounding"\nbase = 5'


def read(folder: Path) -> tuple[ReleaseSpec, Spine, dict[PublishedNumbers, IntArray]]:
    """A spec in a folder, and what its files hold, without any judgement."""
    spec = load_spec(folder / "mended.toml")
    universes, spine = spec.universes(), read_spine(spec.geography)
    keys = cast("PublishedKeys", spec.parts[0])
    (files,) = keys.public_inputs()
    return spec, spine, dict(files._read(InputScope(spec, universes, spine)))


@pytest.mark.parametrize("method", STATED)
def test_tables_protected_as_stated_agree(method: str, tmp_path: Path) -> None:
    """Of large counts the mean square of the differences is the stated variance, for each method."""
    protects, text = STATED[method]
    write_tables(tmp_path, protects, truth(150), SPEC.replace(_AS_STATED, text))
    spec, spine, numbers = read(tmp_path)
    check_agreement(spine, numbers)
    found = [one for one in comparisons(spine, numbers) if one.n >= MANY]
    assert len(found) >= 2
    assert all(LEAST <= one.ratio <= MOST for one in found)
    assert load_spec(tmp_path / "mended.toml").public_dict() == spec.public_dict()
    again = ReleaseSpec.from_public_dict(spec.public_dict())
    assert [one.noises for one in again.universes()[0].draws()] == [one.noises for one in spec.universes()[0].draws()]


@pytest.mark.parametrize(
    ("protects", "stated"),
    [
        (RandomRounding(10), "random-rounding"),
        (RandomRounding(5), "rounding"),
        (Gaussian(Fraction(4)), "gaussian"),
        (Gaussian(Fraction(1)), "gaussian"),
    ],
    ids=str,
)
def test_another_method_or_base_is_refused_with_its_figure(
    protects: DisclosureMethod, stated: str, tmp_path: Path
) -> None:
    """None of these publishes a number that the stated method cannot."""
    text = _AS_STATED if stated == "random-rounding" else STATED[stated][1]
    write_tables(tmp_path, protects, truth(150), SPEC.replace(_AS_STATED, text))
    _, spine, numbers = read(tmp_path)
    figure = r"differ by \d+\.\d\d times the variance that is stated|no counts can have been"
    with pytest.raises(InputError, match=figure):
        check_agreement(spine, numbers)


def test_areas_whose_numbers_contradict_each_other_are_named(tmp_path: Path) -> None:
    write_tables(tmp_path, counts=truth(1))
    blocks = pd.read_csv(tmp_path / "blocks.csv", dtype={"geocode": str})
    blocks.loc[blocks["geocode"] == "B23", "sexes.f"] += 500
    blocks.to_csv(tmp_path / "blocks.csv", index=False)
    _, spine, numbers = read(tmp_path)
    with pytest.raises(InputError, match=r"no counts can have been published as these numbers in 1 areas: 'B'|'B2'"):
        check_agreement(spine, numbers)


def simulated(noise: PublicNoise, spine: Spine, leaves: IntArray, source: ReceivedTables) -> dict[tuple[str, str], Any]:
    """(level, query) -> errors of one simulated run."""
    found, place = {}, dict.fromkeys(spine.level_names, 0)
    for level, query, _ in source.numbers:
        answers = query.answer(of_level(leaves, level)[1])
        found[level, query.name] = noise.draw(0, spine.index_of(level), place[level], 0, answers)
        place[level] += 1
    return found


def test_the_same_records_have_the_same_simulated_error(tmp_path: Path) -> None:
    """Cell keys: a tract with one inhabited block, and a table of which one cell is not empty."""
    protects, text = STATED["cell-keys"]
    leaves = truth(20)
    leaves[1:6] = 0  # of tract A1 only the first block has people
    leaves[0, 1:] = 0
    write_tables(tmp_path, protects, leaves, SPEC.replace(_AS_STATED, text).replace('absent = ["tract.people"]\n', ""))
    spec = load_spec(tmp_path / "mended.toml")
    (universe,), spine = spec.universes(), read_spine(spec.geography)
    source = cast("ReceivedTables", universe.source)
    sparse = sp.csr_array(leaves)
    noise = PublicNoise.of(1, universe, spine, lambda: sparse)
    errors = simulated(noise, spine, leaves, source)
    one = errors["block", "age * sex"][0, 0]
    assert (one, one) == (errors["tract", "sex"][0, 0], errors["block", "total"][0, 0])
    assert errors["tract", "total"][0, 0] == one
    assert (errors["block", "age * sex"][leaves == 0] == 0).all()
    many = np.concatenate([noise.draw(run, 2, 0, 0, leaves)[leaves > 10] for run in range(20)])
    assert many.var() == pytest.approx(3, rel=0.1)
    runs = np.stack([noise.draw(run, 2, 0, 0, leaves)[leaves > 10] for run in range(2)])
    assert abs(float(np.corrcoef(*runs)[0, 1])) < 0.2
    parts = [noise.draw(3, 2, 0, first, leaves[first : first + 9]) for first in range(0, len(leaves), 9)]
    assert (np.concatenate(parts) == noise.draw(3, 2, 0, 0, leaves)).all()


def test_an_estimate_from_rounded_tables_is_shaken_first(tmp_path: Path) -> None:
    """And one from any other is not."""
    for method, (protects, text) in STATED.items():
        folder = tmp_path / method
        folder.mkdir()
        write_tables(folder, protects, truth(20), SPEC.replace(_AS_STATED, text))
        spec = load_spec(folder / "mended.toml")
        found = spec.universes()[0].source.truth_for_simulation(
            read_spine(spec.geography), lambda: (truth(), truth()), 1, partial(sp.csr_array, truth(20))
        )
        assert (found is not None) == (method == "rounding")
        if found is not None:
            moved: NDArray[np.int64] = found[-1].toarray() - truth(20)
            assert 1.2 < moved.std() < 1.5
            assert (found[0].toarray() == of_level(found[-1].toarray(), "county")[1]).all()


def test_a_perturbation_table_is_published_with_the_spec(tmp_path: Path) -> None:
    rows = [
        {"i": count, "v": error, "p": share}
        for count in range(9)
        for error, share in zip(*probabilities(count, CellKeyParameters()), strict=True)
    ]
    text = SPEC.replace(_AS_STATED, 'method = "cell-keys"\nptable = "ptable.csv"')
    write_tables(tmp_path, CELL_KEYS, truth(150), text)
    with pytest.raises(SpecError, match=r"ptable\.csv"):
        load_spec(tmp_path / "mended.toml")
    pd.DataFrame(rows).to_csv(tmp_path / "ptable.csv", index=False)
    spec, spine, numbers = read(tmp_path)
    check_agreement(spine, numbers)
    again = ReleaseSpec.from_public_dict(spec.public_dict())
    assert [one.noises for one in again.universes()[0].draws()] == [one.noises for one in spec.universes()[0].draws()]


def test_tables_and_levels_have_methods_of_their_own(tmp_path: Path) -> None:
    """The most particular one is that of a table."""
    others = 'other = { block = { method = "rounding", base = 3 }, "block.all" = { method = "gaussian", sd = "2" } }\n'
    write_tables(tmp_path, text=SPEC.replace("exact =", f"{others}exact ="))
    (universe,) = load_spec(tmp_path / "mended.toml").universes()
    found = {
        (level, query.name): noise.method for level, query, noise in cast("ReceivedTables", universe.source).numbers
    }
    assert found["block", "sex"] == Rounding(3)
    assert found["block", "total"] == Gaussian(Fraction(2))
    assert found["tract", "sex"] == RandomRounding(5)
    assert ("tract", "age * sex") not in found
    assert [(level, query.name) for level, query in universe.invariants] == [("county", "total")]
    assert [query.name for query in universe.passes] == ["total", "sex"]
