"""Every person of the example state has a household that fits, by pandas alone; the checker finds whoever has not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from releases.county import keep_county
from releases.small import run

from auditor.check.release import check_release
from features.example.example import write_example

_MOST = 15


def files(root: Path) -> tuple[Path, Path]:
    public = root / "public"
    return public / "microdata.parquet", public / "companions" / "households" / "microdata.parquet"


def read(root: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Persons and households, values as text."""
    people, homes = (pd.read_parquet(path) for path in files(root))
    texts = ("geocode", "residence", "age", "sex", "size", "head", "children")
    return tuple(f.astype({name: str for name in texts if name in f}) for f in (people, homes))  # type: ignore[return-value]


def wrong_households(people: pd.DataFrame, homes: pd.DataFrame) -> set[int]:
    """The numbers of households that are not what their members are; -1 for persons who live nowhere or elsewhere."""
    lives = people.residence == "household"
    members = people[lives].merge(homes, on="household", how="left", suffixes=("", "_home"), validate="m:1")
    wrong = set(members.household[members.geocode != members.geocode_home].fillna(-1).astype(int))
    if people.household[~lives].notna().any():
        wrong.add(-1)
    of = members.household
    found = pd.DataFrame(
        {
            "members": of.value_counts(),
            "children": of[members.age == "0-17"].value_counts(),
            "heads": of[members.age == members["head"]].value_counts(),
        }
    ).reindex(homes.household)
    members_of, children, heads = found.fillna(0).to_numpy().astype(int).T
    least = homes["size"].str.removesuffix("+").astype(int).to_numpy()
    opened = homes["size"].str.endswith("+").to_numpy()
    bad = (members_of != homes.members) | (members_of < least) | (members_of > least + opened * (_MOST - least))
    bad |= (heads < 1) | ((children > 0) != (homes.children == "yes"))
    return wrong | set(homes.household[bad])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest county of it, without margins and maps."""
    folder = tmp_path_factory.mktemp("example")
    spec = write_example(folder / "in", people=150_000, households=True)
    keep_county(folder / "in", "99001")
    text = spec.read_text("utf-8").replace("margins = true", "margins = false").replace("replicates = 20\n", "")
    head, maps, rest = text.partition("[report.polygons.county]")
    assert maps
    spec.write_text(head + rest[rest.index("[publish]") :], "utf-8")
    return run(spec, folder / "out", i_know=True)


@pytest.mark.slow
def test_all_persons_of_the_example_state_live_in_households_that_fit(root: Path, tmp_path: Path) -> None:
    people, homes = read(root)
    assert people.geocode.nunique() > 500
    assert len(homes) > 2_500
    assert wrong_households(people, homes) == set()
    assert check_release(root) == []
    # Five persons in another household of their block: both programs name the same households.
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    several = homes[homes.geocode.duplicated(keep=False)]
    firsts, lasts = (getattr(several.groupby("geocode").household, name)().head(5) for name in ("first", "last"))
    moved: set[int] = set()
    for one, other in zip(firsts, lasts, strict=True):
        row = people.index[people.household == one][0]
        people.loc[row, "household"] = other
        moved |= {int(one), int(other)}
    assert wrong_households(people, homes) == moved
    people.astype({"household": "Int64"}).to_parquet(files(copy)[0], index=False)
    told = "\n".join(check_release(copy))
    where = homes.set_index("household").geocode
    assert sum(f"household {number:,} in block {where[number]!r}" in told for number in moved) >= 3
    assert f"and {len(moved) - 3} more households with other numbers of members than they state" in told
