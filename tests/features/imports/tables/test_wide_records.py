"""Records with many attributes: the import keeps them all, and leaves to the run which pairs are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import needs
from releases.small import run
from releases.wide import ATTRIBUTES, leaves, records

import features.imports.tables.importer as importer
from features.imports.tables.asked import Asked
from features.imports.tables.importer import ImportedTable, TableRequest, TableSource, import_table
from flows.checks.validation import validate
from pipeline.spec.release_spec import load_spec

#: 1,440 cells of the small table, times 3 ^ 2 of two more questions.
MORE = ("benefit", "illness")


def imported(folder: Path, table: pd.DataFrame, form: str | None = "microdata") -> ImportedTable:
    table.to_csv(folder / "persons.csv", index=False)
    pd.DataFrame({"block": leaves()}).assign(tract=lambda one: one["block"].str[:3]).to_csv(
        folder / "areas.csv", index=False
    )
    source = TableSource(str(folder / "persons.csv"))
    request = TableRequest(source, areas=folder / "areas.csv", key=None, reading=Asked(form=form))  # type: ignore[arg-type]
    return import_table(request, folder / "in")


def wide(n: int = 600) -> pd.DataFrame:
    """Records with nine attributes, an amount in whole units, and one with cents."""
    rng = np.random.default_rng(8)
    table = records(n=n)
    for name in MORE:
        table[name] = rng.choice(["no", "yes", "unknown"], n)
    return table.assign(wage=rng.integers(300, 500, n) * 10, rent=np.round(rng.lognormal(6, 1, n), 2))


@needs("marginals")
def test_a_wide_table_becomes_a_release_of_pairs(tmp_path: Path) -> None:
    """Nothing is wrong with the spec, and the run makes records of all attributes; amounts are left out, and said."""
    table = wide()
    found = imported(tmp_path, table)
    text = found.spec.read_text()
    assert "[marginals.choose]" in text
    assert "[tables]" not in text
    assert any("pairs of them are measured, which a run chooses privately" in line for line in found.messages)
    for name in ("wage", "rent"):
        assert any(f"left out: column {name!r}" in line and "amount" in line for line in found.messages), name
    keyed = text.replace("[privacy]", '[privacy]\nkey = "insecure-test:4"').replace("# accept", "accept")
    found.spec.write_text(keyed + "\n[publish]\nmargins = false\n")
    assert validate(tmp_path / "persons.csv", found.spec).findings == []
    released = run(found.spec, tmp_path / "out") / "public" / "microdata.parquet"
    made = pq.read_table(released).to_pandas()
    assert {*ATTRIBUTES, *MORE} <= {*made.columns}
    assert abs(len(made) - len(table)) < 40  # ten times the standard deviation of the total
    for name in MORE:
        assert set(made[name].astype(str)) <= {"no", "yes", "unknown"}


@needs("marginals")
def test_the_choice_is_not_made_from_the_records(tmp_path: Path) -> None:
    """Records in which attributes hang together otherwise, with the same values, give the same spec to the letter."""
    table = wide()
    names = [*ATTRIBUTES, *MORE]
    rng = np.random.default_rng(2)
    other = table.assign(**{name: rng.permutation(table[name].to_numpy()) for name in names})
    texts = []
    for number, one in enumerate((table, other)):
        folder = tmp_path / str(number)
        folder.mkdir()
        texts.append(imported(folder, one).spec.read_text().replace(str(folder), "FOLDER"))
    assert texts[0] == texts[1]


@needs("marginals")
def test_amounts_are_proposed_by_bins_that_say_nothing_of_them_and_are_left_to_the_user(tmp_path: Path) -> None:
    """Records with a hundred times the wages give the same text; with the # taken away it runs."""
    texts = []
    for number, times in enumerate((1, 100)):
        folder = tmp_path / str(number)
        folder.mkdir()
        table = wide().assign(**{"weekly wage": lambda one, times=times: one["wage"] * times})
        texts.append(imported(folder, table.drop(columns="wage")).spec.read_text().replace(str(folder), "FOLDER"))
    assert texts[0] == texts[1]
    assert "# [marginals.amounts]" in texts[0]
    assert "rent = [" not in texts[0], "cents are no whole numbers"
    start = texts[0].index("# [marginals.amounts]")
    stop = texts[0].index("# its column", start)
    block = "".join(line.removeprefix("# ") for line in texts[0][start:stop].splitlines(keepends=True))
    text = (texts[0][:start] + block + texts[0][stop:]).replace("FOLDER", str(tmp_path / "1"))
    columns = '# its column, in [input]: columns = { weekly_wage = "weekly wage" }'
    assert columns in text
    text = text.replace("[input]\n", '[input]\ncolumns = { weekly_wage = "weekly wage" }\n')
    keyed = text.replace("[privacy]", '[privacy]\nkey = "insecure-test:4"').replace("# accept", "accept")
    spec = tmp_path / "1" / "in" / "release.toml"
    spec.write_text(keyed + "\n[publish]\nmargins = false\n")
    made = pq.read_table(run(spec, tmp_path / "out") / "public" / "microdata.parquet").to_pandas()
    assert (made["weekly_wage"].astype(str) == "100000..999999").mean() > 0.8
    assert made["weekly_wage_drawn"].between(0, 999_999).all()


@needs("marginals")
def test_few_cells_are_measured_whole_and_many_attributes_are_cut(tmp_path: Path) -> None:
    """Up to 2,100 cells nothing changes; beyond 40 attributes the others are left out, with the reason."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    assert "detailed" in imported(small, records(n=300)).spec.read_text()
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"block": rng.choice(leaves()[:-1], 300)})
    table = table.assign(**{f"q{number}": rng.choice(["no", "yes"], 300) for number in range(43)})
    found = imported(large, table)
    universes = load_spec(found.spec).universes()
    assert {one.name for universe in universes for one in universe.schema.attributes} == {f"q{n}" for n in range(40)}
    assert sum("there are 40 attributes before it" in line for line in found.messages) == 3
    assert any("about 10^12 cells" in line for line in found.messages)


def test_without_the_feature_attributes_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in tables of counts: the spec is one that this installation reads."""
    monkeypatch.setattr(importer, "fields_of", lambda *_: {})
    found = imported(tmp_path, wide())
    assert "[marginals" not in found.spec.read_text()
    assert any("cells in all, more than 2,100" in line for line in found.messages)
