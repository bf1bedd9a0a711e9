"""The small releases hold what is stored of them, column by column; and a change of one number is told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from project.same_bytes import other
from releases.small import run

from matrix.cases import CASES
from matrix.content import content_of, differences, streams_of
from matrix.store import STORED, stored


def test_each_is_stored_and_nothing_else() -> None:
    assert {path.stem for path in STORED.glob("*")} == {release.name for release in CASES}


def test_one_changed_number_is_told(tmp_path: Path) -> None:
    """Of each kind of file, the smallest change of one value."""
    town = next(release for release in CASES if release.name == "town")
    spec = town.write(tmp_path / "in")
    assert isinstance(spec, Path)
    public = run(spec, tmp_path / "out") / "public"
    before = content_of(public)
    kept = {name: text for name, text in stored("town").items() if not name.startswith("stream ")}
    assert differences({f"out/town: {name}": text for name, text in before.items()}, kept) == []
    for file, column in (("tables/sex/tract.parquet", 1), ("measurements/block/total.parquet", "value")):
        changed = tmp_path / "changed"
        shutil.copytree(public, changed)
        table = pq.read_table(changed / file)
        name = column if isinstance(column, str) else table.column_names[column]
        values = table.column(name).combine_chunks()
        flat = values.flatten() if pa.types.is_list(values.type) else values
        one_more = pa.array([flat[0].as_py() + 1, *flat.to_pylist()[1:]], flat.type)
        again = pa.ListArray.from_arrays(values.offsets, one_more) if pa.types.is_list(values.type) else one_more
        field = table.schema.field(name)
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, pa.field(name, again.type, field.nullable), again), changed / file)
        told = differences(before, content_of(changed))
        assert [line.partition(": was")[0] for line in told] == [f"{file}: column {name}"]
        shutil.rmtree(changed)


def test_another_stream_of_noise_is_told() -> None:
    """Another key of it, and another fingerprint that it is bound to."""
    line = '["block", "total", ["0a", "1b", "2c"], "3d"]'
    before = streams_of([line])
    assert differences(before, streams_of([line.replace("3d", "4d")])) == [
        "stream block, total, 0a 1b 2c: was 3d, is 4d"
    ]
    assert len(differences(before, streams_of([line.replace("1b", "1c")]))) == 2
    for release in CASES:
        drawn = [name for name in stored(release.name) if name.startswith("stream ")]
        assert drawn or release.name in ("survey", "unary", "words"), release.name


def test_the_comparison_of_two_versions_names_what_is_other(tmp_path: Path) -> None:
    """`make same` compares bytes; of a release that is charged, content without receipts. One number is enough."""
    base, head = tmp_path / "base", tmp_path / "head"
    files = {}
    for side in (base, head):
        for release in CASES:
            receipts = side.name if release.charged else ""
            for place in release.published:
                file = side / release.name / place / "public" / "table.json"
                file.parent.mkdir(parents=True)
                file.write_text(json.dumps({"count": 7, "receipts": receipts}))
                files[f"{release.name}/{place}"] = file  # in the end, those of the second side
        (side / "help.txt").write_text("help")
    assert other(base, head) == []
    for name, file in files.items():
        kept = file.read_text()
        file.write_text(kept.replace("7", "8"))
        (told,) = other(base, head)
        assert told.startswith(name)
        file.write_text(kept)
    (head / "help.txt").write_text("other help")
    assert len(other(base, head)) == 1
