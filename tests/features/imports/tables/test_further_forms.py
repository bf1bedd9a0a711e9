"""Tables of forms that the corpus does not make, in the layouts of statistical offices: read right, or stopped.

The layouts are those of Nomis and ONS, Eurostat's bulk TSV, Statistics Canada's full tables, the American Community
Survey, StatLine, GENESIS, INSEE, ISTAT and INE, as their documentation describes them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
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
    """A file; what may become of it: read right, or stopped ("either"), or one of both; the people in it."""

    name: str
    text: str
    total: int | None
    ending: str
    ok: str
    encoding: str


FORMS: list[Form] = []


def case(
    name: str, text: str, ok: str = "either", *, total: int | None = TOT, ending: str = ".csv", enc: str = "utf-8"
) -> None:
    FORMS.append(Form(name, text, total, ending, ok, enc))


case(
    "nomis",
    '"LC1117EW - Sex by age"\n"ONS Crown Copyright Reserved [from Nomis]"\n"Population :","All usual residents"\n'
    '"Units      :","Persons"\n"Date       :","2011"\n\n'
    + table(
        "local authority: district / unitary|mnemonic|All categories: Sex|Males|Females",
        of_areas(lambda i: [N[i], A[i], ALL[i], MEN[i], WOMEN[i]]),
    )
    + "\n\nIn order to protect against disclosure of personal information, records have been swapped.\n",
    "right",
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
    "stop",
)
case(
    "ons custom",
    table(
        "Lower tier local authorities Code|Lower tier local authorities|Sex (2 categories) Code|Sex (2 categories)|"
        "Age (2 categories) Code|Age (2 categories)|Observation",
        [[r[0], r[1], sexes.index(r[2]) + 1, r[2], ages.index(r[3]) + 1, r[3], r[4]] for r in L],
    ),
    "right",
)


def tsv(vals: Sequence[Callable[[int], str]], years: Sequence[str] = ("2021 ",)) -> str:
    """Eurostat's bulk download."""
    rows = [
        [f"A,{r[2][0]},{'Y_LT16' if r[3] == ages[0] else 'Y_GE16'},{r[0]}", *(value(r[4]) for value in vals)] for r in L
    ]
    return "".join("\t".join(row) + "\n" for row in [["freq,sex,age,geo\\TIME_PERIOD", *years], *rows])


case("eurostat tsv", tsv([lambda n: f"{n} "]), ending=".tsv")
case("eurostat tsv flags", tsv([lambda n: f"{n} p"]), ending=".tsv")
case("eurostat tsv colon", tsv([lambda n: f"{n} " if n != L[5][4] else ": "]), "stop", ending=".tsv")
case(
    "eurostat tsv two years", tsv([lambda n: f"{n} ", lambda n: f"{n + 1} "], ("2020 ", "2021 ")), "stop", ending=".tsv"
)


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


