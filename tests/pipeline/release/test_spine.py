"""The published spine reads back the same; a damaged one is refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.small import write_town

from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Bound
from pipeline.release.spine import read_public_spine, write_spine
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked


@pytest.fixture
def town_files(tmp_path: Path) -> tuple[Bound, Spine]:
    spec = load_spec(write_town(tmp_path))
    return spec.universes()[0].bounds[0], read_spine(spec.geography)


def test_a_spine_reads_back_as_it_was_published(town_files: tuple[Bound, Spine], tmp_path: Path) -> None:
    _, spine = town_files
    path = tmp_path / "spine.parquet"
    write_spine(path, tmp_path, spine)
    assert read_public_spine(unchecked(path), spine.level_names).fingerprint() == spine.fingerprint()
    with pytest.raises(ReleaseError, match="is damaged: level 'district'"):
        read_public_spine(unchecked(path), ["county", "district"])
    pd.DataFrame({"county": ["A"]}).to_parquet(path)
    with pytest.raises(ReleaseError, match="header is missing"):
        read_public_spine(unchecked(path), ["county"])
