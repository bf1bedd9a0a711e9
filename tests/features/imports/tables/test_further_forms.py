"""Tables of forms that the corpus does not make, in the layouts of statistical offices: read right, or stopped.

The layouts are those of Nomis and ONS, Eurostat's bulk TSV, Statistics Canada's full tables, the American Community
Survey, StatLine, GENESIS, INSEE, ISTAT and INE, as their documentation describes them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from features.imports.tables.importer import TableRequest, TableSource, import_table
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import load_spec

rng = np.random.default_rng(5)
A = [f"E0600{i:04d}" for i in range(1, 13)]
N = ["Ham", "Ely", "Rye", "Bath", "Ware", "Deal", "Hove", "Leek", "Diss", "Looe", "Bude", "Sale"]
cells = rng.integers(60, 2500, (12, 4))
TOT = int(cells.sum())
sexes = ["Female", "Male"]
ages = ["Under 16", "16 and over"]
long: list[tuple[Any, ...]] = [
    (A[i], N[i], s, a, int(cells[i, j * 2 + k]))
    for i in range(12)
    for j, s in enumerate(sexes)
    for k, a in enumerate(ages)
]


def csvtext(rows: Sequence[Sequence[Any]], sep: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=sep, lineterminator="\n").writerows(rows)
    return text.getvalue()


@dataclass(frozen=True)
class Form:
    """A file; what may become of it: read right, or stopped ("either"), or one of both; the people in it."""

    name: str
    text: str
    total: int | None
    ending: str
    ok: str
    encoding: str


FORMS: list[Form] = []


def case(
    name: str, text: str, total: int | None = TOT, ending: str = ".csv", ok: str = "either", enc: str = "utf-8"
) -> None:
    FORMS.append(Form(name, text, total, ending, ok, enc))


L: list[list[Any]] = [list(r) for r in long]
# 1 nomis style
case(
    "nomis",
    '"LC1117EW - Sex by age"\n"ONS Crown Copyright Reserved [from Nomis]"\n"Population :","All usual residents"\n'
    '"Units      :","Persons"\n"Date       :","2011"\n\n'
    + csvtext(
        [["local authority: district / unitary", "mnemonic", "All categories: Sex", "Males", "Females"]]
        + [[N[i], A[i], int(cells[i].sum()), int(cells[i, 2:].sum()), int(cells[i, :2].sum())] for i in range(12)]
    )
    + "\n\nIn order to protect against disclosure of personal information, records have been swapped.\n",
    ok="right",
)
case(
    "nomis api",
    csvtext(
        [
            [
                "DATE",
                "GEOGRAPHY",
                "GEOGRAPHY_NAME",
                "GEOGRAPHY_CODE",
                "GEOGRAPHY_TYPE",
                "SEX",
                "SEX_NAME",
                "MEASURES",
                "MEASURES_NAME",
                "OBS_VALUE",
                "OBS_STATUS",
            ]
        ]
        + [
            [
                "2011",
                1946157057 + i // 4,
                r[1],
                r[0],
                "LA",
                ["Female", "Male"].index(r[2]) + 1,
                r[2],
                20100,
                "Value",
                r[4],
                "A",
            ]
            for i, r in enumerate(L)
        ]
    ),
    ok="either",
)
case(
    "nomis value+percent",
    csvtext(
        [["GEOGRAPHY_CODE", "SEX_NAME", "MEASURES_NAME", "OBS_VALUE"]]
        + [
            [A[i], s, m, v]
            for i in range(12)
            for j, s in enumerate(sexes)
            for m, v in (("Value", int(cells[i, 2 * j : 2 * j + 2].sum())), ("Percent", 50))
        ]
    ),
    ok="stop",
)
case(
    "ons custom",
    csvtext(
        [
            [
                "Lower tier local authorities Code",
                "Lower tier local authorities",
                "Sex (2 categories) Code",
                "Sex (2 categories)",
                "Age (2 categories) Code",
                "Age (2 categories)",
                "Observation",
            ]
        ]
        + [[r[0], r[1], sexes.index(r[2]) + 1, r[2], ages.index(r[3]) + 1, r[3], r[4]] for r in L]
    ),
    ok="right",
)


# eurostat tsv
def tsv(vals: Sequence[Callable[[int], str]], years: Sequence[str] = ("2021 ",)) -> str:
    return (
        "freq,sex,age,geo\\TIME_PERIOD\t"
        + "\t".join(years)
        + "\n"
        + "".join(
            f"A,{'F' if r[2] == 'Female' else 'M'},{'Y_LT16' if r[3] == ages[0] else 'Y_GE16'},{r[0]}\t"
            + "\t".join(v(r[4]) for v in vals)
            + "\n"
            for r in L
        )
    )


case("eurostat tsv", tsv([lambda n: f"{n} "]), ending=".tsv", ok="either")
case("eurostat tsv flags", tsv([lambda n: f"{n} p"]), ending=".tsv")
case("eurostat tsv colon", tsv([lambda n: f"{n} " if n != L[5][4] else ": "]), ending=".tsv", ok="stop")
case(
    "eurostat tsv two years",
    tsv([lambda n: f"{n} ", lambda n: f"{n + 1} "], ("2020 ", "2021 ")),
    ending=".tsv",
    ok="stop",
)
# statcan
SC = [
    "REF_DATE",
    "GEO",
    "DGUID",
    "Sex",
    "Age group",
    "UOM",
    "UOM_ID",
    "SCALAR_FACTOR",
    "SCALAR_ID",
    "VECTOR",
    "COORDINATE",
    "VALUE",
    "STATUS",
    "SYMBOL",
    "TERMINATED",
    "DECIMALS",
]
case(
    "statcan",
    csvtext(
        [SC]
        + [
            [
                "2021",
                r[1],
                "2021A0005" + r[0][-7:],
                r[2],
                r[3],
                "Persons",
                "249",
                "units",
                "0",
                f"v{i}",
                f"1.{i}",
                r[4],
                "",
                "",
                "",
                "0",
            ]
            for i, r in enumerate(L)
        ]
    ),
    ok="right",
)
case(
    "statcan thousands scalar",
    csvtext(
        [SC]
        + [
            [
                "2021",
                r[1],
                "2021A0005" + r[0][-7:],
                r[2],
                r[3],
                "Persons",
                "249",
                "thousands",
                "3",
                f"v{i}",
                f"1.{i}",
                r[4] // 1000,
                "",
                "",
                "",
                "0",
            ]
            for i, r in enumerate(L)
        ]
    ),
    ok="stop",
)
case(
    "statcan status",
    csvtext(
        [SC]
        + [
            [
                "2021",
                r[1],
                "2021A0005" + r[0][-7:],
                r[2],
                r[3],
                "Persons",
                "249",
                "units",
                "0",
                f"v{i}",
                f"1.{i}",
                r[4] if i != 7 else "",
                "x" if i == 7 else "",
                "",
                "",
                "0",
            ]
            for i, r in enumerate(L)
        ]
    ),
    ok="stop",
)
case(
    "statcan totals",
    csvtext(
        [SC]
        + [
            [
                "2021",
                r[1],
                "2021A0005" + r[0][-7:],
                s,
                r[3],
                "Persons",
                "249",
                "units",
                "0",
                f"v{i}",
                f"1.{i}",
                v,
                "",
                "",
                "",
                "0",
            ]
            for i, r in enumerate(L)
            if r[2] == "Female"
            for s, v in (("Both sexes", r[4] + L[i + 2][4]), ("Females", r[4]), ("Males", L[i + 2][4]))
        ]
    ),
    ok="right",
)
# acs
case(
    "acs profile",
    csvtext(
        [
            ["GEO_ID", "NAME", "DP05_0001E", "DP05_0001M", "DP05_0002E", "DP05_0002M", "DP05_0003E", "DP05_0003M"],
            [
                "Geography",
                "Geographic Area Name",
                "Estimate!!Total population",
                "Margin of Error!!Total population",
                "Estimate!!Total population!!Male",
                "Margin of Error!!Male",
                "Estimate!!Total population!!Female",
                "Margin of Error!!Female",
            ],
        ]
        + [
            [
                f"0500000US{i:05d}",
                f"{N[i]} County, Alabama",
                int(cells[i].sum()),
                "*****",
                int(cells[i, 2:].sum()),
                12 + i,
                int(cells[i, :2].sum()),
                14 + i,
            ]
            for i in range(12)
        ]
    ),
    ok="either",
)
case(
    "acs api",
    csvtext(
        [["NAME", "B01001_001E", "B01001_001M", "B01001_002E", "B01001_026E", "state", "county"]]
        + [
            [N[i], int(cells[i].sum()), -555555555, int(cells[i, 2:].sum()), int(cells[i, :2].sum()), "01", f"{i:03d}"]
            for i in range(12)
        ]
    ),
)
# cbs
case(
    "cbs statline",
    csvtext(
        [["ID", "Geslacht", "Leeftijd", "RegioS", "Perioden", "Bevolking_1"]]
        + [[i, "T001038", r[3], "GM" + r[0][-4:], "2021JJ00", r[4]] for i, r in enumerate(L)],
        ";",
    ),
    ok="either",
)
case(
    "cbs statline dot",
    csvtext(
        [["ID", "Geslacht", "RegioS", "Perioden", "Bevolking_1"]]
        + [[i, r[2] + r[3], "GM" + r[0][-4:], "2021JJ00", r[4] if i != 3 else "       ."] for i, r in enumerate(L)],
        ";",
    ),
    ok="stop",
)
case("px", 'CHARSET="ANSI";\nAXIS-VERSION="2000";\nDATA=1 2 3;\n', ending=".px", ok="stop")
# destatis genesis: title, several header rows, notes
g = (
    [
        ["Bevoelkerung: Kreise, Stichtag, Geschlecht"],
        ["Fortschreibung des Bevoelkerungsstandes"],
        [],
        ["", "", "maennlich", "weiblich", "Insgesamt"],
        ["", "", "Anzahl", "Anzahl", "Anzahl"],
    ]
    + [
        [f"{1001 + i:05d}", N[i] + ", Stadt", int(cells[i, 2:].sum()), int(cells[i, :2].sum()), int(cells[i].sum())]
        for i in range(12)
    ]
    + [["__________"], ["© Statistisches Bundesamt (Destatis), 2024 | Stand: 01.01.2024"]]
)
case("genesis", csvtext(g, ";"))
g2 = [list(r) for r in g]
g2[3][:2] = ["Kreis", "Name"]
case("genesis named", csvtext(g2, ";"), ok="right")
case(
    "genesis dash",
    csvtext([r if len(r) < 5 or not r[2] or r[0] != "01004" else [*r[:2], "-", *r[3:]] for r in g2], ";"),
    ok="stop",
)
# insee
case(
    "insee iris",
    csvtext(
        [["IRIS", "COM", "LIBIRIS", "P19_POP", "P19_H", "P19_F"]]
        + [
            [
                f"0100{i // 4}{i:04d}",
                f"0100{i // 4}",
                N[i],
                int(cells[i].sum()),
                int(cells[i, 2:].sum()),
                int(cells[i, :2].sum()),
            ]
            for i in range(12)
        ],
        ";",
    ),
)
# istat
case(
    "istat",
    csvtext(
        [["Codice comune", "Comune", "Età", "Totale Maschi", "Totale Femmine", "Totale"]]
        + [
            [f"{1001 + i:06d}", N[i], e, int(cells[i, 2 + k]), int(cells[i, k]), int(cells[i, 2 + k] + cells[i, k])]
            for i in range(12)
            for k, e in enumerate(["0", "1"])
        ]
    ),
)
case(
    "istat with 999",
    csvtext(
        [["Codice comune", "Comune", "Età", "Maschi", "Femmine"]]
        + [
            [f"{1001 + i:06d}", N[i], e, a, b]
            for i in range(12)
            for e, a, b in (
                ("0", cells[i, 2], cells[i, 0]),
                ("1", cells[i, 3], cells[i, 1]),
                ("999", cells[i, 2:].sum(), cells[i, :2].sum()),
            )
        ]
    ),
)
# ine
case(
    "ine miles",
    csvtext(
        [["Municipios", "Sexo", "Periodo", "Total"]]
        + [[f"{r[0][-5:]} {r[1]}", r[2] + " " + r[3], "2021", f"{r[4]:,}".replace(",", ".")] for r in L],
        ";",
    ),
    ok="right",
)
case(
    "ine total rows",
    csvtext(
        [["Municipios", "Sexo", "Total"]]
        + [
            [f"{A[i][-5:]} {N[i]}", s, v]
            for i in range(12)
            for s, v in (
                ("Total", int(cells[i].sum())),
                ("Hombres", int(cells[i, 2:].sum())),
                ("Mujeres", int(cells[i, :2].sum())),
            )
        ],
        "\t",
    ),
    ok="right",
)
# section headings, blank area below merged
case(
    "merged areas down",
    csvtext(
        [["Area", "Sex", "Count"]]
        + [
            [N[i] if j == 0 else "", s, int(cells[i, 2 * j : 2 * j + 2].sum())]
            for i in range(12)
            for j, s in enumerate(sexes)
        ]
    ),
)
case(
    "subtotal below each",
    csvtext(
        [["Region", "Area", "Count"]]
        + [
            x
            for k in range(3)
            for x in (
                [[f"R{k}", N[i], int(cells[i].sum())] for i in range(4 * k, 4 * k + 4)]
                + [[f"R{k}", "Total", int(cells[4 * k : 4 * k + 4].sum())]]
            )
        ]
        + [["Total", "Total", TOT]]
    ),
    ok="right",
)
case(
    "region total in name",
    csvtext(
        [["Area", "Count"]]
        + [
            x
            for k in range(3)
            for x in (
                [[f"Region {k} total", int(cells[4 * k : 4 * k + 4].sum())]]
                + [[N[i], int(cells[i].sum())] for i in range(4 * k, 4 * k + 4)]
            )
        ]
    ),
    ok="right",
)
case(
    "of which rows",
    csvtext(
        [["Area", "Category", "Count"]]
        + [
            [N[i], c, v]
            for i in range(12)
            for c, v in (("All", int(cells[i].sum())), ("of which: aged 16 and over", int(cells[i, 1] + cells[i, 3])))
        ]
    ),
    ok="stop",
)
case(
    "cumulative ages",
    csvtext(
        [["Area", "Category", "Count"]]
        + [
            [N[i], c, v]
            for i in range(12)
            for c, v in (("16 and over", int(cells[i, 1] + cells[i, 3])), ("All ages", int(cells[i].sum())))
        ]
    ),
    ok="stop",
)
case(
    "negative",
    csvtext([["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], r[4] if i != 4 else -3] for i, r in enumerate(L)]),
    ok="stop",
)
case(
    "accounting negative",
    csvtext([["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], r[4] if i != 4 else "(3)"] for i, r in enumerate(L)]),
    ok="stop",
)
case(
    "scientific",
    csvtext([["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], r[4] if i != 4 else "1.2E+03"] for i, r in enumerate(L)]),
    ok="stop",
)
case(
    "number as text with quote",
    csvtext([["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], "'" + str(r[4])] for i, r in enumerate(L)]),
)
case(
    "rounded to thousands unit",
    csvtext(
        [["Area", "Sex", "Count (thousands)"]] + [[r[1], r[2] + r[3], f"{r[4] / 1000:.1f}"] for i, r in enumerate(L)]
    ),
    ok="stop",
)
case(
    "integer thousands unit",
    csvtext([["Area", "Sex", "Population (in 1000)"]] + [[r[1], r[2] + r[3], r[4] // 100] for i, r in enumerate(L)]),
    ok="stop",
)
case(
    "duplicate rows",
    csvtext(
        [["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], r[4]] for r in L] + [[L[0][1], L[0][2] + L[0][3], L[0][4]]]
    ),
    ok="stop",
)
case(
    "repeated header in the middle",
    csvtext(
        [["Area", "Sex", "Count"]]
        + [[r[1], r[2] + r[3], r[4]] for r in L[:24]]
        + [["Area", "Sex", "Count"]]
        + [[r[1], r[2] + r[3], r[4]] for r in L[24:]]
    ),
    ok="stop",
)
case(
    "second table below",
    csvtext(
        [["Area", "Sex", "Count"]]
        + [[r[1], r[2] + r[3], r[4]] for r in L]
        + [[], ["Area", "Households", ""]]
        + [[N[i], i + 5, ""] for i in range(12)]
    ),
    ok="stop",
)
case(
    "indian grouping",
    csvtext([["Area", "Count"]] + [[N[i], v] for i, v in enumerate(["1,23,456"] + [f"{2000 + i}" for i in range(11)])]),
    ok="stop",
    total=None,
)
case(
    "mixed grouping",
    csvtext(
        [["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], f"{r[4]:,}" if i % 2 else r[4]] for i, r in enumerate(L)]
    ),
)
case(
    "all fractions .3",
    csvtext([["Area", "Sex", "figure"]] + [[r[1], r[2] + r[3], f"{r[4] / 1000:.3f}"] for i, r in enumerate(L)], ";"),
)
case(
    "unnamed counts wide",
    csvtext([["Area", "A", "B", "C"]] + [[N[i], *map(int, cells[i, :3])] for i in range(12)]),
    ok="stop",
    total=int(cells[:, :3].sum()),
)
case(
    "people and households wide",
    csvtext(
        [["Area", "Population", "Households"]]
        + [[N[i], int(cells[i].sum()), int(cells[i].sum()) // 3] for i in range(12)]
    ),
    ok="stop",
)
case(
    "people and density",
    csvtext(
        [["Area", "Population", "Density per km2", "Area km2"]]
        + [[N[i], int(cells[i].sum()), int(cells[i].sum()) // 7, 7] for i in range(12)]
    ),
    ok="either",
)
case(
    "long change column",
    csvtext(
        [["Area", "Sex", "Population 2021", "Change since 2011"]] + [[r[1], r[2] + r[3], r[4], r[4] // 9] for r in L]
    ),
    ok="either",
)
case(
    "years wide",
    csvtext([["Area", "Sex", "2011", "2021"]] + [[r[1], r[2] + r[3], r[4] - 2, r[4]] for r in L]),
    ok="stop",
)
case(
    "years wide one row",
    csvtext([["Area", "2011", "2021"]] + [[N[i], int(cells[i].sum()) - 2, int(cells[i].sum())] for i in range(12)]),
    ok="stop",
)
case(
    "quarters",
    csvtext([["Area", "Quarter", "Count"]] + [[N[i], q, int(cells[i].sum())] for i in range(12) for q in ("Q1", "Q2")]),
    ok="stop",
)
case(
    "date column",
    csvtext(
        [["Area", "Date", "Count"]]
        + [[N[i], q, int(cells[i].sum())] for i in range(12) for q in ("2011-03-27", "2021-03-21")]
    ),
    ok="stop",
)
case(
    "unknown age row",
    csvtext(
        [["Area", "Age", "Count"]]
        + [
            [N[i], a, int(v)]
            for i in range(12)
            for a, v in zip(["0-15", "16-64", "65+", "Not stated"], cells[i], strict=True)
        ]
    ),
    ok="right",
)
case(
    "total without name",
    csvtext(
        [["Area", "Sex", "Count"]]
        + [
            [N[i], s, v]
            for i in range(12)
            for s, v in (("P", int(cells[i].sum())), ("F", int(cells[i, :2].sum())), ("M", int(cells[i, 2:].sum())))
        ]
    ),
)
case(
    "total code 0",
    csvtext(
        [["Area", "Age", "Count"]]
        + [
            [N[i], a, v]
            for i in range(12)
            for a, v in zip("01234", [int(cells[i].sum()), *map(int, cells[i])], strict=False)
        ]
    ),
)
case(
    "two totals",
    csvtext(
        [["Area", "Sex", "Count"]]
        + [
            x
            for i in range(12)
            for x in ([N[i], "Female", int(cells[i, :2].sum())], [N[i], "Male", int(cells[i, 2:].sum())])
        ]
        + [
            ["Total", "Female", int(cells[:, :2].sum())],
            ["Total", "Male", int(cells[:, 2:].sum())],
            ["of which urban", "Female", 100],
            ["of which urban", "Male", 120],
        ]
    ),
)
case(
    "weights long",
    csvtext(
        [["Area", "Sex", "weight"]]
        + [[N[i], s, f"{1.5 + j + i % 3:.2f}"] for i in range(12) for j, s in enumerate(sexes * 6)]
    ),
    ok="stop",
)
case(
    "microdata income",
    csvtext([["Area", "Sex", "earnings"]] + [[N[i % 12], sexes[i % 2], 1000 + 17 * i] for i in range(300)]),
    total=300,
    ok="either",
)
case(
    "microdata small ids",
    csvtext([["Area", "Sex", "laufende Nummer"]] + [[N[i % 12], sexes[i // 12 % 2], i + 1] for i in range(48)]),
    total=48,
)
case(
    "microdata rooms",
    csvtext([["Area", "Sex", "wohnraeume"]] + [[N[i % 12], sexes[i // 12 % 2], 1 + (i * 7) % 6] for i in range(480)]),
    total=480,
)
case(
    "microdata hhsize",
    csvtext([["Area", "Sex", "persons"]] + [[N[i % 12], sexes[i // 12 % 2], 1 + (i * 7) % 6] for i in range(480)]),
    total=480,
)
case(
    "quoted newline header",
    '"Area\ncode","Sex","Usual\nresidents"\n' + csvtext([[r[0], r[2] + r[3], r[4]] for r in L]),
    ok="either",
)
case(
    "latin names",
    csvtext(
        [["Gemeinde", "Geschlecht", "Einwohner"]]
        + [[r[1] + "ü", r[2] + r[3], f"{r[4]:,}".replace(",", "\u00a0")] for r in L],
        ";",
    ),
    enc="cp1252",
    ok="right",
)
case(
    "empty counts at end",
    csvtext([["Area", "Sex", "Count"]] + [[r[1], r[2] + r[3], r[4]] for r in L] + [["Zeal", "Female", ""]]),
    ok="stop",
)
case(
    "area without counts last",
    csvtext([["Area", "Count"]] + [[N[i], int(cells[i].sum())] for i in range(12)] + [["Zeal", ""]]),
    ok="stop",
)
case(
    "first area suppressed word",
    csvtext([["Area", "Count"]] + [["Zeal", "withheld"]] + [[N[i], int(cells[i].sum())] for i in range(12)]),
    ok="stop",
)
case(
    "trailing total label",
    csvtext([["Area", "Count"]] + [[N[i], int(cells[i].sum())] for i in range(12)] + [["Total all areas", TOT]]),
    ok="right",
)
case(
    "total first odd label",
    csvtext(
        [["Area", "Female", "Male"]]
        + [["England and Wales", int(cells[:, :2].sum()), int(cells[:, 2:].sum())]]
        + [[N[i], int(cells[i, :2].sum()), int(cells[i, 2:].sum())] for i in range(12)]
    ),
    ok="right",
)
case(
    "remainder row",
    csvtext(
        [["Area", "Count"]]
        + [[N[i], int(cells[i].sum())] for i in range(11)]
        + [["Rest of the country", int(cells[11].sum())]]
    ),
    ok="right",
)
case(
    "rounded totals",
    csvtext(
        [["Area", "Count"]] + [[N[i], int(cells[i].sum())] for i in range(12)] + [["Everything", TOT // 100 * 100]]
    ),
    ok="stop",
)


def test_there_are_enough() -> None:
    assert len(FORMS) >= 50


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_a_form_is_read_right_or_stopped(form: Form, tmp_path: Path) -> None:
    """Every person once, in twelve areas; or a sentence that names the file, and nothing written."""
    path = tmp_path / f"table{form.ending}"
    path.write_bytes(form.text.encode(form.encoding))
    told = ""
    try:
        import_table(TableRequest(TableSource(str(path))), tmp_path / "out")
    except InputError as error:
        told = str(error)
    if told:
        assert form.ok != "right", told
        assert str(path) in told
        assert not (tmp_path / "out").exists()
        return
    assert form.ok != "stop"
    spec = load_spec(tmp_path / "out" / "release.toml")
    universe = spec.universes()[0]
    cells = tabulate(universe.require_input(), universe.schema, read_spine(spec.geography))
    assert int(cells.sum()) == form.total
    assert cells.shape[0] == 12
