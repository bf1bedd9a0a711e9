"""Files of offices outside Europe, see `office_forms`."""

from __future__ import annotations

import numpy as np

from oracles.office_forms import (
    N_AREAS,
    PEOPLE,
    REGION,
    Counts,
    Form,
    Truth,
    by_age,
    by_sex,
    crossed,
    delimited,
    form,
    grouped,
    only_total,
    places,
    row,
    same,
    stated,
    whole,
    workbook,
)

CANADA = places(
    ("", "Canada"),
    [("10", "Newfoundland and Labrador"), ("24", "Quebec"), ("35", "Ontario"), ("59", "British Columbia")],
    "Division No. 1,"
    "Division No. 2, Division No. 3, Division No. 4, Division No. 5, Division No. 6, Avignon, Bonaventure,"
    "La Matanie, La Matapédia, La Mitis, Les Îles, Stormont, Prescott, Ottawa, Leeds, Lanark, Frontenac, East Kootenay,"
    "Central Kootenay, Kootenay Boundary, Okanagan, Fraser Valley, Greater Vancouver",
    lambda r, k: ("10", "24", "35", "59")[r] + f"{k + 1:02d}",
)
CANADIAN_AGES = ("0 to 14 years", "15 to 29 years", "30 to 44 years", "45 to 64 years", "65 years and over")


def _statcan(scalar: str = "units") -> bytes:
    rows: list[list[object]] = [
        row(
            "REF_DATE|GEO|DGUID|Gender|Age group|UOM|UOM_ID|SCALAR_FACTOR|SCALAR_ID|VECTOR|COORDINATE|VALUE|"
            "STATUS|SYMBOL|TERMINATED|DECIMALS"
        )
    ]
    for depth, (code, name), people in CANADA.nested():
        dguid = "2021A0000" + ("11124" if depth == 0 else "2" if depth == 1 else "3") + code
        for (sex, _), (age, _), n in crossed(
            people, same(["Men+", "Women+"]), same(CANADIAN_AGES), ("Total - gender",) * 2, ("All ages",) * 2
        ):
            value: object = n if scalar == "units" else max(round(n / 1000, 1), 0.1)
            rows.append(
                [
                    "2021",
                    name,
                    dguid,
                    sex,
                    age,
                    "Persons",
                    "249",
                    scalar,
                    "0" if scalar == "units" else "3",
                    f"v{len(rows) + 466667}",
                    f"{len(rows)}.1.1",
                    value,
                    "",
                    "",
                    "",
                    "0" if scalar == "units" else "1",
                ]
            )
    return delimited(rows, quote="all", encoding="utf-8-sig", end="\r\n")


@form
def statcan_full_table() -> Form:
    return Form(
        "17100139.csv",
        _statcan(),
        stated(
            geography="DGUID=GEO",
            levels="province=12,division=14",
            count="VALUE",
            attributes="Gender,Age group",
            only=(
                "Gender != Total - gender and Age group != All ages and DGUID not in 2021A000011124, "
                "2021A0000210, 2021A0000224, 2021A0000235, 2021A0000259"
            ),
        ),
        truth=whole(CANADA, ("Men+", "Women+"), CANADIAN_AGES, regions=True),
    )


@form
def statcan_full_table_in_thousands() -> Form:
    return Form(
        "14100287.csv",
        _statcan("thousands"),
        stated(
            geography="DGUID=GEO",
            count="VALUE",
            attributes="Gender,Age group",
            only=(
                "Gender != Total - gender and Age group != All ages and DGUID not in 2021A000011124, "
                "2021A0000210, 2021A0000224, 2021A0000235, 2021A0000259"
            ),
        ),
        stops="column 'VALUE': found '",
    )


@form
def statcan_whole_thousands() -> Form:
    """No fraction shows it: SCALAR_FACTOR alone does."""
    rows: list[list[object]] = [row("REF_DATE|GEO|DGUID|Sex|UOM|UOM_ID|SCALAR_FACTOR|SCALAR_ID|VALUE|STATUS|DECIMALS")]
    for (code, name), people in zip(CANADA.areas, PEOPLE, strict=True):
        for s, sex in enumerate(("Males", "Females")):
            rows.append(
                row(f"2021|{name}|2021A0003{code}|{sex}|Persons|249|thousands|3|{int(people[s].sum()) // 100 + 1}||0")
            )
    return Form(
        "14100017.csv",
        delimited(rows, quote="all"),
        stated(geography="DGUID=GEO", count="VALUE", attributes="Sex"),
        stops="fewer than --expect-records",
    )


@form
def statcan_census_profile() -> Form:
    """Characteristics below one another, among them totals, averages and rates."""
    rows: list[list[object]] = [
        row(
            "CENSUS_YEAR|DGUID|ALT_GEO_CODE|GEO_LEVEL|GEO_NAME|TNR_SF|TNR_LF|CHARACTERISTIC_ID|"
            "CHARACTERISTIC_NAME|C1_COUNT_TOTAL|C2_COUNT_MEN+|C3_COUNT_WOMEN+|C10_RATE_TOTAL"
        )
    ]
    for (code, name), people in zip(CANADA.areas, PEOPLE, strict=True):
        m, w = people.sum(1).tolist()
        lines: list[tuple[str, object, object, object, object]] = [
            ("Population, 2021", m + w, "", "", ""),
            ("Population percentage change, 2016 to 2021", 5.2, "", "", ""),
            ("Total - Age groups of the population - 100% data", m + w, m, w, 100),
            *(
                (
                    f"  {age}",
                    int(people[:, a].sum()),
                    *people[:, a].tolist(),
                    round(100 * people[:, a].sum() / (m + w), 1),
                )
                for a, age in enumerate(CANADIAN_AGES)
            ),
            ("Average age of the population", 41.9, 41.1, 42.7, ""),
        ]
        for k, line in enumerate(lines):
            rows.append([2021, f"2021A0003{code}", code, "Census division", name, 3.1, 4.3, k + 1, *line])
    return Form(
        "98-401-X2021003_English_CSV_data.csv",
        delimited(rows, quote="texts", encoding="cp1252"),
        stated(
            geography="ALT_GEO_CODE=GEO_NAME",
            attributes="CHARACTERISTIC_NAME",
            wide="C{sex:2_COUNT_MEN+|3_COUNT_WOMEN+}",
            only=(
                "CHARACTERISTIC_NAME in 0 to 14 years, 15 to 29 years, 30 to 44 years, 45 to 64 "
                "years, 65 years and over"
            ),
        ),
        truth=whole(CANADA, ("MEN+", "WOMEN+"), CANADIAN_AGES),
    )


