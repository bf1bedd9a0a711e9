"""The small town with names of its areas and labels of its values, some of which are meant to do harm."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from releases.small import QUICK, write_town

#: Names that are no markup, no formula and no two fields.
SCRIPT = "<script>alert('A')</script> & \"Sons\", Ltd"
FORMULA = '=HYPERLINK("http://x","y")'
TURNED = "\u05d1\u05d9\u05ea\u200f 7"
COUNTIES = {"A": ("Alder County", "Condado de Alisos"), "B": ("Birch County", "Condado de Abedules")}
TRACTS = {"A01": SCRIPT, "A02": FORMULA, "A03": "Springfield", "B01": TURNED, "B02": "Springfield", "B03": "Old Town"}

GEOGRAPHY = """levels = { county = 1, tract = 3, block = 5 }

[geography.names]
county = { file = "counties.csv", code = "county", name = { en = "name", es = "nombre" } }
tract = "place"

[geography.labels]
county = { en = "County", es = "Condado" }
"""
LABELS = """quarters = ["house", "dorm", "prison"]

[schema.labels]
records = { en = "residents", es = "habitantes" }
attributes = { sex = { en = "Sex", es = "Sexo" } }
values.sex = { f = { en = "Women", es = "Mujeres" }, m = { en = "Men", es = "Hombres" } }
values.grown = { grown = "Adults <b>" }
tables = { sex = { en = "Sex and age", es = "Sexo y edad" } }
"""
REPORT = """
[report]
title = "The town's <people>"
publisher = "Office of Towns"
reference_date = 2030-04-01
contact = "counts@town.example"
licence = "CC-BY-4.0"
citation = "Office of Towns (2031): The town's people"
notes = ["The first note.", "=1+1 is a note, too."]
definitions = { dorm = "A building of students." }

[tables]
"""
COMPANION = """schema.attributes.status = ["occupied", "vacant"]
schema.labels.values.status = { occupied = "Lived in" }
"""
CHANGES = (
    ("levels = { county = 1, tract = 3, block = 5 }\n", GEOGRAPHY),
    ('quarters = ["house", "dorm", "prison"]\n', LABELS),
    ("\n[tables]\n", REPORT),
    ('schema.attributes.status = ["occupied", "vacant"]\n', COMPANION),
)


def write_named_town(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the town with names and labels: files and spec; `changes` as in `write_town`."""
    spec = write_town(folder, *QUICK, *CHANGES, *changes)
    write_names(folder)
    return spec


def write_names(folder: Path) -> None:
    """The town's list of leaves with a column of names, and the counties' own file."""
    blocks = pd.read_csv(folder / "blocks.csv", dtype=str)
    blocks.assign(place=blocks["block"].str[:3].map(TRACTS)).to_csv(folder / "blocks.csv", index=False)
    rows = [(code, *names) for code, names in sorted(COUNTIES.items(), reverse=True)]
    pd.DataFrame(rows, columns=["county", "name", "nombre"]).to_csv(folder / "counties.csv", index=False)
