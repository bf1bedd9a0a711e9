"""The example is a whole release in small: records, spine and spec that fit together, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from features.example.example import LEVELS, block_codes, write_example
from features.example.population import SCHEMA
from geography.build import spine_from_prefixes
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.inputs.names import read_names
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.spec.release_spec import load_spec


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example(tmp_path_factory.mktemp("example") / "state", people=200_000, seed=11)


def test_files(example: Path) -> None:
    """A spec, and the two Parquet files that it names, with text columns."""
    assert example.name == "release.toml"
    assert sorted(path.name for path in example.parent.iterdir()) == [
        "blocks.parquet",
        "counties.geojson",
        "names.csv",
        "persons.parquet",
        "release.toml",
        "tracts.geojson",
    ]
    persons = pq.read_schema(example.parent / "persons.parquet")
    assert {field.name: str(field.type) for field in persons} == dict.fromkeys(["block", "votingage", "race"], "string")
    assert pq.read_schema(example.parent / "blocks.parquet").names == list(LEVELS)


def test_spine(example: Path) -> None:
    """5 counties of very different size, 250 tracts, 800 block groups, 25,000 blocks; codes nest by prefixes."""
    table = pq.read_table(example.parent / "blocks.parquet")
    spine = spine_from_prefixes(table["block"].to_numpy().astype(np.str_), LEVELS)
    assert [len(level) for level in spine.levels] == [1, 5, 250, 800, 25_000]
    assert spine.to_table().equals(table)
    assert set(spine.levels[0].geocodes) == {"99"}
    assert all(code.isdecimal() for code in spine.levels[3].geocodes)
    blocks_of_county = np.diff(spine.leaf_offsets(1))
    assert blocks_of_county.max() > 5 * blocks_of_county.min()


def test_spec_and_records_fit(example: Path) -> None:
    """The spec reads the records without a word, and says what the records are."""
    spec = load_spec(example)
    (universe,) = spec.universes()
    assert universe.schema.attributes == SCHEMA.attributes
    assert universe.input is not None
    assert spec.geography.file == example.parent / "blocks.parquet"
    assert spec.geography.prefix_lengths == LEVELS
    table = pq.read_table(spec.geography.file, columns=[spec.geography.column])
    spine = spine_from_prefixes(table.column(0).to_numpy().astype(np.str_), spec.geography.prefix_lengths)
    counts = tabulate(universe.input, universe.schema, spine)
    assert counts.sum() == pq.read_metadata(universe.input.file).num_rows == 200_000
    assert roll_up(spine, counts)[0].nnz == 16, "every group is there"


def test_strategy_of_the_spec(example: Path) -> None:
    """The budget and the shares are those of the example's description."""
    (universe,) = load_spec(example).universes()
    levels = {level.level: str(level.share) for level in universe.strategy.levels}
    assert levels == {"state": "1/5", "county": "3/20", "tract": "3/20", "block_group": "1/4", "block": "1/4"}
    for level in universe.strategy.levels:
        shares = {measured.query.name: str(measured.share) for measured in level.queries}
        assert shares == {"total": "3/10", "votingage": "1/10", "race": "3/10", "detailed": "3/10"}
    assert (universe.framework, str(universe.budget), universe.neighbours) == ("zcdp", "64/25", "change-one")
    assert [(level, query.name) for level, query in universe.invariants] == [("state", "total")]
    assert [query.name for query in universe.passes] == ["total"]
    assert [table.name for table in universe.tables] == ["total", "race", "voting_age", "minority_adults"]


def test_same_bytes(tmp_path: Path) -> None:
    """The same seed writes the same bytes, another seed other records and another spine."""

    def written(name: str, seed: int) -> dict[str, bytes]:
        folder = write_example(tmp_path / name, people=5000, seed=seed).parent
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    one, again, other = written("one", 1), written("again", 1), written("other", 2)
    assert one == again
    assert one["persons.parquet"] != other["persons.parquet"]
    assert one["blocks.parquet"] != other["blocks.parquet"]
    assert one["release.toml"] == other["release.toml"]


def test_records_are_in_no_order(example: Path) -> None:
    """Like real records they are not sorted, so nothing can lean on it."""
    blocks = pq.read_table(example.parent / "persons.parquet")["block"].to_numpy().astype(np.str_)
    assert 0.4 < (blocks[1:] > blocks[:-1]).mean() < 0.6


@pytest.mark.parametrize("seed", range(5))
def test_block_codes(seed: int) -> None:
    """Codes are unique and whole for every seed: no tract has ten block groups, no group a thousand blocks."""
    codes = block_codes(seed)
    assert len(set(codes.tolist())) == 25_000
    assert set(map(len, codes.tolist())) == {15}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A spec that somebody has edited is safe."""
    (tmp_path / "release.toml").write_text("mine")
    with pytest.raises(InputError) as caught:
        write_example(tmp_path, people=10)
    assert str(caught.value) == f"{tmp_path}: the folder holds release.toml already; give one that is new or empty"
    assert [path.name for path in tmp_path.iterdir()] == ["release.toml"]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the way is told with the place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/state: the example cannot be written there: Not a directory"):
        write_example(tmp_path / "file" / "state", people=10)


@pytest.mark.parametrize(("people", "seed"), [(0, 1), (10, -1)])
def test_wrong_numbers(tmp_path: Path, people: int, seed: int) -> None:
    """Nothing is written for no people or a negative seed."""
    with pytest.raises(InputError, match=r"found (0|-1); "):
        write_example(tmp_path / "state", people=people, seed=seed)
    assert not (tmp_path / "state").exists()


def test_areas_have_names(example: Path) -> None:
    """Names of states, counties and tracts, no two of one level alike; made up, and taken from no record."""
    spec = load_spec(example)
    names = read_names(spec.geography, read_spine(spec.geography))
    found = {level: of.in_language() for level, of in names.items()}
    assert {level: len(set(texts)) for level, texts in found.items()} == {"state": 1, "county": 5, "tract": 250}
    assert found["county"][1] == "Birch County"
