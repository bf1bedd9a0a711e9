"""Workbooks as offices lay them out, see `office_forms`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oracles.office_forms import (
    N_AREAS,
    PEOPLE,
    REGION,
    Form,
    Row,
    Truth,
    by_age,
    by_sex,
    delimited,
    form,
    grouped,
    only_total,
    places,
    stated,
    whole,
    workbook,
)

IRELAND = places(
    ("IE", "State"),
    [("L", "Leinster"), ("M", "Munster"), ("C", "Connacht"), ("U", "Ulster (part of)")],
    "Carlow, Dublin, Kildare, Kilkenny, Laois, Longford, Clare, Cork, Kerry, Limerick, Tipperary, Waterford, Galway,"
    "Leitrim, Mayo, Roscommon, Sligo, Athlone, Cavan, Donegal, Monaghan, Clones, Bundoran, Letterkenny",
    lambda r, k: f"{'LMCU'[r]}{k + 1:02d}",
)
AGES = ("0-14", "15-29", "30-44", "45-64", "65 and over")


@form
def indented_areas_with_blank_rows() -> Form:
    """Areas indented by format below provinces, a blank row between, the total at the bottom, notes by number."""
    rows: list[list[object]] = [
        ["Table 3. Population by county and sex, 2022"],
        [],
        ["County", "Persons", "Male", "Female"],
    ]
    indent = {}
    for r, (_, region) in enumerate(IRELAND.regions):
        m, f = PEOPLE[r == REGION].sum((0, 2)).tolist()
        rows.append([region, m + f, m, f])
        for k in range(6):
            m, f = PEOPLE[6 * r + k].sum(1).tolist()
            rows.append([IRELAND.names[6 * r + k] + (" (1)" if k == 2 else ""), m + f, m, f])
            indent[f"A{len(rows)}"] = 1
        rows.append([])
    m, f = PEOPLE.sum((0, 2)).tolist()
    rows += [["State", m + f, m, f], [], ["(1) Boundaries changed in 2019."], ["Source: Census of Population"]]
    codes = tuple(name + (" (1)" if k % 6 == 2 else "") for k, name in enumerate(IRELAND.names))
    return Form(
        "table3.xlsx",
        workbook({"Table 3": rows}, indent=indent),
        stated(
            geography="County",
            header="3",
            last=35,
            wide="{sex:Male|Female}",
            only="County not in Leinster, Munster, Connacht, Ulster (part of)",
        ),
        truth=Truth(codes, PEOPLE.sum(2), (("Male", "Female"),)),
    )


@form
def merged_sex_over_age() -> Form:
    """Sexes merged over ages, a total for each sex and in front."""
    rows: list[list[object]] = [
        ["Population by county, sex and age"],
        ["1 April 2022"],
        [],
        ["County", "Total", "Male", *[""] * 5, "Female", *[""] * 5],
        ["", "", *["Total", *AGES] * 2],
    ]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        m, f = people.tolist()
        rows.append([name, sum(m) + sum(f), sum(m), *m, sum(f), *f])
    return Form(
        "t05.xlsx",
        workbook({"T05": rows}, merge=("A4:A5", "B4:B5", "C4:H4", "I4:N4")),
        stated(geography="County", header="4:5", wide="{sex:Male|Female} {age:0-14|15-29|30-44|45-64|65 and over}"),
        truth=whole(IRELAND, ("Male", "Female"), AGES, codes=IRELAND.names),
    )


@form
def in_thousands_by_its_title() -> Form:
    """Only a line above the table says it."""
    rows: list[list[object]] = [["Population by county and sex"], ["(in thousands)"], [], ["County", "Male", "Female"]]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        rows.append([name, *(n // 100 + 1 for n in people.sum(1).tolist())])
    return Form(
        "t01.xlsx",
        workbook({"T01": rows}),
        stated(geography="County", header="4", wide="{sex:Male|Female}"),
        stops="fewer than --expect-records",
    )


@form
def in_thousands_by_a_row_of_units() -> Form:
    rows: list[list[object]] = [
        ["Population by county and sex"],
        [],
        ["County", "Male", "Female"],
        ["", "'000", "'000"],
    ]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        rows.append([name, *(n // 100 + 1 for n in people.sum(1).tolist())])
    return Form(
        "t02.xlsx",
        workbook({"T02": rows}),
        stated(geography="County", header="3:4", wide="{sex:Male|Female} '000"),
        stops="fewer than --expect-records",
    )


@form
def two_tables_below_one_another() -> Form:
    """Males, then females, each with its own title and header."""
    rows: list[list[object]] = []
    for s, sex in enumerate(("Males", "Females")):
        rows += [[f"Table 2{'ab'[s]}: {sex} by age and county"], [], ["County", *AGES]]
        rows += [[name, *people[s].tolist()] for name, people in zip(IRELAND.names, PEOPLE, strict=True)]
        rows += [[], []]
    return Form(
        "t2ab.xlsx",
        workbook({"T2": rows}),
        stated(geography="County", header="3", wide="{age:0-14|15-29|30-44|45-64|65 and over}"),
        stops="row 30, column '0-14': found nothing",
    )


@form
def two_tables_side_by_side() -> Form:
    """Males left, females right of an empty column, the counties in both."""
    rows: list[list[object]] = [["Males", *[""] * 6, "", "Females"], ["County", *AGES, "", "County", *AGES]]
    rows += [
        [name, *people[0].tolist(), "", name, *people[1].tolist()]
        for name, people in zip(IRELAND.names, PEOPLE, strict=True)
    ]
    return Form(
        "side.xlsx",
        workbook({"T2": rows}),
        stated(
            geography="Males County", header="1:2", wide="{sex:Males|Females} {age:0-14|15-29|30-44|45-64|65 and over}"
        ),
        stops="several columns are named 'Males County'",
    )


@form
def counties_in_two_halves() -> Form:
    """A long table folded: counties 1 to 12 left, 13 to 24 right, to save paper."""
    rows: list[list[object]] = [["Population by county"], [], ["County", "Population", "", "County", "Population"]]
    half = N_AREAS // 2
    rows += [
        [IRELAND.names[k], int(PEOPLE[k].sum()), "", IRELAND.names[half + k], int(PEOPLE[half + k].sum())]
        for k in range(half)
    ]
    return Form(
        "folded.xlsx",
        workbook({"T1": rows}),
        stated(geography="County", header="3", count="Population"),
        stops="County",
    )


@form
def change_between_censuses() -> Form:
    rows: list[list[object]] = [
        ["Population and change, 2016 and 2022"],
        [],
        ["County", "2016", "2022", "Actual change", "Percentage change"],
    ]
    for k, (name, people) in enumerate(zip(IRELAND.names, PEOPLE, strict=True)):
        n = int(people.sum())
        change = n // 20 - 9 * k
        rows.append([name, n - change, n, change, round(100 * change / n, 1)])
    return Form(
        "change.xlsx",
        workbook({"T1": rows}),
        stated(geography="County", header="3", count="2022"),
        truth=only_total(IRELAND, codes=IRELAND.names),
    )


@form
def one_sheet_for_each_province() -> Form:
    sheets: dict[str, Sequence[Row]] = {}
    for r, (_, region) in enumerate(IRELAND.regions):
        sheets[region] = [
            [f"Population of {region}"],
            [],
            ["County", "Male", "Female"],
            *([IRELAND.names[6 * r + k], *PEOPLE[6 * r + k].sum(1).tolist()] for k in range(6)),
        ]
    return Form(
        "provinces.xlsx",
        workbook(sheets),
        stated(geography="County", sheet="Leinster", header="3", wide="{sex:Male|Female}"),
        stops="fewer than --expect-records",
    )


@form
def persons_and_sexes_in_blocks() -> Form:
    """In one column: 'Persons', below it all counties; 'Male', below it all counties; 'Female'."""
    rows: list[list[object]] = [["Population by sex, county and age"], [], ["", "Total", *AGES]]
    for sex, part in (("Persons", PEOPLE.sum(1)), ("Male", PEOPLE[:, 0]), ("Female", PEOPLE[:, 1])):
        rows.append([sex, int(part.sum()), *part.sum(0).tolist()])
        rows += [[f"  {name}", int(line.sum()), *line.tolist()] for name, line in zip(IRELAND.names, part, strict=True)]
    return Form(
        "blocks.xlsx",
        workbook({"T1": rows}),
        stated(geography="column_1", header="3", wide="{age:0-14|15-29|30-44|45-64|65 and over}"),
        stops="two rows of the same cell",
    )


@form
def ages_in_rows_counties_in_columns() -> Form:
    """Turned: an area is a column."""
    rows: list[list[object]] = [["Population by age and county"], [], ["Age group", *IRELAND.names, "State"]]
    for a, age in enumerate(AGES):
        rows.append([age, *PEOPLE.sum(1)[:, a].tolist(), int(PEOPLE[:, :, a].sum())])
    rows.append(["All ages", *PEOPLE.sum((1, 2)).tolist(), int(PEOPLE.sum())])
    return Form(
        "turned.xlsx",
        workbook({"T1": rows}),
        stated(geography="Age group", header="3", wide="{county}", only="Age group != All ages and county != State"),
        stops="fewer than --expect-areas",
    )


@form
def numbers_as_texts_with_footnotes() -> Form:
    """Blanks of thousands in texts, raised figures of footnotes, marks of provisional numbers."""
    rows: list[list[object]] = [["Population, provisional"], [], ["County", "Male", "Female"]]
    for k, (name, people) in enumerate(zip(IRELAND.names, PEOPLE, strict=True)):
        m, f = (grouped(n, " ") for n in people.sum(1).tolist())
        rows.append([name, m + (" ¹" if k == 4 else " p" if k == 6 else ""), f + (" (2)" if k == 9 else "")])
    rows += [[], ["¹ Includes persons on ships."], ["(2) Revised."], ["p Provisional."]]
    return Form(
        "provisional.xlsx",
        workbook({"T1": rows}),
        stated(geography="County", header="3", last=27, wide="{sex:Male|Female}"),
        stops="column 'Male': found '",
    )


@form
def footnote_figures_stuck_to_numbers() -> Form:
    """1234¹ is 1234, not 12341: a raised figure."""
    rows: list[list[object]] = [["County", "Male", "Female"]]
    for k, (name, people) in enumerate(zip(IRELAND.names, PEOPLE, strict=True)):
        m, f = people.sum(1).tolist()
        rows.append([name, f"{m}¹" if k in (2, 7) else m, f])
    return Form(
        "raised.csv",
        delimited(rows),
        stated(geography="County", wide="{sex:Male|Female}"),
        stops="column 'Male': found '.*¹'",
    )


@form
def formulas_without_values() -> Form:
    """Totals written as formulas by a program that did not compute them."""
    rows: list[list[object]] = [["County", "Male", "Female", "Total"]]
    for k, (name, people) in enumerate(zip(IRELAND.names, PEOPLE, strict=True)):
        rows.append([name, *people.sum(1).tolist(), f"=B{k + 2}+C{k + 2}"])
    return Form(
        "formulas.xlsx",
        workbook({"T1": rows}),
        stated(geography="County", wide="{sex:Male|Female}"),
        truth=by_sex(IRELAND, ("Male", "Female"), codes=IRELAND.names),
    )


@form
def merged_areas_at_the_left() -> Form:
    """The county is written once, for the rows of its ages."""
    rows: list[list[object]] = [["County", "Age", "Male", "Female", "Both sexes"]]
    merge = []
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        merge.append(f"A{len(rows) + 1}:A{len(rows) + 6}")
        for a in range(6):
            m, f = (people.sum(1) if a == 5 else people[:, a]).tolist()
            rows.append([name if a == 0 else None, [*AGES, "All ages"][a], m, f, m + f])
    return Form(
        "merged.xlsx",
        workbook({"T1": rows}, merge=merge),
        stated(geography="County", attributes="Age", wide="{sex:Male|Female}", only="Age != All ages"),
        stops="row 3, column 'County': found nothing",
    )


@form
def areas_written_once_without_merging() -> Form:
    """As before, but the cells below are empty: every name has the same ages below it, which proves whose they are."""
    rows: list[list[object]] = [["County", "Age", "Male", "Female"]]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        for a, age in enumerate(AGES):
            rows.append([name if a == 0 else "", age, *people[:, a].tolist()])
    return Form(
        "once.csv",
        delimited(rows),
        stated(geography="County", attributes="Age", wide="{sex:Male|Female}"),
        stops="line 3, column 'County': found nothing",
    )


@form
def rates_beside_counts() -> Form:
    """Persons per 1,000 as whole numbers beside persons."""
    rows: list[list[object]] = [["County code", "County", "Males", "Females", "Males per 1000 females"]]
    for (code, name), people in zip(IRELAND.areas, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([code, name, m, f, round(1000 * m / f)])
    return Form(
        "ratio.xlsx",
        workbook({"T1": rows}),
        stated(geography="County code=County", wide="{sex:Males|Females}"),
        truth=by_sex(IRELAND, ("Males", "Females")),
    )


@form
def ranks_beside_counts() -> Form:
    rows: list[list[object]] = [["Rank", "County", "Population"]]
    order = sorted(range(N_AREAS), key=lambda i: -PEOPLE[i].sum())
    for rank, i in enumerate(order):
        rows.append([rank + 1, IRELAND.names[i], int(PEOPLE[i].sum())])
    return Form(
        "ranks.xlsx",
        workbook({"T1": rows}),
        stated(geography="County", count="Population"),
        truth=only_total(IRELAND, codes=IRELAND.names),
    )


@form
def ages_overlap() -> Form:
    """Of everybody those of voting age, of working age and of 65 and over: bands that overlap."""
    rows: list[list[object]] = [["County code", "Population", "15 and over", "15 to 64", "65 and over"]]
    for (code, _), people in zip(IRELAND.areas, PEOPLE, strict=True):
        a = people.sum(0).tolist()
        rows.append([code, sum(a), sum(a[1:]), sum(a[1:4]), a[4]])
    return Form(
        "bands.csv", delimited(rows), stated(geography="County code", count="Population"), truth=only_total(IRELAND)
    )


@form
def quinquennial_and_broad_ages() -> Form:
    """Fine bands with broad ones in between, which are their sums, as yearbooks have them."""
    rows: list[list[object]] = [["County code", "Total", "0-29", "0-14", "15-29", "30-64", "30-44", "45-64", "65+"]]
    for (code, _), people in zip(IRELAND.areas, PEOPLE, strict=True):
        a = people.sum(0).tolist()
        rows.append([code, sum(a), a[0] + a[1], a[0], a[1], a[2] + a[3], a[2], a[3], a[4]])
    return Form(
        "yearbook.csv",
        delimited(rows),
        stated(geography="County code", wide="{age:0-14|15-29|30-44|45-64|65+}"),
        truth=by_age(IRELAND, ("0-14", "15-29", "30-44", "45-64", "65+")),
    )


@form
def quinquennial_and_broad_ages_long() -> Form:
    rows: list[list[object]] = [["county code", "age", "persons"]]
    for (code, _), people in zip(IRELAND.areas, PEOPLE, strict=True):
        a = people.sum(0).tolist()
        rows += [
            [code, *line]
            for line in (
                ("0-29", a[0] + a[1]),
                ("0-14", a[0]),
                ("15-29", a[1]),
                ("30-64", a[2] + a[3]),
                ("30-44", a[2]),
                ("45-64", a[3]),
                ("65+", a[4]),
            )
        ]
    return Form(
        "yearbook_long.csv",
        delimited(rows),
        stated(geography="county code", count="persons", attributes="age", only="age not in 0-29, 30-64"),
        truth=by_age(IRELAND, ("0-14", "15-29", "30-44", "45-64", "65+")),
    )


@form
def another_sum_of_ages_long() -> Form:
    """Everybody, and 'of these 15-64': a band that is a sum of others, under another name, without a total."""
    rows: list[list[object]] = [["county code", "sex", "age", "persons"]]
    for (code, _), people in zip(IRELAND.areas, PEOPLE, strict=True):
        for s, sex in enumerate(("Male", "Female")):
            a = people[s].tolist()
            rows += [[code, sex, age, n] for age, n in zip(AGES, a, strict=True)]
            rows.append([code, sex, "of working age", sum(a[1:4])])
    return Form(
        "working_age.csv",
        delimited(rows),
        stated(geography="county code", count="persons", attributes="sex,age", only="age != of working age"),
        truth=whole(IRELAND, ("Male", "Female"), AGES),
    )


@form
def rounded_to_hundreds() -> Form:
    """Estimates are published to the nearest hundred: whole numbers, but no counts."""
    rows: list[list[object]] = [
        ["Mid-year population estimates, rounded to the nearest hundred"],
        [],
        ["County code", "County", "Male", "Female", "Persons"],
    ]
    for (code, name), people in zip(IRELAND.areas, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([code, name, round(m, -2), round(f, -2), round(m + f, -2)])
    return Form(
        "mye.xlsx",
        workbook({"T1": rows}),
        stated(geography="County code=County", header="3", wide="{sex:Male|Female}"),
        stops="than --expect-records",
    )


@form
def cities_in_their_counties() -> Form:
    """'of which' rows: towns below their county, which are parts and not all of it."""
    rows: list[list[object]] = [["code", "area", "male", "female"]]
    for r, (code, region) in enumerate(IRELAND.regions):
        m, f = PEOPLE[r == REGION].sum((0, 2)).tolist()
        rows.append([code, region, m, f])
        for k in range(3):
            rows.append(
                [IRELAND.codes[6 * r + k], "of which: " + IRELAND.names[6 * r + k], *PEOPLE[6 * r + k].sum(1).tolist()]
            )
    return Form(
        "towns.csv",
        delimited(rows),
        stated(geography="code=area", wide="{sex:male|female}", only="code in L, M, C, U"),
        truth=Truth(
            tuple("LMCU"), np.stack([PEOPLE[r == REGION].sum((0, 2)) for r in range(4)]), (("male", "female"),)
        ),
    )


@form
def nested_margins() -> Form:
    """The smallest of many: everybody, each sex, and each sex by age."""
    rows: list[list[object]] = [["county", "T", "M", "F", "M1", "M2", "F1", "F2"]]
    young, old = PEOPLE[:, :, :2].sum(2), PEOPLE[:, :, 2:].sum(2)
    for i, code in enumerate(IRELAND.codes):
        (m1, f1), (m2, f2) = young[i].tolist(), old[i].tolist()
        rows.append([code, m1 + m2 + f1 + f2, m1 + m2, f1 + f2, m1, m2, f1, f2])
    return Form(
        "margins.csv",
        delimited(rows),
        stated(geography="county", wide="{sex:M|F}{age:1|2}"),
        truth=Truth(IRELAND.codes, np.stack([young, old], -1), (("M", "F"), ("1", "2")), names=IRELAND.names),
    )


@form
def numbered_rows_of_nested_areas() -> Form:
    """Country, provinces and counties below one another, and a number of the row in front."""
    rows: list[list[object]] = [["id", "district", "sex", "count"]]
    for _, (_, name), people in IRELAND.nested():
        rows += [[f"v{len(rows) + s}", name, "mf"[s], int(people[s].sum())] for s in range(2)]
    return Form(
        "numbered.csv",
        delimited(rows),
        stated(
            geography="district",
            count="count",
            attributes="sex",
            only="district not in State, Leinster, Munster, Connacht, Ulster (part of)",
        ),
        truth=by_sex(IRELAND, "mf", codes=IRELAND.names),
    )


@form
def numbered_rows() -> Form:
    """No sums, only a number of the row: the plain table of a database."""
    rows: list[list[object]] = [["id", "district", "sex", "age", "count"]]
    for code, people in zip(IRELAND.codes, PEOPLE, strict=True):
        for s, sex in enumerate("mf"):
            rows += [[len(rows) + a, code, sex, age, int(people[s, a])] for a, age in enumerate(AGES)]
    return Form(
        "table.csv",
        delimited(rows),
        stated(geography="district", count="count", attributes="sex,age"),
        truth=whole(IRELAND, "mf", AGES),
    )


@form
def numbered_rows_with_totals() -> Form:
    rows: list[list[object]] = [["id", "district", "sex", "count"]]
    for code, people in zip(IRELAND.codes, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows += [[len(rows) + k, code, sex, n] for k, (sex, n) in enumerate((("m", m), ("f", f), ("t", m + f)))]
    return Form(
        "totals.csv",
        delimited(rows),
        stated(geography="district", count="count", attributes="sex", only="sex != t"),
        truth=by_sex(IRELAND, "mf"),
    )


@form
def rounded_totals_of_another_name() -> Form:
    """Each number rounded to a multiple of 3; the total is called 'Total people', and is off by up to 3."""
    rows: list[list[object]] = [["area code", "sex", "count"]]
    for i, people in enumerate(PEOPLE):
        m, f = people.sum(1).tolist()
        rows += [
            [f"{101 + i:06d}", sex, round(n / 3) * 3]
            for sex, n in (("Male", m), ("Female", f), ("Total people", m + f))
        ]
    return Form(
        "rounded.csv",
        delimited(rows),
        stated(geography="area code", count="count", attributes="sex", only="sex != Total people"),
        stops="than --expect-records",
    )


@form
def state_rows_as_county_000() -> Form:
    rows: list[list[object]] = [["STATE", "COUNTY", "POP"]]
    for r in range(4):
        rows.append([f"{r + 1:02d}", "000", int(PEOPLE[r == REGION].sum())])
        rows += [[f"{r + 1:02d}", f"{2 * k + 1:03d}", int(PEOPLE[6 * r + k].sum())] for k in range(6)]
    codes = tuple(f"{i // 6 + 1:02d}{2 * (i % 6) + 1:03d}" for i in range(N_AREAS))
    return Form(
        "counties.csv",
        delimited(rows),
        stated(geography="STATE,COUNTY", count="POP", only="COUNTY != 000"),
        truth=Truth(codes, PEOPLE.sum((1, 2))[:, None], ((),), regions=True),
    )


def _sums(more: Sequence[tuple[str, int, int]], head: Row) -> list[Row]:
    """County, then each of `more`: a name and the part of its people that it is."""
    rows: list[Row] = [head]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        n = int(people.sum())
        rows += [[name, what, n * part // whole_part] for what, part, whole_part in more]
    return rows


@form
def measures_below_one_another() -> Form:
    """People and dwellings in one column of numbers, told apart by another column."""
    rows = _sums([("Population", 1, 1), ("Households", 4, 11), ("Dwellings", 5, 12)], ["county", "indicator", "value"])
    return Form(
        "indicators.csv",
        delimited(rows),
        stated(geography="county", count="value", only="indicator == Population"),
        truth=only_total(IRELAND, codes=IRELAND.names),
    )


@form
def of_which_foreigners() -> Form:
    rows = _sums([("Population", 1, 1), ("of which foreign", 1, 7)], ["county", "nationality", "persons"])
    return Form(
        "foreigners.csv",
        delimited(rows),
        stated(geography="county", count="persons", only="nationality == Population"),
        truth=only_total(IRELAND, codes=IRELAND.names),
    )


@form
def standard_errors_beside_estimates() -> Form:
    rows: list[list[object]] = [["County", "Male", "Female", "Male SE", "Female SE"]]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([name, m, f, m // 40 + 3, f // 41 + 2])
    return Form(
        "survey.csv",
        delimited(rows),
        stated(geography="County", wide="{sex:Male|Female}"),
        truth=by_sex(IRELAND, ("Male", "Female"), codes=IRELAND.names),
    )


@form
def births_beside_sexes() -> Form:
    """Two columns are everybody, two are something else; the number of people is known."""
    rows: list[list[object]] = [["County", "Births", "Deaths", "Male", "Female"]]
    for name, people in zip(IRELAND.names, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([name, (m + f) // 90, (m + f) // 110, m, f])
    return Form(
        "vital.csv",
        delimited(rows),
        stated(geography="County", wide="{sex:Male|Female}"),
        truth=by_sex(IRELAND, ("Male", "Female"), codes=IRELAND.names),
    )


@form
def spreadsheet_pivot() -> Form:
    """As a spreadsheet writes it: the field's name over the columns, totals at the end of both."""
    rows: list[list[object]] = [["Sum of persons", "Sex"], ["County", "F", "M", "Grand Total"]]
    for name, (m, f) in [*zip(IRELAND.names, PEOPLE.sum(2), strict=True), ("Grand Total", PEOPLE.sum((0, 2)))]:
        rows.append([name, int(f), int(m), int(m + f)])
    return Form(
        "pivot.xlsx",
        workbook({"Sheet1": rows}),
        stated(geography="County", header="2", wide="{sex:F|M}", only="County != Grand Total"),
        truth=by_sex(IRELAND, ("M", "F"), codes=IRELAND.names),
    )


@form
def spreadsheet_pivot_with_subtotals() -> Form:
    """'Carlow Total' below Carlow's rows, and the county only in the first of them."""
    rows: list[list[object]] = [["County", "Sex", "Sum of persons"]]
    for name, (m, f) in zip(IRELAND.names, PEOPLE.sum(2).tolist(), strict=True):
        rows += [[name, "F", f], ["", "M", m], [f"{name} Total", "", m + f]]
    rows.append(["Grand Total", "", int(PEOPLE.sum())])
    return Form(
        "pivot_rows.xlsx",
        workbook({"Sheet1": rows}),
        stated(geography="County", count="Sum of persons", attributes="Sex"),
        stops="column 'County': found nothing",
    )
