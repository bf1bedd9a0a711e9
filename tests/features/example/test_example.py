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


def test_block_codes_are_unique_and_whole_for_every_seed() -> None:
    """No tract has ten block groups, no group a thousand blocks."""
    for seed in range(3):
        codes = block_codes(seed).tolist()
        assert (len(set(codes)), set(map(len, codes))) == (25_000, {15})


def test_what_cannot_be_written_is_told_and_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "release.toml").write_text("mine")
    for place, people, seed, told in (
        (tmp_path, 10, 1, r"holds release\.toml already; give one that is new or empty"),
        (tmp_path / "release.toml" / "state", 10, 1, "the example cannot be written there"),
        (tmp_path / "state", 0, 1, "found 0; "),
        (tmp_path / "state", 10, -1, "found -1; "),
    ):
        with pytest.raises(InputError, match=told):
            write_example(place, people=people, seed=seed)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("release.toml", "mine")]


def test_the_spec_states_what_its_description_says(example: Path) -> None:
    """The budget, the shares, and made-up names of which no two of one level are alike."""
    spec = load_spec(example)
    (universe,) = spec.universes()
    levels = {level.level: str(level.share) for level in universe.strategy.levels}
    assert levels == {"state": "1/5", "county": "3/20", "tract": "3/20", "block_group": "1/4", "block": "1/4"}
    for level in universe.strategy.levels:
        shares = {measured.query.name: str(measured.share) for measured in level.queries}
        assert shares == {"total": "3/10", "votingage": "1/10", "race": "3/10", "detailed": "3/10"}
    assert (universe.framework, str(universe.budget), universe.neighbours) == ("zcdp", "64/25", "change-one")
    names = read_names(spec.geography, read_spine(spec.geography))
    found = {level: of.in_language() for level, of in names.items()}
    assert {level: len(set(texts)) for level, texts in found.items()} == {"state": 1, "county": 5, "tract": 250}