AMERICA = places(
    ("1", "United States"),
    [("09", "Connecticut"), ("10", "Delaware"), ("15", "Hawaii"), ("44", "Rhode Island")],
    "Fairfield County, Hartford County, Litchfield County, Middlesex County, New Haven County, New London County,"
    "Kent County, New Castle County, Sussex County, Dover County, Lewes County, Milford County, Hawaii County,"
    "Honolulu County, Kalawao County, Kauai County, Maui County, Lanai County, Bristol County, Kent County West,"
    "Newport County, Providence County, Washington County, Block Island County",
    lambda r, k: ("09", "10", "15", "44")[r] + f"{2 * k + 1:03d}",
)
STATE_OF = tuple(name for _, name in AMERICA.regions)


@form
def acs_b01001() -> Form:
    """Estimates and margins of error, and the labels as a second header row."""
    rows: list[list[object]] = [
        ["GEO_ID", "NAME", *(f"B01001_{k:03d}{x}" for k in (1, 2, 26) for x in "EM")],
        [
            "Geography",
            "Geographic Area Name",
            *(
                f"{what}!!{text}"
                for text in ("Total:", "Total:!!Male:", "Total:!!Female:")
                for what in ("Estimate", "Margin of Error")
            ),
        ],
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        m, f = PEOPLE[i].sum(1).tolist()
        rows.append(
            [f"0500000US{code}", f"{name}, {STATE_OF[REGION[i]]}", m + f, "*****", m, 97 + 3 * i, f, 97 + 3 * i]
        )
    return Form(
        "ACSDT5Y2021.B01001-Data.csv",
        delimited(rows, quote="all"),
        stated(
            geography="GEO_ID Geography",
            header="1:2",
            wide="B01001_{sex:002E Estimate!!Total:!!Male:|026E Estimate!!Total:!!Female:}",
        ),
        truth=by_sex(AMERICA, ("Male", "Female"), codes=[f"0500000US{c}" for c in AMERICA.codes]),
    )


@form
def acs_without_stars() -> Form:
    """As the API gives them: every cell a whole number, margins too."""
    rows: list[list[object]] = [
        ["GEO_ID", "NAME", "B01001_002E", "B01001_002M", "B01001_026E", "B01001_026M", "state", "county"]
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        m, f = PEOPLE[i].sum(1).tolist()
        rows.append(
            [f"0500000US{code}", f"{name}, {STATE_OF[REGION[i]]}", m, 97 + 3 * i, f, 91 + 4 * i, code[:2], code[2:]]
        )
    return Form(
        "acs5_b01001.csv",
        delimited(rows),
        stated(geography="state,county=NAME", wide="B01001_{sex:002E|026E}"),
        truth=by_sex(AMERICA, ("002E", "026E"), regions=True),
    )


@form
def acs_data_profile() -> Form:
    """DP05: estimates, margins, percentages and their margins."""
    rows: list[list[object]] = [
        ["GEO_ID", "NAME", *(f"DP05_{k:04d}{x}" for k in (1, 2, 3) for x in ("E", "M", "PE", "PM"))]
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        m, f = PEOPLE[i].sum(1).tolist()
        line: list[object] = []
        for n in (m + f, m, f):
            line += [n, 50 + i, round(100 * n / (m + f), 1), 0.1]
        rows.append([f"0500000US{code}", f"{name}, {STATE_OF[REGION[i]]}", *line])
    return Form(
        "ACSDP5Y2021.DP05-Data.csv",
        delimited(rows, quote="all"),
        stated(geography="GEO_ID=NAME", wide="DP05_{sex:0002E|0003E}"),
        truth=by_sex(AMERICA, ("0002E", "0003E"), codes=[f"0500000US{c}" for c in AMERICA.codes]),
    )


@form
def decennial_p1() -> Form:
    """Data.census.gov: codes, then a row of labels; the total, and the population by race, with sums in between."""
    rows: list[list[object]] = [
        [
            "GEO_ID",
            "NAME",
            "P12_001N",
            "P12_002N",
            *(f"P12_{k:03d}N" for k in range(3, 8)),
            "P12_026N",
            *(f"P12_{k:03d}N" for k in range(27, 32)),
        ],
        [
            "Geography",
            "Geographic Area Name",
            " !!Total:",
            " !!Total:!!Male:",
            *(f" !!Total:!!Male:!!{age}" for age in CANADIAN_AGES),
            " !!Total:!!Female:",
            *(f" !!Total:!!Female:!!{age}" for age in CANADIAN_AGES),
        ],
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        m, f = PEOPLE[i].tolist()
        rows.append([f"0500000US{code}", f"{name}, {STATE_OF[REGION[i]]}", sum(m) + sum(f), sum(m), *m, sum(f), *f])
    codes = [f"0500000US{c}" for c in AMERICA.codes]
    return Form(
        "DECENNIALDHC2020.P12-Data.csv",
        delimited(rows, quote="all", encoding="utf-8-sig"),
        stated(geography="Geography=Geographic Area Name", header="2", wide="!!Total:!!{sex:Male|Female}:!!{age}"),
        truth=whole(AMERICA, ("Male", "Female"), CANADIAN_AGES, codes=codes),
    )


@form
def decennial_api() -> Form:
    """The API's lines: an array in an array, saved as .csv."""
    rows = [["P12_002N", "P12_026N", "NAME", "state", "county"]]
    for i, (code, name) in enumerate(AMERICA.areas):
        rows.append([*map(str, PEOPLE[i].sum(1).tolist()), f"{name}, {STATE_OF[REGION[i]]}", code[:2], code[2:]])
    text = "[" + ",\n".join("[" + ",".join(f'"{cell}"' for cell in row) + "]" for row in rows) + "]"
    return Form(
        "dhc.csv", text.encode(), stated(geography="state,county", wide="{sex:P12_002N|P12_026N}"), stops="line "
    )


@form
def popest_by_year() -> Form:
    """CO-EST: a wide file of a census and of estimates by year, with states as sums of counties."""
    years = range(2010, 2014)
    rows: list[list[object]] = [
        [
            "SUMLEV",
            "REGION",
            "DIVISION",
            "STATE",
            "COUNTY",
            "STNAME",
            "CTYNAME",
            "CENSUS2010POP",
            "ESTIMATESBASE2010",
            *(f"POPESTIMATE{y}" for y in years),
            *(f"NPOPCHG_{y}" for y in years),
            *(f"BIRTHS{y}" for y in years),
        ]
    ]
    for depth, (code, name), people in AMERICA.nested(nation=False):
        n = int(people.sum())
        state = next(s for c, s in AMERICA.regions if code.startswith(c))
        rows.append(
            [
                "040" if depth == 1 else "050",
                1,
                1,
                code[:2],
                code[2:] or "000",
                state,
                name,
                n,
                n,
                *(n + 11 * k for k in range(4)),
                *([11] * 4),
                *(n // 90 + k for k in range(4)),
            ]
        )
    return Form(
        "co-est2013-alldata.csv",
        delimited(rows, encoding="iso-8859-1", end="\r\n"),
        stated(geography="STATE=STNAME,COUNTY=CTYNAME", level="SUMLEV", drop_level="040", count="CENSUS2010POP"),
        truth=only_total(AMERICA, regions=True),
    )


@form
def popest_one_year_with_states() -> Form:
    """SUMLEV 040 rows are the states, with county 000."""
    rows: list[list[object]] = [["SUMLEV", "STATE", "COUNTY", "STNAME", "CTYNAME", "POPESTIMATE2021"]]
    for depth, (code, name), people in AMERICA.nested(nation=False):
        state = next(s for c, s in AMERICA.regions if code.startswith(c))
        rows.append(["040" if depth == 1 else "050", code[:2], code[2:] or "000", state, name, int(people.sum())])
    return Form(
        "co-est2021.csv",
        delimited(rows),
        stated(geography="STATE=STNAME,COUNTY=CTYNAME", level="SUMLEV", drop_level="040", count="POPESTIMATE2021"),
        truth=only_total(AMERICA, regions=True),
    )


@form
def short_codes_named() -> Form:
    """County 001 of every state, where the levels are named and not guessed."""
    rows: list[list[object]] = [["FIPS_ST", "FIPS_CO", "Sex", "Persons"]]
    for i, code in enumerate(AMERICA.codes):
        rows += [[code[:2], code[2:], sex, int(PEOPLE[i, s].sum())] for s, sex in enumerate(("Male", "Female"))]
    return Form(
        "counties.csv",
        delimited(rows),
        stated(geography="FIPS_ST,FIPS_CO", count="Persons", attributes="Sex"),
        truth=by_sex(AMERICA, ("Male", "Female"), regions=True),
    )


@form
def repeated_area_code_in_a_wide_table() -> Form:
    """A code stands twice: two pages of a download overlap."""
    rows: list[list[object]] = [
        ["date", "geography", "geography code", "Age: Total", *(f"Age: {age}" for age in CANADIAN_AGES)]
    ]
    for i in (*range(N_AREAS), 5):
        rows.append([2021, AMERICA.names[i], AMERICA.codes[i], int(PEOPLE[i].sum()), *PEOPLE[i].sum(0).tolist()])
    return Form(
        "census2021-ts007-ctry.csv",
        delimited(rows),
        stated(geography="geography code=geography", wide="Age: {age}", only="age != Total"),
        stops="two rows of the same cell",
    )


@form
def popest_years_only() -> Form:
    years = (2021, 2022)
    rows: list[list[object]] = [["STATE", "COUNTY", "STNAME", "CTYNAME", *(f"POPESTIMATE{y}" for y in years)]]
    for i, (code, name) in enumerate(AMERICA.areas):
        n = int(PEOPLE[i].sum())
        rows.append([code[:2], code[2:], STATE_OF[REGION[i]], name, n, n + 17])
    return Form(
        "co-est2022-alldata.csv",
        delimited(rows),
        stated(geography="STATE=STNAME,COUNTY=CTYNAME", count="POPESTIMATE2021"),
        truth=only_total(AMERICA, regions=True),
    )


@form
def popest_age_groups() -> Form:
    """CC-EST: AGEGRP 0 is all ages; the total and the sexes, and the sexes by race."""
    rows: list[list[object]] = [
        ["SUMLEV", "STATE", "COUNTY", "STNAME", "CTYNAME", "YEAR", "AGEGRP", "TOT_POP", "TOT_MALE", "TOT_FEMALE"]
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        for a in range(6):
            m, f = (PEOPLE[i].sum(1) if a == 0 else PEOPLE[i, :, a - 1]).tolist()
            rows.append(["050", code[:2], code[2:], STATE_OF[REGION[i]], name, 3, a, m + f, m, f])
    return Form(
        "cc-est2021-all.csv",
        delimited(rows),
        stated(
            geography="STATE=STNAME,COUNTY=CTYNAME",
            attributes="AGEGRP",
            wide="TOT_{sex:MALE|FEMALE}",
            only="AGEGRP != 0",
        ),
        truth=whole(AMERICA, ("MALE", "FEMALE"), "12345", regions=True),
    )


@form
def popest_agesex() -> Form:
    """Bands of ages that overlap: UNDER5 and AGE04, AGE16PLUS, medians."""
    rows: list[list[object]] = [
        row(
            "SUMLEV|STATE|COUNTY|STNAME|CTYNAME|YEAR|POPESTIMATE|POPEST_MALE|POPEST_FEM|UNDER15_TOT|"
            "AGE15PLUS_TOT|AGE1529_TOT|AGE3044_TOT|AGE4564_TOT|AGE65PLUS_TOT|MEDIAN_AGE_TOT"
        )
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        m, f = PEOPLE[i].sum(1).tolist()
        a = PEOPLE[i].sum(0).tolist()
        rows.append(
            ["050", code[:2], code[2:], STATE_OF[REGION[i]], name, 3, m + f, m, f, a[0], sum(a[1:]), *a[1:], 38.4]
        )
    return Form(
        "cc-est2021-agesex.csv",
        delimited(rows),
        stated(
            geography="STATE=STNAME,COUNTY=CTYNAME",
            wide="{age:UNDER15_TOT|AGE1529_TOT|AGE3044_TOT|AGE4564_TOT|AGE65PLUS_TOT}",
        ),
        truth=by_age(
            AMERICA, ("UNDER15_TOT", "AGE1529_TOT", "AGE3044_TOT", "AGE4564_TOT", "AGE65PLUS_TOT"), regions=True
        ),
    )


AUSTRALIA_CODES = tuple(f"{1 + i // 6}{101 + i % 6}{21007 + i}" for i in range(N_AREAS))
ABS_AGES = ("0_14", "15_29", "30_44", "45_64", "65ov")


@form
def abs_datapack() -> Form:
    """G01: each person in the total, by age, and by sex; and subsets such as the indigenous."""
    rows: list[list[object]] = [
        ["SA2_CODE_2021", *(f"Tot_P_{x}" for x in "MFP"), *(f"Age_{a}_yr_{x}" for a in ABS_AGES for x in "MFP")]
    ]
    for code, people in zip(AUSTRALIA_CODES, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        line = [m, f, m + f]
        for a in range(5):
            line += [*people[:, a].tolist(), int(people[:, a].sum())]
        rows.append([code, *line])
    return Form(
        "2021Census_G01_NSW_SA2.csv",
        delimited(rows, end="\r\n"),
        stated(geography="SA2_CODE_2021", wide="Age_{age:0_14|15_29|30_44|45_64|65ov}_yr_{sex:M|F}"),
        truth=Truth(AUSTRALIA_CODES, PEOPLE, (("M", "F"), ABS_AGES)),
    )


@form
def abs_datapack_with_subsets() -> Form:
    """Persons, and of them those born abroad and those at school: parts of everybody, not other people."""
    rows: list[list[object]] = [
        [
            "SA2_CODE_2021",
            *(f"Tot_P_{x}" for x in "MFP"),
            *(f"Birthplace_Elsewhere_{x}" for x in "MFP"),
            *(f"Age_psns_att_educ_inst_5_14_{x}" for x in "MFP"),
        ]
    ]
    for code, people in zip(AUSTRALIA_CODES, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([code, m, f, m + f, m // 4, f // 5, m // 4 + f // 5, m // 9, f // 8, m // 9 + f // 8])
    return Form(
        "2021Census_G01_VIC_SA2.csv",
        delimited(rows, end="\r\n"),
        stated(geography="SA2_CODE_2021", wide="Tot_P_{sex:M|F}"),
        truth=Truth(AUSTRALIA_CODES, PEOPLE.sum(2), (("M", "F"),)),
    )


@form
def abs_tablebuilder() -> Form:
    """Titles, a header of two rows of which the first is the variable, a total, notes."""
    rows: list[list[object]] = [
        ["Australian Bureau of Statistics"],
        [],
        ["2021 Census - counting persons, place of usual residence"],
        ["SA2 (UR) by SEXP - Sex"],
        ["Counting: Persons, Place of Usual Residence"],
        [],
        ["Filters:"],
        ["Default Summation", "Persons, Place of Usual Residence"],
        [],
        ["SEXP - Sex", "Male", "Female", "Total"],
        ["SA2 (UR)", "", "", ""],
    ]
    names = [f"Suburb {k} (NSW)" for k in range(N_AREAS)]
    for name, people in zip(names, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([name, m, f, m + f])
    m, f = PEOPLE.sum((0, 2)).tolist()
    rows += [
        ["Total", m, f, m + f],
        [],
        ["Data Source: Census of Population and Housing, 2021, TableBuilder"],
        [],
        ["INFO", "Cells in this table have been randomly adjusted to avoid the release of confidential data."],
        ["Copyright Commonwealth of Australia, 2021"],
    ]
    return Form(
        "table_2024-03-01_10-11-12.csv",
        delimited(rows, quote="texts"),
        stated(geography="SEXP - Sex SA2 (UR)", header="10:11", last=35, wide="{sex:Male|Female}"),
        truth=Truth(tuple(names), PEOPLE.sum(2), (("Male", "Female"),)),
    )


@form
def abs_erp_sdmx() -> Form:
    """Codes with their texts behind a colon; '3: Persons', 'TT: All ages'."""
    rows: list[list[object]] = [
        row(
            "DATAFLOW|MEASURE: Measure|SEX: Sex|AGE: Age|REGION_TYPE: Region Type|REGION: Region|"
            "FREQ: Frequency|TIME_PERIOD: Time Period|OBS_VALUE|UNIT_MEASURE: Unit of Measure|"
            "OBS_STATUS: Observation Status|OBS_COMMENT: Observation Comment"
        )
    ]
    ages = ("A04: 0-14", "A59: 15-29", "A10: 30-44", "A15: 45-64", "65P: 65 and over")
    for code, people in zip(AUSTRALIA_CODES, PEOPLE, strict=True):
        for (sex, _), (age, _), n in crossed(
            people,
            same(["1: Males", "2: Females"]),
            same(ages),
            ("3: Persons",) * 2,
            ("TT: All ages",) * 2,
            total_first=False,
        ):
            rows.append(
                row(
                    f"ABS:ERP_ASGS2021(1.0.0)|ERP: Estimated Resident Population|{sex}|{age}|"
                    f"SA2: Statistical Area Level 2|{code}: Suburb {code[-2:]}|A: Annual|2021|{n}|PSNS: Persons||"
                )
            )
    return Form(
        "ABS,ERP_ASGS2021,1.0.0+all.csv",
        delimited(rows),
        stated(
            geography="REGION: Region",
            count="OBS_VALUE",
            attributes="SEX: Sex,AGE: Age",
            only="SEX: Sex != 3: Persons and AGE: Age != TT: All ages",
        ),
        truth=Truth(AUSTRALIA_CODES, PEOPLE, (("1: Males", "2: Females"), ages)),
    )


def _stats_nz(people: Counts, mark: str = "") -> bytes:
    rows: list[list[object]] = [["Year", "Age", "Ethnic", "Sex", "Area", "count"]]
    for code, part in [("9999", people.sum(0)), *((f"{101 + i:06d}", people[i]) for i in range(N_AREAS))]:
        for (sex, _), (age, _), n in crossed(
            part, same("12"), same(["001", "002", "003", "004", "005"]), ("9", "9"), ("999999",) * 2, total_first=False
        ):
            rows.append([2018, age, 9999, sex, code, mark if mark and n < 100 else n])
    return delimited(rows)


@form
def stats_nz_data8277() -> Form:
    """All codes: sex 9, age 999999, area 9999 are the totals; nothing says so."""
    return Form(
        "Data8277.csv",
        _stats_nz(PEOPLE),
        stated(
            geography="Area", count="count", attributes="Sex,Age", only="Area != 9999 and Sex != 9 and Age != 999999"
        ),
        truth=Truth(
            tuple(f"{101 + i:06d}" for i in range(N_AREAS)), PEOPLE, (("1", "2"), ("001", "002", "003", "004", "005"))
        ),
    )


@form
def stats_nz_suppressed() -> Form:
    return Form(
        "Data8277.csv",
        _stats_nz(PEOPLE, "..C"),
        stated(
            geography="Area", count="count", attributes="Sex,Age", only="Area != 9999 and Sex != 9 and Age != 999999"
        ),
        stops="found '..C'",
    )


@form
def stats_nz_rounded() -> Form:
    """Each number is rounded to a multiple of 3 by itself, so no total is the sum."""
    rows: list[list[object]] = [["Area code", "Area", "Sex", "Age group", "Usually resident population count"]]
    for i in range(N_AREAS):
        for (sex, _), (age, _), n in crossed(
            PEOPLE[i],
            same(["Male", "Female"]),
            same(CANADIAN_AGES),
            ("Total people",) * 2,
            ("Total people - age group",) * 2,
        ):
            rows.append([f"{101 + i:06d}", f"Area {i}", sex, age, n // 3 * 3 + (3 if n % 3 > 1 else 0)])
    return Form(
        "2018-census-totals-by-topic.csv",
        delimited(rows),
        stated(
            geography="Area code=Area",
            count="Usually resident population count",
            attributes="Sex,Age group",
            only="Sex != Total people and Age group != Total people - age group",
        ),
        stops="than --expect-records",
    )


JAPAN = tuple(f"{(1, 13, 27, 47)[i // 6]:02d}{101 + i % 6}" for i in range(N_AREAS))
JAPANESE_AGES = ("15歳未満", "15～29歳", "30～44歳", "45～64歳", "65歳以上")


def _estat(encoding: str) -> bytes:
    rows: list[list[object]] = [
        row(
            "tab_code|表章項目|cat01_code|男女|cat02_code|年齢|area_code|全国，都道府県，市区町村|time_code|時間軸（年次）|unit|value|"
            "annotation"
        )
    ]
    for i, code in enumerate(JAPAN):
        for (s, sex), (a, age), n in crossed(
            PEOPLE[i],
            [("1", "男"), ("2", "女")],
            [(f"{k + 1:02d}", t) for k, t in enumerate(JAPANESE_AGES)],
            ("0", "総数"),
            ("00", "総数"),
        ):
            rows.append(["2020_01", "人口", s, sex, a, age, code, f"第{i}区", "2020000000", "2020年", "人", n, ""])
    return delimited(rows, quote="all", encoding=encoding, end="\r\n")


@form
def estat_database() -> Form:
    return Form(
        "FEH_00200521_240301101112.csv",
        _estat("utf-8-sig"),
        stated(
            geography="area_code=全国，都道府県，市区町村",
            count="value",
            attributes="男女,年齢",
            only="男女 != 総数 and 年齢 != 総数",
        ),
        truth=Truth(JAPAN, PEOPLE, (("1|男", "2|女"), tuple(f"{k + 1:02d}|{t}" for k, t in enumerate(JAPANESE_AGES)))),
    )


@form
def estat_shift_jis() -> Form:
    """The default of the download page; as Windows Western it is other letters, and no header can be read."""
    return Form(
        "FEH_00200521_sjis.csv",
        _estat("cp932"),
        stated(
            geography="area_code=全国，都道府県，市区町村",
            count="value",
            attributes="男女,年齢",
            only="男女 != 総数 and 年齢 != 総数",
            encoding="cp932",
        ),
        truth=Truth(JAPAN, PEOPLE, (("1|男", "2|女"), tuple(f"{k + 1:02d}|{t}" for k, t in enumerate(JAPANESE_AGES)))),
    )


@form
def estat_full_width() -> Form:
    """Full-width figures and commas, units below the header, '総数' first."""
    wide = str.maketrans("0123456789,", "０１２３４５６７８９，")
    rows: list[list[object]] = [
        ["表１　男女別人口"],
        [],
        ["市区町村コード", "市区町村", "総数", "男", "女"],
        ["", "", "（人）", "（人）", "（人）"],
    ]
    for i, code in enumerate(JAPAN):
        m, f = PEOPLE[i].sum(1).tolist()
        rows.append([code, f"第{i}区", *(grouped(n, ",").translate(wide) for n in (m + f, m, f))])
    return Form(
        "b01_01.csv",
        delimited(rows),
        stated(geography="市区町村コード=市区町村", header="3:4", wide="{sex:男|女} （人）"),
        stops="found '",
    )


@form
def kosis_population() -> Form:
    """Two header rows: the year over items; '전국' first."""
    rows: list[list[object]] = [
        ["행정구역(시군구)별", "2021", "2021", "2021"],
        ["행정구역(시군구)별", "총인구수 (명)", "남자인구수 (명)", "여자인구수 (명)"],
    ]
    names = tuple(f"시군구 {k:02d}" for k in range(N_AREAS))
    for name, people in [("전국", PEOPLE.sum(0)), *zip(names, PEOPLE, strict=True)]:
        m, f = people.sum(1).tolist()
        rows.append([name, m + f, m, f])
    return Form(
        "행정구역_시군구_별__성별_인구수_20240301.csv",
        delimited(rows, quote="texts"),
        stated(
            geography="행정구역(시군구)별 행정구역(시군구)별",
            header="1:2",
            wide="2021 {sex:남자인구수|여자인구수} (명)",
            only="행정구역(시군구)별 행정구역(시군구)별 != 전국",
        ),
        truth=Truth(names, PEOPLE.sum(2), (("남자인구수", "여자인구수"),)),
    )


@form
def kosis_long() -> Form:
    rows: list[list[object]] = [["행정구역별(읍면동)", "성별", "연령별", "항목", "단위", "2021 년"]]
    names = tuple(f"시군구 {k:02d}" for k in range(N_AREAS))
    ages = ("0 - 14세", "15 - 29세", "30 - 44세", "45 - 64세", "65세 이상")
    for name, people in [("전국", PEOPLE.sum(0)), *zip(names, PEOPLE, strict=True)]:
        for (sex, _), (age, _), n in crossed(
            people, same(["남자", "여자"]), same(ages), ("계", "계"), ("합계", "합계")
        ):
            rows.append([name, sex, age, "총조사인구", "명", n])
    return Form(
        "인구__시군구__성__연령_20240301.csv",
        delimited(rows, quote="texts"),
        stated(
            geography="행정구역별(읍면동)",
            count="2021 년",
            attributes="성별,연령별",
            only="행정구역별(읍면동) != 전국 and 성별 != 계 and 연령별 != 합계",
        ),
        truth=Truth(names, PEOPLE, (("남자", "여자"), ages)),
    )


BRAZIL = places(
    ("1", "Brasil"),
    [("11", "Rondônia"), ("23", "Ceará"), ("35", "São Paulo"), ("43", "Rio Grande do Sul")],
    "Alta Floresta D'Oeste,"
    "Ariquemes, Cabixi, Cacoal, Cerejeiras, Colorado do Oeste, Abaiara, Acarape, Acaraú, Acopiara,"
    "Aiuaba,"
    "Alcântaras, Adamantina, Adolfo, Aguaí, Águas da Prata, Águas de Lindóia, Agudos, Aceguá, Água Santa, Agudo,"
    "Ajuricaba, Alecrim, Alegrete",
    lambda r, k: ("11", "23", "35", "43")[r] + f"{15 + 33 * k:05d}",
)


def _with_state(i: int) -> str:
    return f"{BRAZIL.names[i]} ({['RO', 'CE', 'SP', 'RS'][REGION[i]]})"


def _sidra(marks: bool) -> bytes:
    rows: list[list[object]] = [
        ["Tabela 9514 - População residente, por sexo, idade e forma de declaração da idade"],
        ["Variável - População residente (Pessoas)"],
        ["Cód.", "Município", "Ano x Sexo", "", ""],
        ["Cód.", "Município", "2022", "", ""],
        ["Cód.", "Município", "Total", "Homens", "Mulheres"],
    ]
    for i, (code, _) in enumerate(BRAZIL.areas):
        h, m = PEOPLE[i].sum(1).tolist()
        rows.append(
            [
                code,
                _with_state(i),
                h + m,
                "X" if marks and i == 7 else h,
                "-" if marks and i == 9 else m,
            ]
        )
    rows += [
        ["Fonte: IBGE - Censo Demográfico"],
        ["Notas"],
        ["1 - Os dados são do universo."],
        ["Símbolo", "Significado"],
        ["-", "Zero absoluto, não resultante de um cálculo ou arredondamento."],
        ["X", "Valor inibido"],
        ["..", "Valor não se aplica"],
        ["...", "Valor não disponível"],
    ]
    return delimited(rows, ";", quote="texts", encoding="utf-8-sig")


@form
def sidra_table() -> Form:
    """Titles, a header of three rows, a legend of signs as rows of two cells."""
    return Form(
        "tabela9514.csv",
        _sidra(False),
        stated(
            geography="Cód.=Município", header="5", last=29, levels="uf=2,municipio=7", wide="{sex:Homens|Mulheres}"
        ),
        truth=by_sex(BRAZIL, ("Homens", "Mulheres"), regions=True),
    )


@form
def sidra_table_with_marks() -> Form:
    return Form(
        "tabela9514_x.csv",
        _sidra(True),
        stated(geography="Cód.=Município", header="5", last=29, wide="{sex:Homens|Mulheres}"),
        stops="found '[X-]'",
    )


@form
def ibge_tracts() -> Form:
    """Variables as V0001, V0002; X where fewer than five homes are."""
    rows: list[list[object]] = [["CD_SETOR", "V01006", "V01007", "V01008"]]
    for i in range(N_AREAS):
        h, m = PEOPLE[i].sum(1).tolist()
        rows.append([f"1100015{5 + i // 6:02d}0000{i % 6 + 1:02d}", h + m, *(("X", "X") if i == 11 else (h, m))])
    return Form(
        "Agregados_por_setores_demografia_RO.csv",
        delimited(rows, ";", quote="texts"),
        stated(geography="CD_SETOR", wide="V{sex:01007|01008}"),
        stops="found 'X'",
    )


def _iter(stars: bool) -> bytes:
    rows: list[list[object]] = [
        row("ENTIDAD|NOM_ENT|MUN|NOM_MUN|LOC|NOM_LOC|LONGITUD|LATITUD|ALTITUD|POBTOT|POBFEM|POBMAS")
    ]

    def line(people: Counts, *place: object) -> list[object]:
        m, f = people.sum((0, 2)).tolist() if people.ndim == 3 else people.sum(1).tolist()
        hidden = stars and 0 < m + f < 3000 and place[4] not in ("0000", "9998", "9999")
        return [
            *place,
            *(
                ("102°17'45.768\" W", "21°52'47.362\" N", 1878)
                if place[4] not in ("0000", "9998", "9999")
                else ("", "", "")
            ),
            m + f,
            *(("*", "*") if hidden else (f, m)),
        ]

    rows.append(
        line(PEOPLE, "01", "Aguascalientes", "000", "Total de la entidad Aguascalientes", "0000", "Total de la Entidad")
    )
    for k, loc in ((0, "9998"), (1, "9999")):
        rows.append(
            line(
                PEOPLE[k::6],
                "01",
                "Aguascalientes",
                "000",
                "Total de la entidad Aguascalientes",
                loc,
                ("Localidades de una vivienda", "Localidades de dos viviendas")[k],
            )
        )
    for r in range(4):
        name = ("Aguascalientes", "Asientos", "Calvillo", "Cosío")[r]
        mine = PEOPLE[r == REGION]
        rows.append(line(mine, "01", "Aguascalientes", f"{r + 1:03d}", name, "0000", "Total del Municipio"))
        for k in range(6):
            rows.append(
                line(
                    mine[k],
                    "01",
                    "Aguascalientes",
                    f"{r + 1:03d}",
                    name,
                    f"{k + 1:04d}" if k < 4 else f"{9994 + k}",
                    f"Localidad {r}-{k}"
                    if k < 4
                    else ("Localidades de una vivienda", "Localidades de dos viviendas")[k - 4],
                )
            )
    return delimited(rows, encoding="utf-8-sig", quote="texts")


@form
def inegi_iter() -> Form:
    """Totals of the state and of municipalities as localities 0000; 9998 and 9999 are the smallest of them together."""
    codes = tuple(f"{r + 1:03d}{k + 1:04d}" if k < 4 else f"{r + 1:03d}{9994 + k}" for r in range(4) for k in range(6))
    return Form(
        "ITER_01CSV20.csv",
        _iter(False),
        stated(geography="MUN=NOM_MUN,LOC=NOM_LOC", wide="POB{sex:MAS|FEM}", only="MUN != 000 and LOC != 0000"),
        truth=Truth(codes, PEOPLE.sum(2), (("POBMAS", "POBFEM"),), regions=True),
    )


@form
def inegi_iter_with_stars() -> Form:
    return Form(
        "ITER_01CSV20_confidencial.csv",
        _iter(True),
        stated(geography="MUN=NOM_MUN,LOC=NOM_LOC", wide="POB{sex:MAS|FEM}", only="MUN != 000 and LOC != 0000"),
        stops=r"found '\*'",
    )


@form
def undata_census() -> Form:
    """Total, urban and rural of each city's people; both sexes; notes as rows of two other columns."""
    rows: list[list[object]] = [
        row("Country or Area|Year|Area|Sex|City|City type|Record Type|Reliability|Source Year|Value|Value Footnotes")
    ]
    names = tuple(f"CITY {k:02d}" for k in range(N_AREAS))
    for name, people in zip(names, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        for sex, n in (("Both Sexes", m + f), ("Male", m), ("Female", f)):
            rows.append(
                row(
                    f"Aruba|2020|Total|{sex}|{name}|City proper|Census - de jure - complete tabulation|"
                    f"Final figure, complete|2021|{n}|1"
                )
            )
    rows += [["footnoteSeqID", "Footnote"], ["1", "Data refer to 1 October."]]
    return Form(
        "UNdata_Export_20240301.csv",
        delimited(rows, quote="all"),
        stated(geography="City", count="Value", attributes="Sex", last=73, only="Sex != Both Sexes"),
        truth=Truth(names, PEOPLE.sum(2), (("Male", "Female"),)),
    )


@form
def undata_urban_and_rural() -> Form:
    rows: list[list[object]] = [["Country or Area", "Year", "Area", "Sex", "Age", "Value"]]
    names = tuple(f"Country {k:02d}" for k in range(N_AREAS))
    for name, people in zip(names, PEOPLE, strict=True):
        for (sex, _), (age, _), n in crossed(
            people, same(["Male", "Female"]), same(CANADIAN_AGES), ("Both Sexes",) * 2, ("Total",) * 2
        ):
            urban = n * 3 // 5
            if sex == "Both Sexes" or age == "Total":
                part = people if sex == "Both Sexes" else people[["Male", "Female"].index(sex)][None]
                part = part if age == "Total" else part[:, [CANADIAN_AGES.index(age)]]
                urban = int((part * 3 // 5).sum())
            rows += [
                [name, 2020, kind, sex, age, k] for kind, k in (("Total", n), ("Urban", urban), ("Rural", n - urban))
            ]
    in_towns = PEOPLE * 3 // 5
    return Form(
        "UNdata_Export_urban.csv",
        delimited(rows, quote="all"),
        stated(
            geography="Country or Area",
            count="Value",
            attributes="Area,Sex,Age",
            only="Area != Total and Sex != Both Sexes and Age != Total",
        ),
        truth=Truth(
            names, np.stack([in_towns, PEOPLE - in_towns], -1), (("Male", "Female"), CANADIAN_AGES, ("Urban", "Rural"))
        ),
    )


@form
def wpp_thousands() -> Form:
    rows: list[list[object]] = [
        ["LocID", "Location", "VarID", "Variant", "Time", "AgeGrp", "PopMale", "PopFemale", "PopTotal"]
    ]
    for i, people in enumerate(PEOPLE):
        for a, age in enumerate(("0-14", "15-29", "30-44", "45-64", "65+")):
            m, f = (people[:, a] / 1000).tolist()
            rows.append([4 + 4 * i, f"Country {i}", 2, "Medium", 2021, age, f"{m:.3f}", f"{f:.3f}", f"{m + f:.3f}"])
    return Form(
        "WPP2022_PopulationByAgeSex_Medium.csv",
        delimited(rows),
        stated(geography="LocID=Location", attributes="AgeGrp", wide="Pop{sex:Male|Female}"),
        stops="column 'PopMale': found '",
    )


@form
def ipums_extract() -> Form:
    """A sample of persons with weights."""
    random = np.random.default_rng(7)
    rows: list[list[object]] = [
        ["YEAR", "SAMPLE", "SERIAL", "HHWT", "GQ", "STATEFIP", "COUNTYFIP", "PERNUM", "PERWT", "SEX", "AGE"]
    ]
    for serial in range(900):
        weight = int(random.integers(40, 160))
        for person in range(int(random.integers(1, 5))):
            code = AMERICA.codes[serial % N_AREAS]
            rows.append(
                [
                    2021,
                    202101,
                    serial + 1,
                    weight,
                    1,
                    code[:2],
                    code[2:],
                    person + 1,
                    weight + int(random.integers(-9, 9)),
                    int(random.integers(1, 3)),
                    int(random.integers(0, 95)),
                ]
            )
    return Form(
        "usa_00012.csv",
        delimited(rows, quote="texts"),
        stated(geography="STATEFIP,COUNTYFIP", records=True, attributes="SEX,AGE=ages five-year"),
        stops="fewer than --expect-records",
    )


@form
def nhgis_table() -> Form:
    """Codes of variables, a second row of labels, state and county as codes and names."""
    rows: list[list[object]] = [
        ["GISJOIN", "YEAR", "STATE", "STATEA", "COUNTY", "COUNTYA", "U7B001", "U7B002"],
        row("GIS Join Match Code|Data File Year|State Name|State Code|County Name|County Code|Male|Female"),
    ]
    for i, (code, name) in enumerate(AMERICA.areas):
        rows.append(
            [
                f"G{code[:2]}0{code[2:]}0",
                2020,
                STATE_OF[REGION[i]],
                code[:2],
                name,
                code[2:],
                *PEOPLE[i].sum(1).tolist(),
            ]
        )
    return Form(
        "nhgis0001_ds258_2020_county.csv",
        delimited(rows, quote="all"),
        stated(geography="State Code=State Name,GIS Join Match Code=County Name", header="2", wide="{sex:Male|Female}"),
        truth=by_sex(AMERICA, ("Male", "Female"), regions=True, codes=[f"G{c[:2]}0{c[2:]}0" for c in AMERICA.codes]),
    )


@form
def chile_microdata() -> Form:
    """Persons, all codes; AREA is urban or rural, and no area."""
    random = np.random.default_rng(11)
    rows: list[list[object]] = [["REGION", "PROVINCIA", "COMUNA", "AREA", "P08", "P09"]]
    counts = random.integers(3, 20, (N_AREAS, 2, 2, 5))
    codes = tuple(f"{i // 6 + 1}1{i % 6 + 101}" for i in range(N_AREAS))
    for (i, area, s, a), n in np.ndenumerate(counts):
        rows += [[i // 6 + 1, f"{i // 6 + 1}1", codes[i], area + 1, s + 1, (3, 20, 37, 50, 70)[a]]] * int(n)
    return Form(
        "Microdato_Censo2017-Personas.csv",
        delimited(rows, ";"),
        stated(geography="REGION,PROVINCIA,COMUNA", records=True, attributes="AREA,P08,P09"),
        truth=Truth(codes, counts, (("1", "2"), ("1", "2"), ("3", "20", "37", "50", "70")), regions=True),
    )


@form
def india_c_series() -> Form:
    """Total, rural and urban of each district and age; all ages among the ages; the state above."""
    rows: list[list[object]] = [
        ["C-13 SINGLE YEAR AGE RETURNS BY RESIDENCE AND SEX"],
        ["Table", "State", "Distt.", "Area Name", "Age", "Total", "", "", "Rural", "", "", "Urban", "", ""],
        ["Name", "Code", "Code", "", "", *["Persons", "Males", "Females"] * 3],
        list(range(1, 15)),
        [],
    ]
    for depth, (_, name), people in AMERICA.nested(regions=False):
        i = len(rows)
        for a in range(-1, 5):
            part = people.sum(1) if a < 0 else people[:, a]
            rural = (people * 2 // 3).sum(1) if a < 0 else people[:, a] * 2 // 3
            if depth == 0:
                cells = PEOPLE * 2 // 3
                rural = cells.sum((0, 2)) if a < 0 else cells.sum(0)[:, a]
            m, f = part.tolist()
            rm, rf = rural.tolist()
            rows.append(
                [
                    "C0113",
                    "33",
                    f"{(i - 5) // 6:03d}" if depth else "000",
                    f"District - {name}" if depth else "State - TAMIL NADU",
                    "All ages" if a < 0 else ("0-14", "15-29", "30-44", "45-64", "65+")[a],
                    m + f,
                    m,
                    f,
                    rm + rf,
                    rm,
                    rf,
                    m + f - rm - rf,
                    m - rm,
                    f - rf,
                ]
            )
    rural = PEOPLE * 2 // 3
    return Form(
        "DDW-3300C-13.xlsx",
        workbook({"C-13": rows}, merge=("F2:H2", "I2:K2", "L2:N2")),
        stated(
            geography="Distt. Code=Area Name",
            header="2:3",
            attributes="Age",
            wide="{residence:Rural|Urban} {sex:Males|Females}",
            only="Distt. Code != 000 and Age in 0-14, 15-29, 30-44, 45-64, 65+",
        ),
        truth=Truth(
            tuple(f"{k + 1:03d}" for k in range(N_AREAS)),
            np.stack([rural, PEOPLE - rural], -1),
            (("Males", "Females"), ("0-14", "15-29", "30-44", "45-64", "65+"), ("Rural", "Urban")),
        ),
    )


@form
def superweb_south_africa() -> Form:
    """SuperWEB: titles, the first column's name above the others, an empty last column, totals."""
    rows: list[list[object]] = [
        ["Community Profiles"],
        ["Table 1"],
        ["Municipality and Gender by Population group"],
        [],
        ["", "Gender", "Male", "Female", "Total", ""],
        ["Municipality", "", "", "", "", ""],
    ]
    rows[4:6] = [["Municipality", "Male", "Female", "Total", ""]]
    names = tuple(f"MAN{k:02d}: Mangaung {k}" for k in range(N_AREAS))
    for name, people in zip(names, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([name, m, f, m + f, ""])
    m, f = PEOPLE.sum((0, 2)).tolist()
    rows += [["Total", m, f, m + f, ""], [], ["(c) Copyright Space-Time Research, 2012"]]
    return Form(
        "Table_2012-11-27.csv",
        delimited(rows, quote="texts"),
        stated(geography="Municipality", header="5", last=29, wide="{sex:Male|Female}"),
        truth=Truth(names, PEOPLE.sum(2), (("Male", "Female"),)),
    )


@form
def singapore_planning_areas() -> Form:
    """'Ang Mo Kio - Total' before the subzones of a planning area."""
    rows: list[list[object]] = [["Planning Area", "Subzone", "Total", "Males", "Females"]]
    m, f = PEOPLE.sum((0, 2)).tolist()
    rows.append(["Total", "Total", m + f, m, f])
    names = []
    for r in range(4):
        area = ("Ang Mo Kio", "Bedok", "Bishan", "Bukit Batok")[r]
        m, f = PEOPLE[r == REGION].sum((0, 2)).tolist()
        rows.append([area, f"{area} - Total", m + f, m, f])
        for k in range(6):
            names.append(f"{area} Subzone {k}")
            m, f = PEOPLE[6 * r + k].sum(1).tolist()
            rows.append([area, names[-1], m + f, m, f])
    return Form(
        "respopagesex2021.csv",
        delimited(rows),
        stated(
            geography="Planning Area,Subzone",
            wide="{sex:Males|Females}",
            only="Subzone not in Total, Ang Mo Kio - Total, Bedok - Total, Bishan - Total, Bukit Batok - Total",
        ),
        truth=Truth(tuple(names), PEOPLE.sum(2), (("Males", "Females"),), regions=True),
    )


@form
def estimates_with_intervals() -> Form:
    rows: list[list[object]] = [["county_code", "county", "sex", "estimate", "lower_95", "upper_95"]]
    for i, (code, name) in enumerate(AMERICA.areas):
        for s, sex in enumerate(("male", "female")):
            n = int(PEOPLE[i, s].sum())
            rows.append([code, name, sex, n, n - 40 - 3 * i, n + 45 + 2 * i])
    return Form(
        "small_area_estimates.csv",
        delimited(rows),
        stated(geography="county_code=county", count="estimate", attributes="sex"),
        truth=by_sex(AMERICA, ("male", "female")),
    )


@form
def persons_and_households_in_one_table() -> Form:
    """Two units: people and where they live. Nobody can add them up."""
    rows: list[list[object]] = [["district_code", "district", "Population", "Households", "Dwellings"]]
    for i, (code, name) in enumerate(AMERICA.areas):
        n = int(PEOPLE[i].sum())
        rows.append([code, name, n, n * 4 // 11, n * 5 // 12])
    return Form(
        "basic_tables.csv",
        delimited(rows),
        stated(geography="district_code=district", count="Population"),
        truth=only_total(AMERICA),
    )


@form
def percentages_only() -> Form:
    rows: list[list[object]] = [["county", "Male %", "Female %"]]
    for (code, _), people in zip(AMERICA.areas, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        share = round(100 * m / (m + f))
        rows.append([code, f"{share}%", f"{100 - share}%"])
    return Form(
        "shares.csv", delimited(rows), stated(geography="county", wide="{sex:Male|Female} %"), stops="found '..%'"
    )


@form
def whole_percentages_without_a_sign() -> Form:
    """Each row adds up to 100, and the name says it."""
    rows: list[list[object]] = [["county", "pct_under_30", "pct_30_64", "pct_65_plus"]]
    for (code, _), people in zip(AMERICA.areas, PEOPLE, strict=True):
        a = people.sum(0)
        young, middle = round(100 * a[:2].sum() / a.sum()), round(100 * a[2:4].sum() / a.sum())
        rows.append([code, young, middle, 100 - young - middle])
    return Form(
        "age_shares.csv",
        delimited(rows),
        stated(geography="county", wide="pct_{age}"),
        stops="fewer than --expect-records",
    )


@form
def two_rounds_below_one_another() -> Form:
    """The same areas for 2011 and 2021, in rows."""
    rows: list[list[object]] = [["census_year", "county", "sex", "persons"]]
    for year in (2011, 2021):
        for i, code in enumerate(AMERICA.codes):
            for s, sex in enumerate(("male", "female")):
                rows.append([year, code, sex, int(PEOPLE[i, s].sum()) - (2021 - year) * 3])
    return Form(
        "timeseries.csv",
        delimited(rows),
        stated(geography="county", count="persons", attributes="sex", only="census_year == 2021"),
        truth=by_sex(AMERICA, ("male", "female")),
    )


@form
def small_counts_as_less_than_five() -> Form:
    rows: list[list[object]] = [["county", "sex", "age", "count"]]
    for i, code in enumerate(AMERICA.codes):
        for (sex, _), (age, _), n in crossed(PEOPLE[i], same(["male", "female"]), same(CANADIAN_AGES)):
            rows.append([code, sex, age, "<5" if i in (3, 11) and age == CANADIAN_AGES[4] else n])
    return Form(
        "counts.csv",
        delimited(rows),
        stated(geography="county", count="count", attributes="sex,age"),
        stops="found '<5'",
    )
