"""Tables of forms that the corpus does not make, in the layouts of statistical offices: read right, or stopped.

The layouts are those of Nomis and ONS, Eurostat's bulk TSV, Statistics Canada's full tables, the American Community
Survey, StatLine, GENESIS, INSEE, ISTAT and INE, as their documentation describes them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import SpinewiseError
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
#: Of each area: everybody, women, men.
ALL, WOMEN, MEN = (part.sum(1).tolist() for part in (cells, cells[:, :2], cells[:, 2:]))
#: A row a cell: code and name of the area, sex, age, people.
L: list[list[Any]] = [
    [A[i], N[i], s, a, int(cells[i, j * 2 + k])]
    for i in range(12)
    for j, s in enumerate(sexes)
    for k, a in enumerate(ages)
]
#: Area and everybody in it.
EACH: list[list[Any]] = [list(row) for row in zip(N, ALL, strict=True)]
Row = Sequence[Any]


def csvtext(rows: Iterable[Row], sep: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=sep, lineterminator="\n").writerows(rows)
    return text.getvalue()


def table(head: str, rows: Iterable[Row], sep: str = ",") -> str:
    """A file with one row of heads, which are separated by bars here."""
    return csvtext([head.split("|"), *rows], sep)


def of_areas(row: Callable[[int], Row]) -> list[Row]:
    """A row for each area, of its number."""
    return [row(i) for i in range(12)]


def in_areas(rows: Callable[[int], Iterable[Row]]) -> list[Row]:
    """Some rows for each area, which has its name before them."""
    return [[N[i], *row] for i in range(12) for row in rows(i)]


def by_group(count: Callable[[int, int], Any] = lambda _, n: n, head: str = "Area|Sex|Count", sep: str = ",") -> str:
    """Area, sex and age in one word, and people, of whom `count` makes what stands there (row's number, people)."""
    return table(head, [[r[1], r[2] + r[3], count(i, r[4])] for i, r in enumerate(L)], sep)


#: The rows of `by_group`.
GROUPS: list[Row] = [[r[1], r[2] + r[3], r[4]] for r in L]


@dataclass(frozen=True)
class Form:
    """A file, and the people in it."""

    name: str
    text: str
    total: int
    ending: str
    encoding: str


FORMS: list[Form] = []


def case(name: str, text: str, *, total: int = TOT, ending: str = ".csv", enc: str = "utf-8") -> None:
    FORMS.append(Form(name, text, total, ending, enc))


case(
    "nomis",
    '"LC1117EW - Sex by age"\n"ONS Crown Copyright Reserved [from Nomis]"\n"Population :","All usual residents"\n'
    '"Units      :","Persons"\n"Date       :","2011"\n\n'
    + table(
        "local authority: district / unitary|mnemonic|All categories: Sex|Males|Females",
        of_areas(lambda i: [N[i], A[i], ALL[i], MEN[i], WOMEN[i]]),
    )
    + "\n\nIn order to protect against disclosure of personal information, records have been swapped.\n",
)
case(
    "nomis api",
    table(
        "DATE|GEOGRAPHY|GEOGRAPHY_NAME|GEOGRAPHY_CODE|GEOGRAPHY_TYPE|SEX|SEX_NAME|MEASURES|MEASURES_NAME|OBS_VALUE|"
        "OBS_STATUS",
        [
            ["2011", 1946157057 + i // 4, name, code, "LA", sexes.index(sex) + 1, sex, 20100, "Value", n, "A"]
            for i, (code, name, sex, _, n) in enumerate(L)
        ],
    ),
)
case(
    "nomis value+percent",
    table(
        "GEOGRAPHY_CODE|SEX_NAME|MEASURES_NAME|OBS_VALUE",
        [
            [A[i], s, m, v]
            for i in range(12)
            for s, n in zip(sexes, (WOMEN, MEN), strict=True)
            for m, v in (("Value", n[i]), ("Percent", 50))
        ],
    ),
)
case(
    "ons custom",
    table(
        "Lower tier local authorities Code|Lower tier local authorities|Sex (2 categories) Code|Sex (2 categories)|"
        "Age (2 categories) Code|Age (2 categories)|Observation",
        [[r[0], r[1], sexes.index(r[2]) + 1, r[2], ages.index(r[3]) + 1, r[3], r[4]] for r in L],
    ),
)


def tsv(vals: Sequence[Callable[[int], str]], years: Sequence[str] = ("2021 ",)) -> str:
    """Eurostat's bulk download."""
    rows = [
        [f"A,{r[2][0]},{'Y_LT16' if r[3] == ages[0] else 'Y_GE16'},{r[0]}", *(value(r[4]) for value in vals)] for r in L
    ]
    return "".join("\t".join(row) + "\n" for row in [["freq,sex,age,geo\\TIME_PERIOD", *years], *rows])


case("eurostat tsv", tsv([lambda n: f"{n} "]), ending=".tsv")
case("eurostat tsv flags", tsv([lambda n: f"{n} p"]), ending=".tsv")
case("eurostat tsv colon", tsv([lambda n: f"{n} " if n != L[5][4] else ": "]), ending=".tsv")
case("eurostat tsv two years", tsv([lambda n: f"{n} ", lambda n: f"{n + 1} "], ("2020 ", "2021 ")), ending=".tsv")


def statcan(rows: Iterable[tuple[int, str, Any, str]], scalar: tuple[str, str] = ("units", "0")) -> str:
    """A full table of Statistics Canada; of each row: which cell of `L` it is of, sex, value and status."""
    return table(
        "REF_DATE|GEO|DGUID|Sex|Age group|UOM|UOM_ID|SCALAR_FACTOR|SCALAR_ID|VECTOR|COORDINATE|VALUE|STATUS|SYMBOL|"
        "TERMINATED|DECIMALS",
        [
            [
                *("2021", L[i][1], "2021A0005" + L[i][0][-7:], sex, L[i][3], "Persons", "249"),
                *(*scalar, f"v{i}", f"1.{i}", value, status, "", "", "0"),
            ]
            for i, sex, value, status in rows
        ],
    )


case("statcan", statcan((i, r[2], r[4], "") for i, r in enumerate(L)))
thousands = [(i, r[2], r[4] // 1000, "") for i, r in enumerate(L)]
case("statcan thousands scalar", statcan(thousands, ("thousands", "3")))
missing = [(i, r[2], *(("", "x") if i == 7 else (r[4], ""))) for i, r in enumerate(L)]
case("statcan status", statcan(missing))
with_totals = [
    (i, sex, n, "")
    for i, r in enumerate(L)
    if r[2] == "Female"
    for sex, n in (("Both sexes", r[4] + L[i + 2][4]), ("Females", r[4]), ("Males", L[i + 2][4]))
]
case("statcan totals", statcan(with_totals))
case(
    "acs profile",
    table(
        "GEO_ID|NAME|DP05_0001E|DP05_0001M|DP05_0002E|DP05_0002M|DP05_0003E|DP05_0003M",
        [
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
            *of_areas(
                lambda i: [
                    *(f"0500000US{i:05d}", f"{N[i]} County, Alabama"),
                    *(ALL[i], "*****", MEN[i], 12 + i, WOMEN[i], 14 + i),
                ]
            ),
        ],
    ),
)
case(
    "acs api",
    table(
        "NAME|B01001_001E|B01001_001M|B01001_002E|B01001_026E|state|county",
        of_areas(lambda i: [N[i], ALL[i], -555555555, MEN[i], WOMEN[i], "01", f"{i:03d}"]),
    ),
)
case(
    "cbs statline",
    table(
        "ID|Geslacht|Leeftijd|RegioS|Perioden|Bevolking_1",
        [[i, "T001038", r[3], "GM" + r[0][-4:], "2021JJ00", r[4]] for i, r in enumerate(L)],
        ";",
    ),
)
case(
    "cbs statline dot",
    table(
        "ID|Geslacht|RegioS|Perioden|Bevolking_1",
        [[i, r[2] + r[3], "GM" + r[0][-4:], "2021JJ00", r[4] if i != 3 else "       ."] for i, r in enumerate(L)],
        ";",
    ),
)
case("px", 'CHARSET="ANSI";\nAXIS-VERSION="2000";\nDATA=1 2 3;\n', ending=".px")
#: GENESIS: a title, several rows of heads, notes.
g: list[list[Any]] = [
    ["Bevoelkerung: Kreise, Stichtag, Geschlecht"],
    ["Fortschreibung des Bevoelkerungsstandes"],
    [],
    ["", "", "maennlich", "weiblich", "Insgesamt"],
    ["", "", "Anzahl", "Anzahl", "Anzahl"],
    *([f"{1001 + i:05d}", N[i] + ", Stadt", MEN[i], WOMEN[i], ALL[i]] for i in range(12)),
    ["__________"],
    ["© Statistisches Bundesamt (Destatis), 2024 | Stand: 01.01.2024"],
]
case("genesis", csvtext(g, ";"))
g2 = [list(r) for r in g]
g2[3][:2] = ["Kreis", "Name"]
case("genesis named", csvtext(g2, ";"))
dash = [r if len(r) < 5 or not r[2] or r[0] != "01004" else [*r[:2], "-", *r[3:]] for r in g2]
case("genesis dash", csvtext(dash, ";"))
iris = of_areas(lambda i: [f"0100{i // 4}{i:04d}", f"0100{i // 4}", N[i], ALL[i], MEN[i], WOMEN[i]])
case("insee iris", table("IRIS|COM|LIBIRIS|P19_POP|P19_H|P19_F", iris, ";"))
istat = [
    [f"{1001 + i:06d}", N[i], e, int(cells[i, 2 + k]), int(cells[i, k]), int(cells[i, 2 + k] + cells[i, k])]
    for i in range(12)
    for k, e in enumerate("01")
]
case("istat", table("Codice comune|Comune|Età|Totale Maschi|Totale Femmine|Totale", istat))
istat_999 = [
    [f"{1001 + i:06d}", N[i], e, a, b]
    for i in range(12)
    for e, a, b in (("0", cells[i, 2], cells[i, 0]), ("1", cells[i, 3], cells[i, 1]), ("999", MEN[i], WOMEN[i]))
]
case("istat with 999", table("Codice comune|Comune|Età|Maschi|Femmine", istat_999))
miles = [[f"{r[0][-5:]} {r[1]}", r[2] + " " + r[3], "2021", f"{r[4]:,}".replace(",", ".")] for r in L]
case("ine miles", table("Municipios|Sexo|Periodo|Total", miles, ";"))
ine = [
    [f"{A[i][-5:]} {N[i]}", s, v]
    for i in range(12)
    for s, v in (("Total", ALL[i]), ("Hombres", MEN[i]), ("Mujeres", WOMEN[i]))
]
case("ine total rows", table("Municipios|Sexo|Total", ine, "\t"))
merged = [[N[i] if s == "Female" else "", s, n[i]] for i in range(12) for s, n in zip(sexes, (WOMEN, MEN), strict=True)]
case("merged areas down", table("Area|Sex|Count", merged))
#: Three regions of four areas, and the people of each.
PARTS = [(range(4 * k, 4 * k + 4), sum(ALL[4 * k : 4 * k + 4])) for k in range(3)]
below = [
    row for k, (own, n) in enumerate(PARTS) for row in [*([f"R{k}", *EACH[i]] for i in own), [f"R{k}", "Total", n]]
]
case("subtotal below each", table("Region|Area|Count", [*below, ["Total", "Total", TOT]]))
above = [row for k, (own, n) in enumerate(PARTS) for row in [[f"Region {k} total", n], *(EACH[i] for i in own)]]
case("region total in name", table("Area|Count", above))
OLDER = (cells[:, 1] + cells[:, 3]).tolist()
of_which = in_areas(lambda i: [("All", ALL[i]), ("of which: aged 16 and over", OLDER[i])])
case("of which rows", table("Area|Category|Count", of_which))
cumulative = in_areas(lambda i: [("16 and over", OLDER[i]), ("All ages", ALL[i])])
case("cumulative ages", table("Area|Category|Count", cumulative))
case("negative", by_group(lambda i, n: n if i != 4 else -3))
case("accounting negative", by_group(lambda i, n: n if i != 4 else "(3)"))
case("scientific", by_group(lambda i, n: n if i != 4 else "1.2E+03"))
case("number as text with quote", by_group(lambda _, n: f"'{n}"))
case("rounded to thousands unit", by_group(lambda _, n: f"{n / 1000:.1f}", "Area|Sex|Count (thousands)"))
case("integer thousands unit", by_group(lambda _, n: n // 100, "Area|Sex|Population (in 1000)"))
case("duplicate rows", table("Area|Sex|Count", [*GROUPS, GROUPS[0]]))
again = [*GROUPS[:24], ["Area", "Sex", "Count"], *GROUPS[24:]]
case("repeated header in the middle", table("Area|Sex|Count", again))
second = [*GROUPS, [], ["Area", "Households", ""], *of_areas(lambda i: [N[i], i + 5, ""])]
case("second table below", table("Area|Sex|Count", second))
indian = zip(N, ["1,23,456", *(f"{2000 + i}" for i in range(11))], strict=True)
case("indian grouping", table("Area|Count", indian), total=TOT)
case("mixed grouping", by_group(lambda i, n: f"{n:,}" if i % 2 else n))
case("all fractions .3", by_group(lambda _, n: f"{n / 1000:.3f}", "Area|Sex|figure", ";"))
unnamed = of_areas(lambda i: [N[i], *map(int, cells[i, :3])])
case("unnamed counts wide", table("Area|A|B|C", unnamed), total=int(cells[:, :3].sum()))
households = of_areas(lambda i: [N[i], ALL[i], ALL[i] // 3])
case("people and households wide", table("Area|Population|Households", households))
density = of_areas(lambda i: [N[i], ALL[i], ALL[i] // 7, 7])
case("people and density", table("Area|Population|Density per km2|Area km2", density))
change = [[r[1], r[2] + r[3], r[4], r[4] // 9] for r in L]
case("long change column", table("Area|Sex|Population 2021|Change since 2011", change))
case("years wide", table("Area|Sex|2011|2021", [[r[1], r[2] + r[3], r[4] - 2, r[4]] for r in L]))
case("years wide one row", table("Area|2011|2021", of_areas(lambda i: [N[i], ALL[i] - 2, ALL[i]])))
case("quarters", table("Area|Quarter|Count", in_areas(lambda i: [(q, ALL[i]) for q in ("Q1", "Q2")])))
days = ("2011-03-27", "2021-03-21")
case("date column", table("Area|Date|Count", in_areas(lambda i: [(day, ALL[i]) for day in days])))
bands = ["0-15", "16-64", "65+", "Not stated"]
unknown = in_areas(lambda i: zip(bands, cells[i].tolist(), strict=True))
case("unknown age row", table("Area|Age|Count", unknown))
unnamed_total = in_areas(lambda i: [("P", ALL[i]), ("F", WOMEN[i]), ("M", MEN[i])])
case("total without name", table("Area|Sex|Count", unnamed_total))
case(
    "total code 0", table("Area|Age|Count", in_areas(lambda i: zip("01234", [ALL[i], *cells[i].tolist()], strict=True)))
)
two_totals = [
    *in_areas(lambda i: [("Female", WOMEN[i]), ("Male", MEN[i])]),
    *(["Total", "Female", sum(WOMEN)], ["Total", "Male", sum(MEN)]),
    *(["of which urban", "Female", 100], ["of which urban", "Male", 120]),
]
case("two totals", table("Area|Sex|Count", two_totals))
weights = in_areas(lambda i: [(s, f"{1.5 + j + i % 3:.2f}") for j, s in enumerate(sexes * 6)])
case("weights long", table("Area|Sex|weight", weights))
income = [[N[i % 12], sexes[i % 2], 1000 + 17 * i] for i in range(300)]
case("microdata income", table("Area|Sex|earnings", income), total=300)
numbered = [[N[i % 12], sexes[i // 12 % 2], i + 1] for i in range(48)]
case("microdata small ids", table("Area|Sex|laufende Nummer", numbered), total=48)
rooms = [[N[i % 12], sexes[i // 12 % 2], 1 + (i * 7) % 6] for i in range(480)]
case("microdata rooms", table("Area|Sex|wohnraeume", rooms), total=480)
case("microdata hhsize", table("Area|Sex|persons", rooms), total=480)
coded = csvtext([[r[0], r[2] + r[3], r[4]] for r in L])
case("quoted newline header", f'"Area\ncode","Sex","Usual\nresidents"\n{coded}')
latin = [[r[1] + "ü", r[2] + r[3], f"{r[4]:,}".replace(",", "\u00a0")] for r in L]
case("latin names", table("Gemeinde|Geschlecht|Einwohner", latin, ";"), enc="cp1252")
case("empty counts at end", table("Area|Sex|Count", [*GROUPS, ["Zeal", "Female", ""]]))
case("area without counts last", table("Area|Count", [*EACH, ["Zeal", ""]]))
case("first area suppressed word", table("Area|Count", [["Zeal", "withheld"], *EACH]))
case("trailing total label", table("Area|Count", [*EACH, ["Total all areas", TOT]]))
first = [["England and Wales", sum(WOMEN), sum(MEN)], *of_areas(lambda i: [N[i], WOMEN[i], MEN[i]])]
case("total first odd label", table("Area|Female|Male", first))
case("remainder row", table("Area|Count", [*EACH[:11], ["Rest of the country", ALL[11]]]))
case("rounded totals", table("Area|Count", [*EACH, ["Everything", TOT // 100 * 100]]))


#: Form -> how it is stated, and whether it is then read right; else it stops.
STATED: Mapping[str, tuple[Mapping[str, Any], bool]] = {
    "nomis": (
        {
            "geography": "mnemonic=local authority: district / unitary",
            "header": "7",
            "last": 19,
            "wide": "{sex:Males|Females}",
        },
        True,
    ),
    "nomis api": (
        {"geography": "GEOGRAPHY_CODE=GEOGRAPHY_NAME", "count": "OBS_VALUE", "attributes": "SEX_NAME"},
        False,
    ),
    "nomis value+percent": (
        {
            "geography": "GEOGRAPHY_CODE",
            "count": "OBS_VALUE",
            "attributes": "SEX_NAME",
            "only": ("MEASURES_NAME == Value",),
        },
        True,
    ),
    "ons custom": (
        {
            "geography": "Lower tier local authorities Code=Lower tier local authorities",
            "count": "Observation",
            "attributes": "Sex (2 categories),Age (2 categories)",
        },
        True,
    ),
    "eurostat tsv": ({"geography": "geo", "count": "2021"}, False),
    "eurostat tsv flags": ({"geography": "geo", "count": "2021"}, False),
    "eurostat tsv colon": ({"geography": "geo", "count": "2021"}, False),
    "eurostat tsv two years": ({"geography": "geo", "count": "2021"}, False),
    "statcan": ({"geography": "DGUID=GEO", "count": "VALUE", "attributes": "Sex,Age group"}, True),
    "statcan thousands scalar": ({"geography": "DGUID=GEO", "count": "VALUE", "attributes": "Sex,Age group"}, False),
    "statcan status": ({"geography": "DGUID=GEO", "count": "VALUE", "attributes": "Sex,Age group"}, False),
    "statcan totals": (
        {"geography": "GEO", "count": "VALUE", "attributes": "Sex,Age group", "only": ("Sex != Both sexes",)},
        True,
    ),
    "acs profile": (
        {
            "geography": "Geography=Geographic Area Name",
            "header": "2",
            "wide": "Estimate!!Total population!!{sex:Male|Female}",
        },
        True,
    ),
    "acs api": ({"geography": "state,county=NAME", "wide": "B01001_{sex:002E|026E}"}, True),
    "cbs statline": ({"geography": "RegioS", "count": "Bevolking_1", "attributes": "Leeftijd"}, False),
    "cbs statline dot": ({"geography": "RegioS", "count": "Bevolking_1", "attributes": "Geslacht"}, False),
    "px": ({"geography": "a", "count": "b"}, False),
    "genesis": (
        {"geography": "column_1=column_2", "header": "4:5", "last": 17, "wide": "{sex:maennlich|weiblich} Anzahl"},
        True,
    ),
    "genesis named": (
        {"geography": "Kreis=Name", "header": "4:5", "last": 17, "wide": "{sex:maennlich|weiblich} Anzahl"},
        True,
    ),
    "genesis dash": (
        {"geography": "Kreis=Name", "header": "4:5", "last": 17, "wide": "{sex:maennlich|weiblich} Anzahl"},
        False,
    ),
    "insee iris": ({"geography": "COM,IRIS=LIBIRIS", "wide": "P19_{sex:H|F}"}, True),
    "istat": ({"geography": "Codice comune=Comune", "attributes": "Età", "wide": "Totale {sex:Maschi|Femmine}"}, True),
    "istat with 999": (
        {
            "geography": "Codice comune=Comune",
            "attributes": "Età",
            "wide": "{sex:Maschi|Femmine}",
            "only": ("Età != 999",),
        },
        True,
    ),
    "ine miles": ({"geography": "Municipios", "count": "Total", "attributes": "Sexo"}, False),
    "ine total rows": (
        {"geography": "Municipios", "count": "Total", "attributes": "Sexo", "only": ("Sexo != Total",)},
        True,
    ),
    "merged areas down": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "subtotal below each": ({"geography": "Region,Area", "count": "Count", "only": ("Area != Total",)}, True),
    "region total in name": (
        {
            "geography": "Area",
            "count": "Count",
            "only": ("Area not in Region 0 total, Region 1 total, Region 2 total",),
        },
        True,
    ),
    "of which rows": (
        {"geography": "Area", "count": "Count", "attributes": "Category", "only": ("Category == All",)},
        True,
    ),
    "cumulative ages": (
        {"geography": "Area", "count": "Count", "attributes": "Category", "only": ("Category == All ages",)},
        True,
    ),
    "negative": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "accounting negative": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "scientific": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "number as text with quote": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "rounded to thousands unit": ({"geography": "Area", "count": "Count (thousands)", "attributes": "Sex"}, False),
    "integer thousands unit": ({"geography": "Area", "count": "Population (in 1000)", "attributes": "Sex"}, False),
    "duplicate rows": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "repeated header in the middle": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "second table below": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "indian grouping": ({"geography": "Area", "count": "Count"}, False),
    "mixed grouping": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "all fractions .3": ({"geography": "Area", "count": "figure", "attributes": "Sex"}, False),
    "unnamed counts wide": ({"geography": "Area", "wide": "{kind:A|B|C}"}, True),
    "people and households wide": ({"geography": "Area", "count": "Population"}, True),
    "people and density": ({"geography": "Area", "count": "Population"}, True),
    "long change column": ({"geography": "Area", "count": "Population 2021", "attributes": "Sex"}, True),
    "years wide": ({"geography": "Area", "count": "2021", "attributes": "Sex"}, True),
    "years wide one row": ({"geography": "Area", "count": "2021"}, True),
    "quarters": ({"geography": "Area", "count": "Count", "only": ("Quarter == Q2",)}, True),
    "date column": ({"geography": "Area", "count": "Count", "only": ("Date == 2021-03-21",)}, True),
    "unknown age row": ({"geography": "Area", "count": "Count", "attributes": "Age"}, True),
    "total without name": ({"geography": "Area", "count": "Count", "attributes": "Sex", "only": ("Sex != P",)}, True),
    "total code 0": ({"geography": "Area", "count": "Count", "attributes": "Age", "only": ("Age != 0",)}, True),
    "two totals": (
        {"geography": "Area", "count": "Count", "attributes": "Sex", "only": ("Area not in Total, of which urban",)},
        True,
    ),
    "weights long": ({"geography": "Area", "count": "weight", "attributes": "Sex"}, False),
    "microdata income": ({"geography": "Area", "records": True, "attributes": "Sex"}, True),
    "microdata small ids": ({"geography": "Area", "records": True, "attributes": "Sex"}, True),
    "microdata rooms": ({"geography": "Area", "records": True, "attributes": "Sex,wohnraeume"}, True),
    "microdata hhsize": ({"geography": "Area", "records": True, "attributes": "Sex,persons"}, True),
    "quoted newline header": ({"geography": "Area code", "count": "Usual residents", "attributes": "Sex"}, False),
    "latin names": ({"geography": "Gemeinde", "count": "Einwohner", "attributes": "Geschlecht"}, False),
    "empty counts at end": ({"geography": "Area", "count": "Count", "attributes": "Sex"}, False),
    "area without counts last": ({"geography": "Area", "count": "Count"}, False),
    "first area suppressed word": ({"geography": "Area", "count": "Count"}, False),
    "trailing total label": ({"geography": "Area", "count": "Count", "only": ("Area != Total all areas",)}, True),
    "total first odd label": (
        {"geography": "Area", "wide": "{sex:Female|Male}", "only": ("Area != England and Wales",)},
        True,
    ),
    "remainder row": ({"geography": "Area", "count": "Count"}, True),
    "rounded totals": ({"geography": "Area", "count": "Count", "only": ("Area != Everything",)}, True),
}


def test_there_are_enough() -> None:
    assert len(FORMS) >= 50
    assert {form.name for form in FORMS} == set(STATED)


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_a_form_is_read_right_or_stopped(form: Form, tmp_path: Path) -> None:
    """Every person once, in twelve areas; or a sentence that names the file, and nothing written."""
    path = tmp_path / f"table{form.ending}"
    path.write_bytes(form.text.encode(form.encoding))
    stated, right = STATED[form.name]
    statement = Statement(str(path), **stated, expect_records=form.total, expect_areas=12)
    if not right:
        with pytest.raises(SpinewiseError, match=r"table|--"):
            import_table(statement, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return
    spec = load_spec(import_table(statement, tmp_path / "out").spec)
    universe = spec.universes()[0]
    cells = tabulate(universe.require_input(), universe.schema, read_spine(spec.geography))
    assert int(cells.sum()) == form.total
    assert cells.shape[0] == 12
