"""Noise on counts that are made of mixed numbers: its variance is a value of the header, and counts are unbiased."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import ReleaseError
from pipeline.estimation.measurement_files import MeasurementSource, differing
from pipeline.model.mixed import MixedNoise, Unmixed
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.privacy.budget import NoiseSpec
from pipeline.release.measurements import MeasurementHeader, MeasurementWriter, read_measurement
from pipeline.storage.readable import unchecked

DRAWN = NoiseSpec("discrete_gaussian", Fraction(5000))
NOISE = MixedNoise(DRAWN, (-3, 11), Fraction(1, 100))


def _header(row: tuple[int, ...] = NOISE.row) -> MeasurementHeader:
    return MeasurementHeader("block", "sex", 2, NOISE.mechanism, NOISE.scale, NOISE.variance, row=row)


def test_a_variance_is_a_value_and_not_a_rule_of_the_scale() -> None:
    assert NOISE.scale == 5000
    assert NOISE.variance == pytest.approx(50)
    assert NOISE.simulated.variance == pytest.approx(50)


def test_a_file_of_mixed_numbers_is_read_back_as_counts(tmp_path: Path) -> None:
    path, codes = tmp_path / "sex.parquet", np.array(["1", "2", "3"])
    numbers = np.array([[110, 55], [-11, 0], [22, 33]])
    with MeasurementWriter.open(path, tmp_path, _header()) as writer:
        writer.write(codes, numbers)
    assert read_measurement(unchecked(path)).header == _header()
    query = Query.parse("sex", Schema((Attribute("sex", ("f", "m")),)))
    read = MeasurementSource(unchecked(path), _header(), query, to_counts=Unmixed(11)).read(codes)
    assert read.values.tolist() == [[10, 5], [-1, 0], [2, 3]]
    assert read.variance == pytest.approx(50)
    with pytest.raises(ReleaseError, match=r"its row is \(-3, 11\), and \(-2, 11\) is expected"):
        MeasurementSource(unchecked(path), _header((-2, 11)), query).read(codes)
    assert differing(_header(), _header()) is None


@pytest.mark.parametrize(("mechanism", "row"), [("mixed", ()), ("discrete_gaussian", (1,)), ("mixed", (1.5,))])
def test_mixed_numbers_alone_have_a_row(mechanism: str, row: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="mixed numbers, and they alone, have a row"):
        MeasurementHeader("block", "sex", 2, mechanism, Fraction(1), 1.0, row=row)  # type: ignore[arg-type]


def test_noise_without_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="a row that ends above 0"):
        MixedNoise(DRAWN, (1, 0), Fraction(1))