case("statcan", statcan((i, r[2], r[4], "") for i, r in enumerate(L)), "right")
thousands = [(i, r[2], r[4] // 1000, "") for i, r in enumerate(L)]
case("statcan thousands scalar", statcan(thousands, ("thousands", "3")), "stop")
missing = [(i, r[2], *(("", "x") if i == 7 else (r[4], ""))) for i, r in enumerate(L)]
case("statcan status", statcan(missing), "stop")
with_totals = [
    (i, sex, n, "")
    for i, r in enumerate(L)
    if r[2] == "Female"
    for sex, n in (("Both sexes", r[4] + L[i + 2][4]), ("Females", r[4]), ("Males", L[i + 2][4]))
]
case("statcan totals", statcan(with_totals), "right")
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
    "stop",
)
case("px", 'CHARSET="ANSI";\nAXIS-VERSION="2000";\nDATA=1 2 3;\n', "stop", ending=".px")
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
case("genesis named", csvtext(g2, ";"), "right")
dash = [r if len(r) < 5 or not r[2] or r[0] != "01004" else [*r[:2], "-", *r[3:]] for r in g2]
case("genesis dash", csvtext(dash, ";"), "stop")
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
case("ine miles", table("Municipios|Sexo|Periodo|Total", miles, ";"), "right")
ine = [
    [f"{A[i][-5:]} {N[i]}", s, v]
    for i in range(12)
    for s, v in (("Total", ALL[i]), ("Hombres", MEN[i]), ("Mujeres", WOMEN[i]))
]
case("ine total rows", table("Municipios|Sexo|Total", ine, "\t"), "right")
merged = [[N[i] if s == "Female" else "", s, n[i]] for i in range(12) for s, n in zip(sexes, (WOMEN, MEN), strict=True)]
case("merged areas down", table("Area|Sex|Count", merged))
#: Three regions of four areas, and the people of each.
PARTS = [(range(4 * k, 4 * k + 4), sum(ALL[4 * k : 4 * k + 4])) for k in range(3)]
below = [
    row for k, (own, n) in enumerate(PARTS) for row in [*([f"R{k}", *EACH[i]] for i in own), [f"R{k}", "Total", n]]
]
case("subtotal below each", table("Region|Area|Count", [*below, ["Total", "Total", TOT]]), "right")
above = [row for k, (own, n) in enumerate(PARTS) for row in [[f"Region {k} total", n], *(EACH[i] for i in own)]]
case("region total in name", table("Area|Count", above), "right")
OLDER = (cells[:, 1] + cells[:, 3]).tolist()
of_which = in_areas(lambda i: [("All", ALL[i]), ("of which: aged 16 and over", OLDER[i])])
case("of which rows", table("Area|Category|Count", of_which), "stop")
cumulative = in_areas(lambda i: [("16 and over", OLDER[i]), ("All ages", ALL[i])])
case("cumulative ages", table("Area|Category|Count", cumulative), "stop")
case("negative", by_group(lambda i, n: n if i != 4 else -3), "stop")
case("accounting negative", by_group(lambda i, n: n if i != 4 else "(3)"), "stop")
case("scientific", by_group(lambda i, n: n if i != 4 else "1.2E+03"), "stop")
case("number as text with quote", by_group(lambda _, n: f"'{n}"))
case("rounded to thousands unit", by_group(lambda _, n: f"{n / 1000:.1f}", "Area|Sex|Count (thousands)"), "stop")
case("integer thousands unit", by_group(lambda _, n: n // 100, "Area|Sex|Population (in 1000)"), "stop")
case("duplicate rows", table("Area|Sex|Count", [*GROUPS, GROUPS[0]]), "stop")
again = [*GROUPS[:24], ["Area", "Sex", "Count"], *GROUPS[24:]]
case("repeated header in the middle", table("Area|Sex|Count", again), "stop")
second = [*GROUPS, [], ["Area", "Households", ""], *of_areas(lambda i: [N[i], i + 5, ""])]
case("second table below", table("Area|Sex|Count", second), "stop")
indian = zip(N, ["1,23,456", *(f"{2000 + i}" for i in range(11))], strict=True)
case("indian grouping", table("Area|Count", indian), "stop", total=None)
case("mixed grouping", by_group(lambda i, n: f"{n:,}" if i % 2 else n))
case("all fractions .3", by_group(lambda _, n: f"{n / 1000:.3f}", "Area|Sex|figure", ";"))
unnamed = of_areas(lambda i: [N[i], *map(int, cells[i, :3])])
case("unnamed counts wide", table("Area|A|B|C", unnamed), "stop", total=int(cells[:, :3].sum()))
households = of_areas(lambda i: [N[i], ALL[i], ALL[i] // 3])
case("people and households wide", table("Area|Population|Households", households), "stop")
density = of_areas(lambda i: [N[i], ALL[i], ALL[i] // 7, 7])
case("people and density", table("Area|Population|Density per km2|Area km2", density))
change = [[r[1], r[2] + r[3], r[4], r[4] // 9] for r in L]
case("long change column", table("Area|Sex|Population 2021|Change since 2011", change))
case("years wide", table("Area|Sex|2011|2021", [[r[1], r[2] + r[3], r[4] - 2, r[4]] for r in L]), "stop")
case("years wide one row", table("Area|2011|2021", of_areas(lambda i: [N[i], ALL[i] - 2, ALL[i]])), "stop")
case("quarters", table("Area|Quarter|Count", in_areas(lambda i: [(q, ALL[i]) for q in ("Q1", "Q2")])), "stop")
days = ("2011-03-27", "2021-03-21")
case("date column", table("Area|Date|Count", in_areas(lambda i: [(day, ALL[i]) for day in days])), "stop")
bands = ["0-15", "16-64", "65+", "Not stated"]
unknown = in_areas(lambda i: zip(bands, cells[i].tolist(), strict=True))
case("unknown age row", table("Area|Age|Count", unknown), "right")
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
case("weights long", table("Area|Sex|weight", weights), "stop")
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
case("latin names", table("Gemeinde|Geschlecht|Einwohner", latin, ";"), "right", enc="cp1252")
case("empty counts at end", table("Area|Sex|Count", [*GROUPS, ["Zeal", "Female", ""]]), "stop")
case("area without counts last", table("Area|Count", [*EACH, ["Zeal", ""]]), "stop")
case("first area suppressed word", table("Area|Count", [["Zeal", "withheld"], *EACH]), "stop")
case("trailing total label", table("Area|Count", [*EACH, ["Total all areas", TOT]]), "right")
first = [["England and Wales", sum(WOMEN), sum(MEN)], *of_areas(lambda i: [N[i], WOMEN[i], MEN[i]])]
case("total first odd label", table("Area|Female|Male", first), "right")
case("remainder row", table("Area|Count", [*EACH[:11], ["Rest of the country", ALL[11]]]), "right")
case("rounded totals", table("Area|Count", [*EACH, ["Everything", TOT // 100 * 100]]), "stop")


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
