"""Files of European offices, see `office_forms`."""

from __future__ import annotations

import numpy as np

from oracles.office_forms import (
    N_AREAS,
    PEOPLE,
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

BRITAIN = places(
    ("K04000001", "England and Wales"),
    [("E12000001", "North East"), ("E12000002", "North West"), ("E12000007", "London"), ("W92000004", "Wales")],
    "Hartlepool, Middlesbrough, Redcar and Cleveland, Stockton-on-Tees, Darlington, County Durham, Halton, Warrington,"
    "Blackburn with Darwen, Blackpool, Cheshire East, Bolton, Camden, Croydon, Ealing, Enfield, Greenwich, Hackney,"
    "Isle of Anglesey, Gwynedd, Conwy, Denbighshire, Flintshire, Wrexham",
    lambda r, k: ["E06000001", "E06000006", "E09000007", "W06000001"][r][:-3] + f"{(1, 7, 7, 1)[r] + k:03d}",
)
BRITISH_AGES = (
    "Aged 14 years and under",
    "Aged 15 to 29 years",
    "Aged 30 to 44 years",
    "Aged 45 to 64 years",
    "Aged 65 years and over",
)
AGES = ("0-14", "15-29", "30-44", "45-64", "65+")


@form
def nomis_api() -> Form:
    head = (
        "DATE,DATE_NAME,DATE_CODE,DATE_TYPE,DATE_TYPECODE,DATE_SORTORDER,GEOGRAPHY,GEOGRAPHY_NAME,GEOGRAPHY_CODE,"
        "GEOGRAPHY_TYPE,GEOGRAPHY_TYPECODE,GEOGRAPHY_SORTORDER,C_SEX,C_SEX_NAME,C_SEX_CODE,C_SEX_TYPE,C_SEX_TYPECODE,"
        "C_SEX_SORTORDER,C2021_AGE_6,C2021_AGE_6_NAME,C2021_AGE_6_CODE,C2021_AGE_6_TYPE,C2021_AGE_6_TYPECODE,"
        "C2021_AGE_6_SORTORDER,MEASURES,MEASURES_NAME,OBS_VALUE,OBS_STATUS,OBS_STATUS_NAME,OBS_CONF,OBS_CONF_NAME,"
        "URN,RECORD_OFFSET,RECORD_COUNT"
    )
    rows: list[list[object]] = [list(head.split(","))]
    sexes = [("2", "Male"), ("1", "Female")]
    for i, (code, name) in enumerate(BRITAIN.areas):
        for (s, sex), (a, age), n in crossed(
            PEOPLE[i],
            sexes,
            [(str(k + 1), text) for k, text in enumerate(BRITISH_AGES)],
            ("0", "All persons"),
            ("0", "Total"),
        ):
            rows.append(
                [
                    2021,
                    "2021",
                    2021,
                    "date",
                    0,
                    0,
                    645922841 + i,
                    name,
                    code,
                    "local authorities: district / unitary (as of April 2021)",
                    424,
                    i,
                    int(s),
                    sex,
                    f"_{s}",
                    "Sex",
                    1000,
                    int(s),
                    int(a),
                    age,
                    f"_{a}",
                    "Age",
                    1000,
                    int(a),
                    20100,
                    "value",
                    n,
                    "A",
                    "Normal Value",
                    "F",
                    "Free (free for publication)",
                    f"Nm-2021d1d32263e0d{645922841 + i}d{a}d{s}d20100",
                    len(rows) - 1,
                    432,
                ]
            )
    return Form(
        "NM_2021_1.data.csv",
        delimited(rows, quote="texts"),
        stated(
            geography="GEOGRAPHY_CODE=GEOGRAPHY_NAME",
            count="OBS_VALUE",
            attributes="C_SEX_NAME,C2021_AGE_6_NAME",
            only="C_SEX_NAME != All persons and C2021_AGE_6_NAME != Total",
        ),
        truth=whole(BRITAIN, ("2|Male", "1|Female"), [f"{k + 1}|{t}" for k, t in enumerate(BRITISH_AGES)]),
    )


@form
def nomis_api_with_percentages() -> Form:
    rows: list[list[object]] = [
        ["DATE_NAME", "GEOGRAPHY_NAME", "GEOGRAPHY_CODE", "C_SEX_NAME", "MEASURES_NAME", "OBS_VALUE"]
    ]
    for i, (code, name) in enumerate(BRITAIN.areas):
        for s, sex in enumerate(("Male", "Female")):
            n = int(PEOPLE[i, s].sum())
            rows.append([2021, name, code, sex, "value", n])
            rows.append([2021, name, code, sex, "percent", round(100 * n / PEOPLE[i].sum(), 1)])
    return Form(
        "NM_2028_1.data.csv",
        delimited(rows),
        stated(
            geography="GEOGRAPHY_CODE=GEOGRAPHY_NAME",
            count="OBS_VALUE",
            attributes="C_SEX_NAME",
            only="MEASURES_NAME == value",
        ),
        truth=by_sex(BRITAIN, ("Male", "Female")),
    )


@form
def ons_create_a_custom_dataset() -> Form:
    rows: list[list[object]] = [
        [
            "Lower tier local authorities Code",
            "Lower tier local authorities",
            "Sex (2 categories) Code",
            "Sex (2 categories)",
            "Age (5 categories) Code",
            "Age (5 categories)",
            "Observation",
        ]
    ]
    for i, (code, name) in enumerate(BRITAIN.areas):
        for (s, sex), (a, age), n in crossed(
            PEOPLE[i], [("2", "Male"), ("1", "Female")], [(str(k + 1), t) for k, t in enumerate(BRITISH_AGES)]
        ):
            rows.append([code, name, int(s), sex, int(a), age, n])
    return Form(
        "custom-filtered-2024-03-01T10_11_12Z.csv",
        delimited(rows),
        stated(
            geography="Lower tier local authorities Code=Lower tier local authorities",
            count="Observation",
            attributes="Sex (2 categories),Age (5 categories)",
        ),
        truth=whole(BRITAIN, ("2|Male", "1|Female"), [f"{k + 1}|{t}" for k, t in enumerate(BRITISH_AGES)]),
    )


@form
def ons_census_bulk_sexes() -> Form:
    rows: list[list[object]] = [
        [
            "date",
            "geography",
            "geography code",
            "Sex: All persons; measures: Value",
            "Sex: Female; measures: Value",
            "Sex: Male; measures: Value",
        ]
    ]
    for (code, name), people in zip(BRITAIN.areas, PEOPLE, strict=True):
        m, f = people.sum(1).tolist()
        rows.append([2021, name, code, m + f, f, m])
    return Form(
        "census2021-ts008-ltla.csv",
        delimited(rows, quote="texts"),
        stated(geography="geography code=geography", wide="Sex: {sex:Female|Male}; measures: Value"),
        truth=by_sex(BRITAIN, ("Male", "Female")),
    )


@form
def ons_census_bulk_ages() -> Form:
    rows: list[list[object]] = [
        ["date", "geography", "geography code", "Age: Total", *(f"Age: {age}" for age in BRITISH_AGES)]
    ]
    for (code, name), people in zip(BRITAIN.areas, PEOPLE, strict=True):
        rows.append([2021, name, code, int(people.sum()), *people.sum(0).tolist()])
    return Form(
        "census2021-ts007-ltla.csv",
        delimited(rows, quote="texts"),
        stated(geography="geography code=geography", wide="Age: {age}", only="age != Total"),
        truth=by_age(BRITAIN, BRITISH_AGES),
    )


@form
def ons_mid_year_series() -> Form:
    """MYEB1: a column for each year."""
    rows: list[list[object]] = [
        ["ladcode23", "laname23", "country", "sex", "age", *(f"population_{y}" for y in (2020, 2021, 2022))]
    ]
    for i, (code, name) in enumerate(BRITAIN.areas):
        for (sex, _), (age, _), n in crossed(PEOPLE[i], same("MF"), same(["0", "15", "30", "45", "65"])):
            rows.append([code, name, code[0], sex, int(age), n - 2, n, n + 5])
    return Form(
        "MYEB1_detailed_population_estimates_series_UK_(2022).csv",
        delimited(rows),
        stated(geography="ladcode23=laname23", count="population_2021", attributes="sex,age"),
        truth=whole(BRITAIN, "MF", ("0", "15", "30", "45", "65")),
    )


@form
def nrs_mid_year_workbook() -> Form:
    """Scotland's row first, persons before each sex, all ages before each band."""
    rows: list[list[object]] = [
        ["Mid-2021 Population Estimates Scotland"],
        ["Table 1: Estimated population by sex and age, by council area"],
        ["This worksheet contains one table."],
        [],
        ["Area code", "Area name", "Sex", "All ages", *AGES],
    ]
    scotland = [f"S120000{k:02d}" for k in range(5, 5 + N_AREAS)]
    for sex, part in (("Persons", PEOPLE.sum(1)), ("Females", PEOPLE[:, 1]), ("Males", PEOPLE[:, 0])):
        rows.append(["S92000003", "Scotland", sex, int(part.sum()), *part.sum(0).tolist()])
        for code, (_, name), line in zip(scotland, BRITAIN.areas, part, strict=True):
            rows.append([code, name, sex, int(line.sum()), *line.tolist()])
    rows += [[], ["© Crown Copyright 2022"]]
    return Form(
        "mid-year-pop-est-21-data.xlsx",
        workbook(
            {
                "Cover sheet": [["Mid-2021 Population Estimates"], ["Source: National Records of Scotland"]],
                "Table 1": rows,
            }
        ),
        stated(
            geography="Area code=Area name",
            sheet="Table 1",
            header="5",
            last=80,
            attributes="Sex",
            wide="{age:0-14|15-29|30-44|45-64|65+}",
            only="Sex != Persons and Area code != S92000003",
        ),
        truth=whole(BRITAIN, ("Males", "Females"), AGES, codes=scotland),
    )


@form
def scotlands_census_bulk() -> Form:
    """Two header rows, '-' for nobody, notes around."""
    people = PEOPLE.copy()
    people[5, 0, 4] = 0
    people[9, 1, 0] = 0
    rows: list[list[object]] = [
        ["Scotland's Census 2022 - National Records of Scotland"],
        ["Table UV101b - Usual resident population by sex by age"],
        ["All people"],
        [],
        ["", *["Male"] * 5, *["Female"] * 5],
        ["Council Area 2019", *AGES, *AGES],
    ]
    rows += [
        [name, *(n or "-" for n in line.ravel().tolist())]
        for (_, name), line in zip(BRITAIN.areas, people, strict=True)
    ]
    rows += [[], ["Note: '-' is zero."], ["© Crown copyright. Data supplied by National Records of Scotland."]]
    return Form(
        "UV101b - Usual resident population by sex by age (6).csv",
        delimited(rows, quote="texts"),
        stated(
            geography="Council Area 2019",
            header="5:6",
            last=30,
            wide="{sex:Male|Female} {age:0-14|15-29|30-44|45-64|65+}",
        ),
        stops="found '-'",
    )


@form
def nisra_flat() -> Form:
    """Every row is written for All, Females and Males."""
    rows: list[list[object]] = [["area", "area_code", "area_name", "year", "gender", "age_band", "MYE"]]
    codes = [f"N090000{k:02d}" for k in range(1, N_AREAS + 1)]
    for i, (_, name) in enumerate(BRITAIN.areas):
        for (sex, _), (age, _), n in crossed(PEOPLE[i], same(["Males", "Females"]), same(AGES), ("All persons",) * 2):
            rows.append(["Local Government Districts", codes[i], name, 2021, sex, age, n])
    return Form(
        "MYE21_AGE_BANDS.csv",
        delimited(rows),
        stated(
            geography="area_code=area_name",
            count="MYE",
            attributes="gender,age_band",
            only="gender != All persons",
        ),
        truth=whole(BRITAIN, ("Males", "Females"), AGES, codes=codes),
    )


@form
def nisra_census_workbook() -> Form:
    """Units in the header, two sheets of the same, count and percentage."""
    rows: list[list[object]] = [
        ["Census 2021 Population by sex"],
        ["Geography: Local Government District"],
        ["Source: Northern Ireland Statistics and Research Agency"],
        [],
        ["Geography", "Geography code", "All usual residents", "Female", "Male"],
    ]
    shares = [*rows[:5]]
    for k, ((_, name), people) in enumerate(zip(BRITAIN.areas, PEOPLE, strict=True)):
        m, f = people.sum(1).tolist()
        rows.append([name, f"N090000{k + 1:02d}", m + f, f, m])
        shares.append([name, f"N090000{k + 1:02d}", 1, f / (m + f), m / (m + f)])
    return Form(
        "census-2021-ms-a07.xlsx",
        workbook({"LGD": rows, "LGD (%)": shares}),
        stated(geography="Geography code=Geography", sheet="LGD", header="5", wide="{sex:Female|Male}"),
        truth=by_sex(BRITAIN, ("Male", "Female"), codes=[f"N090000{k + 1:02d}" for k in range(N_AREAS)]),
    )


@form
def cso_pxstat() -> Form:
    rows: list[list[object]] = [
        row(
            "STATISTIC|Statistic Label|TLIST(A1)|CensusYear|C02199V02655|Sex|C02076V03371|Age Group|"
            "C02779V03348|County|UNIT|VALUE"
        )
    ]
    blocks = [
        ("-", "Ireland", PEOPLE.sum(0)),
        *((f"IE{k + 1:02d}", f"County {k + 1}", PEOPLE[k]) for k in range(N_AREAS)),
    ]
    ages = [
        (f"{200 + k}", t)
        for k, t in enumerate(("0 - 14 years", "15 - 29 years", "30 - 44 years", "45 - 64 years", "65 years and over"))
    ]
    for code, name, people in blocks:
        for (s, sex), (a, age), n in crossed(
            people, [("1", "Male"), ("2", "Female")], ages, ("-", "Both sexes"), ("-", "All ages")
        ):
            rows.append(["F1002C01", "Population", "2022", "2022", s, sex, a, age, code, name, "Number", n])
    return Form(
        "F1002.20230530T110500.csv",
        delimited(rows, quote="texts", encoding="utf-8-sig"),
        stated(
            geography="C02779V03348=County",
            count="VALUE",
            attributes="Sex,Age Group",
            only="Sex != Both sexes and Age Group != All ages and County != Ireland",
        ),
        truth=Truth(
            tuple(f"IE{k + 1:02d}" for k in range(N_AREAS)),
            PEOPLE,
            (("1|Male", "2|Female"), tuple(f"{c}|{t}" for c, t in ages)),
            names=tuple(f"County {k + 1}" for k in range(N_AREAS)),
        ),
    )


@form
def cso_small_areas() -> Form:
    """SAPS: names of themes, ages by sex, and their totals."""
    bands = ("0_14", "15_29", "30_44", "45_64", "GE_65")
    rows: list[list[object]] = [
        ["GUID", "GEOGID", "GEOGDESC", *(f"T1_1AGE{b}{x}" for x in "MFT" for b in (*bands, "T"))]
    ]
    codes = [f"{17001001 + 37 * k}" for k in range(N_AREAS)]
    for k, people in enumerate(PEOPLE):
        m, f = people.tolist()
        both = people.sum(0).tolist()
        rows.append(
            [
                f"4c07d11e-{k:04d}-851d-e053-ca3ca8c0ca7f",
                f"SA2017_{codes[k]}",
                f"Small Area {codes[k]}",
                *m,
                sum(m),
                *f,
                sum(f),
                *both,
                sum(both),
            ]
        )
    return Form(
        "SAPS_2022_Small_Area_UR_171122.csv",
        delimited(rows),
        stated(geography="GEOGID=GEOGDESC", wide="T1_1AGE{age:0_14|15_29|30_44|45_64|GE_65}{sex:M|F}"),
        truth=Truth(tuple(f"SA2017_{c}" for c in codes), PEOPLE, (("M", "F"), bands)),
    )


EUROPE = places(
    ("AT", "Austria"),
    [(f"AT1{k}", f"Region {k}") for k in range(1, 5)],
    ",".join(f"Area {k}" for k in range(N_AREAS)),
    lambda r, k: f"AT1{r + 1}{k + 1}",
)
EUROSTAT_AGES = ("Y_LT15", "Y15-29", "Y30-44", "Y45-64", "Y_GE65")


@form
def eurostat_bulk_tsv() -> Form:
    """One year; flags behind numbers, totals of sexes and ages, country, regions and areas in one column."""
    text = "freq,unit,sex,age,geo\\TIME_PERIOD\t2021 \n"
    for sex in ("T", "M", "F"):
        for age in ("TOTAL", *EUROSTAT_AGES):
            for _, (code, _), people in EUROPE.nested():
                part = people if sex == "T" else people[["M", "F"].index(sex)][None]
                n = part.sum() if age == "TOTAL" else part[:, EUROSTAT_AGES.index(age)].sum()
                flag = "p" if code.endswith("3") else "bp" if code == "AT" else ""
                text += f"A,NR,{sex},{age},{code}\t{n} {flag}\n"
    return Form(
        "demo_r_pjangroup.tsv",
        text.encode(),
        stated(geography="geo", count="2021", attributes="sex,age"),
        stops="no column 'geo'",
    )


@form
def eurostat_bulk_tsv_two_years() -> Form:
    text = "freq,unit,sex,age,geo\\TIME_PERIOD\t2020 \t2021 \n"
    for sex in ("M", "F"):
        for age in EUROSTAT_AGES:
            for code, people in zip(EUROPE.codes, PEOPLE, strict=True):
                n = int(people[["M", "F"].index(sex), EUROSTAT_AGES.index(age)])
                text += f"A,NR,{sex},{age},{code}\t{n - 1} \t{n} b\n"
    return Form(
        "estat_demo_r_pjangroup.tsv",
        text.encode(),
        stated(geography="geo", count="2021", attributes="sex,age"),
        stops="no column 'geo'",
    )


def _sdmx(units: tuple[str, ...] = ("NR",)) -> bytes:
    rows: list[list[object]] = [
        ["DATAFLOW", "LAST UPDATE", "freq", "unit", "sex", "age", "geo", "TIME_PERIOD", "OBS_VALUE", "OBS_FLAG"]
    ]
    for unit in units:
        for _, (code, _), people in EUROPE.nested(regions=False):
            for (sex, _), (age, _), n in crossed(
                people, same("MF"), same(EUROSTAT_AGES), ("T", "T"), ("TOTAL",) * 2, total_first=False
            ):
                number: object = n if unit == "NR" else round(100 * n / PEOPLE.sum(), 1)
                rows.append(
                    [
                        "ESTAT:CENS_21AG_R3(1.0)",
                        "28/03/24 23:00:00",
                        "A",
                        unit,
                        sex,
                        age,
                        code,
                        2021,
                        number,
                        "e" if sex == "F" and age == "Y15-29" else "",
                    ]
                )
    return delimited(rows, end="\r\n")


@form
def eurostat_sdmx_csv() -> Form:
    return Form(
        "cens_21ag_r3_linear.csv",
        _sdmx(),
        stated(
            geography="geo", count="OBS_VALUE", attributes="sex,age", only="sex != T and age != TOTAL and geo != AT"
        ),
        truth=whole(EUROPE, ("M", "F"), EUROSTAT_AGES),
    )


@form
def eurostat_sdmx_csv_with_percentages() -> Form:
    return Form(
        "cens_21ag_r3_linear_2.csv",
        _sdmx(("NR", "PC")),
        stated(
            geography="geo",
            count="OBS_VALUE",
            attributes="sex,age",
            only="unit == NR and sex != T and age != TOTAL and geo != AT",
        ),
        truth=whole(EUROPE, ("M", "F"), EUROSTAT_AGES),
    )


GERMANY = places(
    ("DG", "Deutschland"),
    [("01", "Schleswig-Holstein"), ("03", "Niedersachsen"), ("08", "Baden-Württemberg"), ("09", "Bayern")],
    "Flensburg, Kiel, Lübeck, Neumünster, Dithmarschen, Nordfriesland, Braunschweig, Salzgitter, Wolfsburg, Gifhorn,"
    "Goslar, Helmstedt, Böblingen, Esslingen, Göppingen, Ludwigsburg, Rems-Murr-Kreis, Heilbronn, Ingolstadt, München,"
    "Rosenheim, Altötting, Bad Tölz-Wolfratshausen, Mühldorf a.Inn",
    lambda r, k: ("01", "03", "08", "09")[r] + f"{(1, 101, 115, 161)[r] + k:03d}",
)
GERMAN_AGES = (
    "unter 15 Jahre",
    "15 bis unter 30 Jahre",
    "30 bis unter 45 Jahre",
    "45 bis unter 65 Jahre",
    "65 Jahre und mehr",
)
GENESIS_AGES = tuple(f"ALT{k:03d}|{text}" for k, text in enumerate(GERMAN_AGES))


def _genesis(encoding: str, header: str, *, unit: str = "Anzahl") -> bytes:
    rows: list[list[object]] = [list(header.split(";"))]
    ages = [(f"ALT{k:03d}", t) for k, t in enumerate(GERMAN_AGES)]
    for i, (code, name) in enumerate(GERMANY.areas):
        for (s, sex), (a, age), n in crossed(
            PEOPLE[i],
            [("GESM", "männlich"), ("GESW", "weiblich")],
            ages,
            ("", "Insgesamt"),
            ("", "Insgesamt"),
            total_first=False,
        ):
            rows.append(
                row(
                    "12411|Fortschreibung des Bevölkerungsstandes|STAG|Stichtag|31.12.2021|KREISE|"
                    f"Kreise und kreisfreie Städte|{code}|{name}|GES|Geschlecht|{s}|{sex}|ALTX12|Altersgruppen|"
                    f"{a}|{age}|{n}|{unit}|BEVSTD|Bevölkerungsstand"
                )
            )
    return delimited(rows, ";", encoding=encoding, end="\r\n")


FLAT_HEAD = (
    "statistics_code;statistics_label;time_code;time_label;time;1_variable_code;1_variable_label;"
    "1_variable_attribute_code;1_variable_attribute_label;2_variable_code;2_variable_label;"
    "2_variable_attribute_code;2_variable_attribute_label;3_variable_code;3_variable_label;"
    "3_variable_attribute_code;3_variable_attribute_label;value;value_unit;value_variable_code;"
    "value_variable_label"
)
OLD_FLAT_HEAD = (
    "Statistik_Code;Statistik_Label;Zeit_Code;Zeit_Label;Zeit;1_Merkmal_Code;1_Merkmal_Label;"
    "1_Auspraegung_Code;1_Auspraegung_Label;2_Merkmal_Code;2_Merkmal_Label;2_Auspraegung_Code;"
    "2_Auspraegung_Label;3_Merkmal_Code;3_Merkmal_Label;3_Auspraegung_Code;3_Auspraegung_Label;"
    "BEV001__Bevoelkerungsstand__Anzahl;Einheit;Wert_Code;Wert_Label"
)


@form
def genesis_flat() -> Form:
    return Form(
        "12411-0018_de_flat.csv",
        _genesis("utf-8-sig", FLAT_HEAD),
        stated(
            geography="1_variable_attribute_code=1_variable_attribute_label",
            levels="land=2,kreis=5",
            count="value",
            attributes="2_variable_attribute_label,3_variable_attribute_label",
            only="2_variable_attribute_label != Insgesamt and 3_variable_attribute_label != Insgesamt",
        ),
        truth=whole(GERMANY, ("GESM|männlich", "GESW|weiblich"), GENESIS_AGES),
    )


@form
def genesis_flat_old_windows() -> Form:
    return Form(
        "12411-0018_flat.csv",
        _genesis("cp1252", OLD_FLAT_HEAD),
        stated(
            geography="1_Auspraegung_Code=1_Auspraegung_Label",
            levels="land=2,kreis=5",
            count="BEV001__Bevoelkerungsstand__Anzahl",
            attributes="2_Auspraegung_Label,3_Auspraegung_Label",
            only="2_Auspraegung_Label != Insgesamt and 3_Auspraegung_Label != Insgesamt",
        ),
        truth=whole(GERMANY, ("GESM|männlich", "GESW|weiblich"), GENESIS_AGES),
    )


@form
def genesis_table() -> Form:
    """Titles, a header of two rows, a copyright behind a line."""
    rows: list[list[object]] = [
        ["Tabelle: 12411-0018"],
        ["Bevölkerung: Kreise, Stichtag, Geschlecht"],
        ["Fortschreibung des Bevölkerungsstandes"],
        ["Bevölkerung (Anzahl)"],
        ["", "", "31.12.2021", "31.12.2021", "31.12.2021"],
        ["", "Kreise und kreisfreie Städte", "männlich", "weiblich", "Insgesamt"],
    ]
    for (code, name), people in zip(GERMANY.areas, PEOPLE, strict=True):
        m, w = people.sum(1).tolist()
        rows.append([code, name, m, w, m + w])
    rows += [
        ["__________"],
        ["Bevölkerung:"],
        ["Ergebnisse auf Grundlage des Zensus 2011."],
        ["(C)opyright Statistisches Bundesamt (Destatis), 2022"],
        ["Stand: 03.07.2022 / 14:11:08"],
    ]
    return Form(
        "12411-0018.csv",
        delimited(rows, ";", encoding="cp1252", end="\r\n"),
        stated(
            geography="column_1=Kreise und kreisfreie Städte",
            header="6",
            last=30,
            levels="land=2,kreis=5",
            wide="{sex:männlich|weiblich}",
        ),
        truth=by_sex(GERMANY, ("männlich", "weiblich")),
    )


@form
def regionaldatenbank() -> Form:
    """Country, Länder and Kreise in one column, names indented by blanks, codes 'DG', '01', '01001'."""
    rows: list[list[object]] = [
        ["Tabelle: 12411-01-01-4"],
        ["Bevölkerung nach Geschlecht - Stichtag 31.12. - regionale Tiefe: Kreise und krfr. Städte"],
        ["", "", "Bevölkerung", "Bevölkerung", "Bevölkerung"],
        ["", "", "Anzahl", "Anzahl", "Anzahl"],
        ["", "", "Insgesamt", "männlich", "weiblich"],
    ]
    for depth, (code, name), people in GERMANY.nested():
        m, w = people.sum(1).tolist()
        rows.append([code, "  " * depth + name, m + w, m, w])
    rows += [["_" * 10], ["(C)opyright Statistische Ämter des Bundes und der Länder, Deutschland, 2024."]]
    return Form(
        "12411-01-01-4.csv",
        delimited(rows, ";", encoding="cp1252", end="\r\n"),
        stated(
            geography="column_1=column_2",
            header="5",
            last=34,
            levels="land=2,kreis=5",
            wide="{sex:männlich|weiblich}",
            only="column_1 not in DG, 01, 03, 08, 09",
        ),
        truth=by_sex(GERMANY, ("männlich", "weiblich"), regions=True),
    )


FRANCE = places(
    ("FR", "France"),
    [("01", "Ain"), ("02", "Aisne"), ("35", "Ille-et-Vilaine"), ("2A", "Corse-du-Sud")],
    "L'Abergement-Clémenciat,"
    "L'Abergement-de-Varey, Ambérieu-en-Bugey, Ambérieux-en-Dombes, Ambléon, Ambronay, Abbécourt,"
    "Achery, Acy, Agnicourt-et-Séchelles, Aguilcourt, Aisonville, Acigné, Amanlis, Andouillé-Neuville, Antrain,"
    "Arbrissel, Argentré-du-Plessis, Afa, Ajaccio, Alata, Albitreccia, Altagène, Ambiegna",
    lambda r, k: ("01", "02", "35", "2A")[r] + f"{k + 1:03d}",
)


def _dossier(years: tuple[str, ...]) -> bytes:
    bands = ("0014", "1529", "3044", "4564", "65P")
    head = ["CODGEO"]
    for year in years:
        head += [
            f"P{year}_POP",
            *(f"P{year}_POP{b}" for b in bands),
            f"P{year}_POPH",
            *(f"P{year}_H{b}" for b in bands),
            f"P{year}_POPF",
            *(f"P{year}_F{b}" for b in bands),
        ]
    rows: list[list[object]] = [list(head)]
    for code, people in zip(FRANCE.codes, PEOPLE, strict=True):
        line: list[object] = [code]
        for k in range(len(years)):
            h, f = (people - k).tolist()
            both = (people - k).sum(0).tolist()
            line += [sum(both), *both, sum(h), *h, sum(f), *f]
        rows.append(line)
    return delimited(rows, ";")


@form
def insee_dossier_complet() -> Form:
    return Form(
        "dossier_complet.csv",
        _dossier(("21",)),
        stated(geography="CODGEO", levels="dep=2,commune=5", wide="P21_{sex:H|F}{age:0014|1529|3044|4564|65P}"),
        truth=whole(FRANCE, ("H", "F"), ("0014", "1529", "3044", "4564", "65P")),
    )


@form
def insee_dossier_complet_three_censuses() -> Form:
    return Form(
        "dossier_complet_3.csv",
        _dossier(("21", "15", "10")),
        stated(geography="CODGEO", levels="dep=2,commune=5", wide="P21_{sex:H|F}{age:0014|1529|3044|4564|65P}"),
        truth=whole(FRANCE, ("H", "F"), ("0014", "1529", "3044", "4564", "65P")),
    )


@form
def insee_td_pop() -> Form:
    rows: list[list[object]] = [["NIVGEO", "CODGEO", "LIBGEO", "SEXE", "AGEQ5", "NB"]]
    for (code, name), people in zip(FRANCE.areas, PEOPLE, strict=True):
        for (sex, _), (age, _), n in crossed(people, same("12"), same(["00", "15", "30", "45", "65"])):
            rows.append(["COM", code, name, sex, age, n])
    return Form(
        "BTT_TD_POP1B_2020.CSV",
        delimited(rows, ";", quote="texts"),
        stated(geography="CODGEO=LIBGEO", count="NB", attributes="SEXE,AGEQ5"),
        truth=whole(FRANCE, ("1", "2"), ("00", "15", "30", "45", "65")),
    )


@form
def insee_td_pop_with_fractions() -> Form:
    """The complementary exploitation is a survey: its numbers are sums of weights."""
    rows: list[list[object]] = [["NIVGEO", "CODGEO", "LIBGEO", "SEXE", "CS1_8", "NB"]]
    for (code, name), people in zip(FRANCE.areas, PEOPLE, strict=True):
        for (sex, _), (age, _), n in crossed(people, same("12"), same("12345")):
            rows.append(["COM", code, name, sex, age, f"{n + 0.0731 * int(age):.6f}".rstrip("0")])
    return Form(
        "BTX_TD_POP6_2020.CSV",
        delimited(rows, ";", quote="texts"),
        stated(geography="CODGEO=LIBGEO", count="NB", attributes="SEXE,CS1_8"),
        stops="column 'NB': found '",
    )


@form
def insee_iris() -> Form:
    bands = ("0014", "1529", "3044", "4564", "65P")
    rows: list[list[object]] = [
        [
            "IRIS",
            "REG",
            "DEP",
            "UU2020",
            "COM",
            "LIBCOM",
            "TRIRIS",
            "GRD_QUART",
            "LIBIRIS",
            "TYP_IRIS",
            "MODIF_IRIS",
            "LAB_IRIS",
            "P20_POP",
            *(f"P20_POP{b}" for b in bands),
            "P20_POPH",
            "P20_POPF",
        ]
    ]
    codes: list[str] = []
    for i, people in enumerate(PEOPLE):
        r, k = divmod(i, 6)
        commune = f"35{238 + r:03d}"
        codes.append(f"{commune}{101 + k:04d}")
        rows.append(
            [
                codes[-1],
                "53",
                "35",
                "35701",
                commune,
                f"Commune {r}",
                f"{commune[:5]}1",
                f"{commune}01",
                f"Quartier {i}",
                "H",
                "00",
                "1",
                int(people.sum()),
                *people.sum(0).tolist(),
                *people.sum(1).tolist(),
            ]
        )
    return Form(
        "base-ic-evol-struct-pop-2020.CSV",
        delimited(rows, ";"),
        stated(geography="COM=LIBCOM,IRIS=LIBIRIS", wide="P20_POP{age:0014|1529|3044|4564|65P}"),
        truth=Truth(tuple(codes), PEOPLE.sum(1), (bands,), regions=True),
    )


@form
def insee_melodi() -> Form:
    rows: list[list[object]] = [
        ["GEO", "GEO_OBJECT", "FREQ", "SEX", "AGE", "RP_MEASURE", "OBS_STATUS", "TIME_PERIOD", "OBS_VALUE"]
    ]
    ages = ("Y_LT15", "Y15T29", "Y30T44", "Y45T64", "Y_GE65")
    for depth, (code, _), people in FRANCE.nested(nation=False):
        for (sex, _), (age, _), n in crossed(people, same("MF"), same(ages), ("_T", "_T"), ("_T", "_T")):
            rows.append([code, "DEP" if depth == 1 else "COM", "A", sex, age, "POP", "A", 2021, n])
    return Form(
        "DS_RP_POPULATION_PRINC_2021_data.csv",
        delimited(rows, ";", quote="texts"),
        stated(
            geography="GEO",
            levels="dep=2,commune=5",
            level="GEO_OBJECT",
            drop_level="DEP",
            count="OBS_VALUE",
            attributes="SEX,AGE",
            only="SEX != _T and AGE != _T",
        ),
        truth=whole(FRANCE, ("M", "F"), ages, regions=True),
    )


SPAIN = places(
    ("00", "Total Nacional"),
    [("02", "Albacete"), ("03", "Alicante/Alacant"), ("15", "Coruña, A"), ("48", "Bizkaia")],
    "Abengibre,"
    "Alatoz, Albacete, Albatana, Alborea, Alcadozo, Adsubia, Agost, Agres, Aigües, Albatera, Alcalalí, Abegondo,"
    "Ames, Aranga, Ares, Arteixo, Arzúa, Abadiño, Abanto, Amorebieta-Etxano, Amoroto, Arakaldo, Arantzazu",
    lambda r, k: ("02", "03", "15", "48")[r] + f"{k + 1:03d}",
)
SPANISH_AGES = ("De 0 a 14 años", "De 15 a 29 años", "De 30 a 44 años", "De 45 a 64 años", "65 y más años")


@form
def ine_spain_jaxi() -> Form:
    """'02001 Abengibre' in one column, points of thousands, totals of sexes and ages, provinces before."""
    rows: list[list[object]] = [
        ["Total Nacional", "Provincias", "Municipios", "Sexo", "Edad (grupos)", "Periodo", "Total"]
    ]
    for depth, (code, name), people in SPAIN.nested():
        province = "" if depth == 0 else next(f"{c} {n}" for c, n in SPAIN.regions if code.startswith(c))
        for (sex, _), (age, _), n in crossed(
            people, same(["Hombres", "Mujeres"]), same(SPANISH_AGES), ("Total",) * 2, ("Todas las edades",) * 2
        ):
            rows.append(
                ["Total Nacional", province, f"{code} {name}" if depth == 2 else "", sex, age, 2022, grouped(n, ".")]
            )
    return Form(
        "68542.csv",
        delimited(rows, ";", encoding="utf-8-sig"),
        stated(
            geography="Municipios",
            count="Total",
            attributes="Sexo,Edad (grupos)",
            only="Municipios != '' and Sexo != Total and Edad (grupos) != Todas las edades",
        ),
        stops="column 'Total': found '",
    )


@form
def ine_spain_px() -> Form:
    text = (
        'AXIS-VERSION="2006";\nMATRIX="01001";\nTITLE="Población por sexo";\nSTUB="Provincias";\nHEADING="Sexo";\n'
        'VALUES("Provincias")="Albacete","Alicante";\nVALUES("Sexo")="Hombres","Mujeres";\nDATA=\n1 2\n3 4;\n'
    )
    return Form("01001.px", text.encode("cp1252"), stated(geography="Provincias", count="DATA"), stops="PC-Axis")


ITALY = places(
    ("IT", "Italia"),
    [("ITC11", "Torino"), ("ITC12", "Vercelli"), ("ITF33", "Napoli"), ("ITG12", "Palermo")],
    "Agliè,"
    "Airasca, Ala di Stura, Albiano d'Ivrea, Almese, Alpette, Alagna Valsesia, Albano Vercellese, Alice Castello,"
    "Arborio, Asigliano, Balmuccia, Acerra, Afragola, Agerola, Anacapri, Arzano, Bacoli, Alia, Alimena, Aliminusa,"
    "Altavilla Milicia, Altofonte, Bagheria",
    lambda r, k: ("001", "002", "063", "082")[r] + f"{k + 1:03d}",
)


@form
def istat_data_warehouse() -> Form:
    rows: list[list[object]] = [
        row(
            "ITTER107|Territorio|TIPO_DATO15|Tipo di indicatore demografico|SEXISTAT1|Sesso|ETA1|Età|STATCIV2|"
            "Stato civile|TIME|Seleziona periodo|Value|Flag Codes|Flags"
        )
    ]
    ages = [
        ("Y0-14", "0-14 anni"),
        ("Y15-29", "15-29 anni"),
        ("Y30-44", "30-44 anni"),
        ("Y45-64", "45-64 anni"),
        ("Y_GE65", "65 anni e più"),
    ]
    for depth, (code, name), people in ITALY.nested():
        for (s, sex), (a, age), n in crossed(
            people, [("1", "maschi"), ("2", "femmine")], ages, ("9", "totale"), ("TOTAL", "totale"), total_first=False
        ):
            rows.append(
                [
                    code,
                    "  " * depth + name,
                    "JAN",
                    "popolazione al 1º gennaio",
                    int(s),
                    sex,
                    a,
                    age,
                    99,
                    "totale",
                    2021,
                    2021,
                    n,
                    "",
                    "",
                ]
            )
    return Form(
        "DCIS_POPRES1_22032023123456.csv",
        delimited(rows, quote="texts"),
        stated(
            geography="ITTER107=Territorio",
            levels="provincia=3,comune=6",
            count="Value",
            attributes="Sesso,Età",
            only="Sesso != totale and Età != totale and ITTER107 not in IT, ITC11, ITC12, ITF33, ITG12",
        ),
        truth=whole(ITALY, ("1|maschi", "2|femmine"), [f"{c}|{t}" for c, t in ages], regions=True),
    )


@form
def istat_demo_posas() -> Form:
    """A title, and the total of a commune as age 999."""
    rows: list[list[object]] = [
        ["Popolazione residente per sesso ed età - Anno 2023"],
        ["Codice comune", "Comune", "Età", "Totale maschi", "Totale femmine", "Totale"],
    ]
    for (code, name), people in zip(ITALY.areas, PEOPLE, strict=True):
        for a, age in enumerate((0, 15, 30, 45, 65)):
            m, f = people[:, a].tolist()
            rows.append([code, name, age, m, f, m + f])
        m, f = people.sum(1).tolist()
        rows.append([code, name, 999, m, f, m + f])
    return Form(
        "POSAS_2023_it_Comuni.csv",
        delimited(rows, ";", quote="texts"),
        stated(
            geography="Codice comune=Comune",
            header="2",
            levels="provincia=3,comune=6",
            wide="Totale {sex:maschi|femmine}",
            attributes="Età",
            only="Età != 999",
        ),
        truth=whole(ITALY, ("maschi", "femmine"), ("0", "15", "30", "45", "65")),
    )


NETHERLANDS = places(
    ("NL01  ", "Nederland"),
    [
        ("LD01  ", "Noord-Nederland"),
        ("LD02  ", "Oost-Nederland"),
        ("LD03  ", "West-Nederland"),
        ("LD04  ", "Zuid-Nederland"),
    ],
    "Assen, Groningen, Leeuwarden, Emmen, Hoogeveen, Meppel, Almelo, Deventer, Enschede, Zwolle, Arnhem, Nijmegen,"
    "Amsterdam, Haarlem, Utrecht, Delft, Leiden, Gouda, Breda, Tilburg, Eindhoven, Helmond, Venlo, Maastricht",
    lambda r, k: f"GM{106 + 97 * r + k:04d}",
)


@form
def statline_untyped() -> Form:
    """Codes of sexes and ages, blanks behind the regions' codes, country and parts of it before."""
    rows: list[list[object]] = [["ID", "Geslacht", "Leeftijd", "RegioS", "Perioden", "BevolkingOp1Januari_1"]]
    for _, (code, _), people in NETHERLANDS.nested():
        for (s, _), (a, _), n in crossed(
            people,
            [("3000   ", "Mannen"), ("4000   ", "Vrouwen")],
            same(["53105  ", "53500  ", "53700  ", "53900  ", "21600  "]),
            ("T001038",) * 2,
            ("10000  ",) * 2,
        ):
            rows.append([len(rows) - 1, s, a, code, "2023JJ00", n])
    return Form(
        "03759ned_UntypedDataSet_01022024_101500.csv",
        delimited(rows, ";", quote="texts"),
        stated(
            geography="RegioS",
            count="BevolkingOp1Januari_1",
            attributes="Geslacht,Leeftijd",
            only="RegioS not in NL01, LD01, LD02, LD03, LD04 and Geslacht != T001038 and Leeftijd != 10000",
        ),
        truth=whole(NETHERLANDS, ("3000", "4000"), ("53105", "53500", "53700", "53900", "21600")),
    )


@form
def statline_observations() -> Form:
    rows: list[list[object]] = [["Geslacht", "Leeftijd", "Regio's", "Perioden", "Bevolking op 1 januari (aantal)"]]
    ages = ("0 tot 15 jaar", "15 tot 30 jaar", "30 tot 45 jaar", "45 tot 65 jaar", "65 jaar of ouder")
    for (_, name), people in zip(NETHERLANDS.areas, PEOPLE, strict=True):
        for (sex, _), (age, _), n in crossed(
            people, same(["Mannen", "Vrouwen"]), same(ages), ("Totaal mannen en vrouwen",) * 2, ("Totaal",) * 2
        ):
            rows.append([sex, age, name, "2023", "." if (name, sex, age) == ("Meppel", "Mannen", ages[4]) else n])
    rows.append(["Bron: CBS"])
    return Form(
        "Bevolking__regio_01022024_101500.csv",
        delimited(rows, ";", quote="texts"),
        stated(
            geography="Regio's",
            count="Bevolking op 1 januari (aantal)",
            attributes="Geslacht,Leeftijd",
            last=433,
            only="Geslacht != Totaal mannen en vrouwen and Leeftijd != Totaal",
        ),
        stops="found '.'",
    )


@form
def kerncijfers_wijken_en_buurten() -> Form:
    """Country, municipalities, districts below one another; blanks behind texts; ages are sums as well."""
    rows: list[list[object]] = [
        row(
            "ID|WijkenEnBuurten|Gemeentenaam_1|SoortRegio_2|Codering_3|AantalInwoners_5|Mannen_6|Vrouwen_7|"
            "k_0Tot15Jaar_8|k_15Tot25Jaar_9|k_25Tot45Jaar_10|k_45Tot65Jaar_11|k_65JaarOfOuder_12|"
            "Bevolkingsdichtheid_33"
        )
    ]
    codes: list[str] = []
    for depth, (code, name), people in NETHERLANDS.nested():
        i = len(codes)
        key = (
            "NL00",
            f"GM{int(code.strip()[-1]) + 1679:04d}" if depth == 1 else "",
            f"WK{1680 + i // 6:04d}{i % 6:02d}",
        )
        key_of = key[depth]
        if depth == 2:
            codes.append(key_of)
        kind = ("Land", "Gemeente", "Wijk")[depth]
        m, f = people.sum(1).tolist()
        rows.append(
            [
                len(rows) - 1,
                key_of.ljust(10),
                name.ljust(40),
                kind.ljust(10),
                key_of.ljust(10),
                m + f,
                m,
                f,
                *people.sum(0).tolist(),
                (m + f) // 7,
            ]
        )
    return Form(
        "85618NED_UntypedDataSet.csv",
        delimited(rows, ";", quote="texts"),
        stated(
            geography="Codering_3",
            levels="gemeente=6,wijk=8",
            level="SoortRegio_2",
            drop_level="Land,Gemeente",
            wide="{age:k_0Tot15Jaar_8|k_15Tot25Jaar_9|k_25Tot45Jaar_10|k_45Tot65Jaar_11|k_65JaarOfOuder_12}",
        ),
        truth=Truth(
            tuple(codes),
            PEOPLE.sum(1),
            (("k_0Tot15Jaar_8", "k_15Tot25Jaar_9", "k_25Tot45Jaar_10", "k_45Tot65Jaar_11", "k_65JaarOfOuder_12"),),
            regions=True,
        ),
    )


NORWAY = places(
    ("0", "Hele landet"),
    [("30", "Viken"), ("34", "Innlandet"), ("46", "Vestland"), ("50", "Trøndelag")],
    "Halden,"
    "Moss, Sarpsborg, Fredrikstad, Drammen, Kongsberg, Kongsvinger, Hamar, Lillehammer, Gjøvik, Ringsaker, Løten,"
    "Bergen, Kinn, Etne, Sveio, Bømlo, Stord, Trondheim, Steinkjer, Namsos, Frøya, Osen, Oppdal",
    lambda r, k: ("30", "34", "46", "50")[r] + f"{k + 1:02d}",
)


@form
def ssb_statbank() -> Form:
    """A title, an empty line, ages as 'years' of text, the contents and the year as name of the last column."""
    rows: list[list[object]] = [
        ["07459: Befolkning, etter region, kjønn, alder, statistikkvariabel og år"],
        [],
        ["region", "kjønn", "alder", "Personer 2023"],
    ]
    ages = ("0-14 år", "15-29 år", "30-44 år", "45-64 år", "65 år eller eldre")
    for (code, name), people in zip(NORWAY.areas, PEOPLE, strict=True):
        for (sex, _), (age, _), n in crossed(people, same(["Menn", "Kvinner"]), same(ages)):
            rows.append([f"{code} {name}", sex, age, n])
    return Form(
        "07459_20230801-100000.csv",
        delimited(rows, ";", quote="texts", encoding="iso-8859-1"),
        stated(geography="region", header="3", count="Personer 2023", attributes="kjønn,alder"),
        truth=whole(NORWAY, ("Menn", "Kvinner"), ages, codes=[f"{c} {n}" for c, n in NORWAY.areas]),
    )


@form
def scb_pxweb_pivoted() -> Form:
    """One column for each sex."""
    rows: list[list[object]] = [["region", "ålder", "män 2022", "kvinnor 2022"]]
    ages = ("0-14 år", "15-29 år", "30-44 år", "45-64 år", "65+ år")
    for (code, name), people in zip(NORWAY.areas, PEOPLE, strict=True):
        for a, age in enumerate(ages):
            rows.append([f"{code} {name}", age, *people[:, a].tolist()])
    return Form(
        "000004ZN_20230801-100000.csv",
        delimited(rows, ",", quote="texts", encoding="cp1252"),
        stated(geography="region", attributes="ålder", wide="{sex:män|kvinnor} 2022"),
        truth=whole(NORWAY, ("män", "kvinnor"), ages, codes=[f"{c} {n}" for c, n in NORWAY.areas]),
    )


@form
def scb_population_and_its_growth() -> Form:
    rows: list[list[object]] = [["region", "kön", "Folkmängd 2022", "Folkökning 2022"]]
    for (code, name), people in zip(NORWAY.areas, PEOPLE, strict=True):
        for s, sex in enumerate(("män", "kvinnor")):
            n = int(people[s].sum())
            rows.append([f"{code} {name}", sex, n, n // 97 if int(code) % 3 else -(n // 131)])
    return Form(
        "BefolkningNy_20230801.csv",
        delimited(rows, ",", quote="texts", encoding="cp1252"),
        stated(geography="region", count="Folkmängd 2022", attributes="kön"),
        truth=by_sex(NORWAY, ("män", "kvinnor"), codes=[f"{c} {n}" for c, n in NORWAY.areas]),
    )


@form
def dst_statbank() -> Form:
    """Country, regions and municipalities by name only; 'I alt' for sexes and ages."""
    rows: list[list[object]] = [["OMRÅDE", "KØN", "ALDER", "TID", "INDHOLD"]]
    ages = ("0-14 år", "15-29 år", "30-44 år", "45-64 år", "65 år og derover")
    for _, (_, name), people in NORWAY.nested():
        for (sex, _), (age, _), n in crossed(
            people, same(["Mænd", "Kvinder"]), same(ages), ("I alt",) * 2, ("Alder i alt",) * 2
        ):
            rows.append([name, sex, age, "2023K1", n])
    return Form(
        "FOLK1A.csv",
        delimited(rows, ";", encoding="utf-8-sig"),
        stated(
            geography="OMRÅDE",
            count="INDHOLD",
            attributes="KØN,ALDER",
            only=(
                "OMRÅDE not in Hele landet, Viken, Innlandet, Vestland, Trøndelag and KØN != I alt "
                "and ALDER != Alder i alt"
            ),
        ),
        truth=whole(NORWAY, ("Mænd", "Kvinder"), ages, codes=NORWAY.names),
    )


@form
def statistics_finland() -> Form:
    rows: list[list[object]] = [
        ["Väestö muuttujina Vuosi, Alue, Sukupuoli ja Ikä"],
        [],
        ["Vuosi", "Alue", "Sukupuoli", "Ikä", "Väestö 31.12."],
    ]
    ages = ("0 - 14", "15 - 29", "30 - 44", "45 - 64", "65 -")
    for _, (_, name), people in NORWAY.nested(regions=False):
        for (sex, _), (age, _), n in crossed(
            people, same(["Miehet", "Naiset"]), same(ages), ("Yhteensä",) * 2, ("Yhteensä",) * 2
        ):
            rows.append(["2022", "KOKO MAA" if name == "Hele landet" else name, sex, age, n])
    return Form(
        "statfin_vaerak_pxt_11re.csv",
        delimited(rows, ";", quote="texts", encoding="cp1252"),
        stated(
            geography="Alue",
            header="3",
            count="Väestö 31.12.",
            attributes="Sukupuoli,Ikä",
            only="Alue != KOKO MAA and Sukupuoli != Yhteensä and Ikä != Yhteensä",
        ),
        truth=whole(NORWAY, ("Miehet", "Naiset"), ages, codes=NORWAY.names),
    )


SWISS = places(
    ("CH", "Schweiz"),
    [("1", "Zürich"), ("2", "Bern / Berne"), ("22", "Vaud"), ("25", "Genève")],
    "Aeugst am Albis, Affoltern am Albis, Bonstetten, Hausen am Albis, Hedingen, Kappel am Albis, Aarberg, Bargen (BE),"
    "Grossaffoltern, Kallnach, Kappelen, Lyss, Aigle, Bex, Chessel, Corbeyrier, Gryon, Lavey-Morcles, Aire-la-Ville,"
    "Anières, Avully, Avusy, Bardonnex, Bellevue",
    lambda r, k: f"{(1, 301, 5401, 6601)[r] + k:04d}",
)


@form
def bfs_tree() -> Form:
    """Depth as signs before the name: '- Zürich', '>> Bezirk ...', '......0001 Aeugst am Albis'."""
    rows: list[list[object]] = [["Kanton (-) / Bezirk (>>) / Gemeinde (......)", "Geschlecht", "Altersklasse", "2022"]]
    ages = ("0-14 Jahre", "15-29 Jahre", "30-44 Jahre", "45-64 Jahre", "65 Jahre und mehr")
    marks = ("", "- ", "......")
    codes: list[str] = []
    for depth, (code, name), people in SWISS.nested():
        shown = marks[depth] + (f"{code} {name}" if depth == 2 else name)
        if depth == 2:
            codes.append(shown)
        for (sex, _), (age, _), n in crossed(
            people, same(["Mann", "Frau"]), same(ages), ("Geschlecht - Total",) * 2, ("Alter - Total",) * 2
        ):
            rows.append([shown, sex, age, n])
        if depth == 1:
            for (sex, _), (age, _), n in crossed(
                people, same(["Mann", "Frau"]), same(ages), ("Geschlecht - Total",) * 2, ("Alter - Total",) * 2
            ):
                rows.append([f">> Bezirk {name}", sex, age, n])
    return Form(
        "px-x-0102010000_101_20230801-100000.csv",
        delimited(rows, ";", quote="texts", encoding="cp1252"),
        stated(
            geography="Kanton (-) / Bezirk (>>) / Gemeinde (......)",
            count="2022",
            attributes="Geschlecht,Altersklasse",
            only=(
                '"Kanton (-) / Bezirk (>>) / Gemeinde (......)" not in Schweiz, - Zürich, - Bern / '
                "Berne, - Vaud, - Genève, >> Bezirk Zürich, >> Bezirk Bern / Berne, >> Bezirk Vaud, "
                ">> Bezirk Genève and Geschlecht != Geschlecht - Total and Altersklasse != Alter - "
                "Total"
            ),
        ),
        truth=whole(SWISS, ("Mann", "Frau"), ages, codes=codes),
    )


POLAND = places(
    ("0000000", "POLSKA"),
    [("0200000", "DOLNOŚLĄSKIE"), ("1000000", "ŁÓDZKIE"), ("1200000", "MAŁOPOLSKIE"), ("2400000", "ŚLĄSKIE")],
    "Powiat bolesławiecki, Powiat dzierżoniowski, Powiat głogowski, Powiat górowski, Powiat jaworski, Powiat kłodzki,"
    "Powiat bełchatowski, Powiat brzeziński, Powiat kutnowski, Powiat łaski, Powiat łęczycki, Powiat łowicki,"
    "Powiat bocheński, Powiat brzeski, Powiat chrzanowski, Powiat dąbrowski, Powiat gorlicki, Powiat krakowski,"
    "Powiat będziński, Powiat bielski, Powiat cieszyński, Powiat częstochowski, Powiat gliwicki, Powiat kłobucki",
    lambda r, k: ("02", "10", "12", "24")[r] + f"{k + 1:02d}000",
)


def _bdl(encoding: str) -> bytes:
    rows: list[list[object]] = [["Kod", "Nazwa", *["ogółem"] * 3, *["mężczyźni"] * 1, *["kobiety"] * 1, ""]]
    rows = [
        ["Kod", "Nazwa", "ogółem", "mężczyźni", "kobiety", ""],
        ["", "", "2022", "2022", "2022", ""],
        ["", "", "[osoba]", "[osoba]", "[osoba]", ""],
    ]
    for _, (code, name), people in POLAND.nested():
        m, k = people.sum(1).tolist()
        rows.append([code, name, m + k, m, k, ""])
    return delimited(rows, ";", encoding=encoding)


@form
def bdl_poland() -> Form:
    """A header of three rows with units, a separator at the end of each line, country and voivodeships before."""
    return Form(
        "LUDN_2137_CTAB_20230801.csv",
        _bdl("utf-8-sig"),
        stated(
            geography="Kod=Nazwa",
            header="1:3",
            levels="woj=2,powiat=7",
            wide="{sex:mężczyźni|kobiety} 2022 [osoba]",
            only="Kod not in 0000000, 0200000, 1000000, 1200000, 2400000",
        ),
        truth=by_sex(POLAND, ("mężczyźni", "kobiety"), regions=True),
    )


@form
def bdl_poland_windows() -> Form:
    """Windows Central Europe: as Western it gives other letters in names, not other numbers."""
    return Form(
        "LUDN_2137_CTAB_1250.csv",
        _bdl("cp1250"),
        stated(
            geography="Kod=Nazwa",
            header="1:3",
            levels="woj=2,powiat=7",
            wide="{sex:mężczyźni|kobiety} 2022 [osoba]",
            only="Kod not in 0000000, 0200000, 1000000, 1200000, 2400000",
            encoding="cp1250",
        ),
        truth=by_sex(POLAND, ("mężczyźni", "kobiety"), regions=True),
    )


@form
def czso_long() -> Form:
    """'hodnota'; an empty code is the total; codes beside texts, at the end."""
    rows: list[list[object]] = [
        row(
            "idhod|hodnota|stapro_kod|pohlavi_cis|pohlavi_kod|vek_cis|vek_kod|uzemi_cis|uzemi_kod|casref_do|"
            "pohlavi_txt|vek_txt|uzemi_txt"
        )
    ]
    ages = [
        ("1100150000", "0 až 14"),
        ("1150300000", "15 až 29"),
        ("1300450000", "30 až 44"),
        ("1450650000", "45 až 64"),
        ("1659999000", "65 a více"),
    ]
    for i, (_, name) in enumerate(POLAND.areas):
        for (s, sex), (a, age), n in crossed(PEOPLE[i], [("1", "muž"), ("2", "žena")], ages, ("", ""), ("", "")):
            rows.append(
                [
                    730410000 + 7 * len(rows),
                    n,
                    2406,
                    "102" if s else "",
                    s,
                    "7700" if a else "",
                    a,
                    101,
                    40924 + i,
                    "2021-03-26",
                    sex,
                    age,
                    name,
                ]
            )
    return Form(
        "sldb2021_obyv_vek_pohlavi.csv",
        delimited(rows, quote="texts"),
        stated(
            geography="uzemi_kod=uzemi_txt",
            count="hodnota",
            attributes="pohlavi_txt,vek_txt",
            only="pohlavi_txt != '' and vek_txt != ''",
        ),
        truth=whole(
            POLAND, ("1|muž", "2|žena"), [f"{c}|{t}" for c, t in ages], codes=[str(40924 + i) for i in range(N_AREAS)]
        ),
    )


@form
def ine_portugal() -> Form:
    """'HM', 'H', 'M' over columns, a row of units, notes."""
    rows: list[list[object]] = [
        ["População residente (N.º) por Local de residência (NUTS - 2013) e Sexo; Decenal - INE, Recenseamento"],
        [],
        ["Local de residência (NUTS - 2013)", "", "Período de referência dos dados", "", ""],
        ["", "", "2021", "2021", "2021"],
        ["", "", "Sexo", "Sexo", "Sexo"],
        ["", "", "HM", "H", "M"],
        ["", "", "N.º", "N.º", "N.º"],
    ]
    codes: list[str] = []
    for depth, (_, name), people in SPAIN.nested():
        i = len(codes)
        code = ("PT", f"11{'ABCD'[i // 6 % 4]}", f"11{'ABCD'[i // 6 % 4]}{1301 + i}")[depth]
        if depth == 2:
            codes.append(code)
        h, m = people.sum(1).tolist()
        rows.append([code, name if depth else "Portugal", h + m, h, m])
    rows += [
        [],
        ["População residente (N.º) por Local de residência e Sexo; Decenal"],
        ["Nota(s):"],
        ["(1) Os dados apresentados estão ajustados à geografia de 2013"],
        ["Última atualização destes dados: 23 de novembro de 2022"],
    ]
    return Form(
        "5bTLLvbyXPxWdkL8.csv",
        delimited(rows, ";", encoding="iso-8859-1"),
        stated(
            geography="column_1=column_2",
            header="6:7",
            last=36,
            levels="nuts=3,municipio=7",
            wide="{sex:H|M} N.º",
            only="column_1 not in PT, 11A, 11B, 11C, 11D",
        ),
        truth=by_sex(SPAIN, ("H", "M"), regions=True, codes=codes),
    )


TURKEY_NAMES = (
    "Adana, Ağrı, Aydın, Çanakkale, Çankırı, Çorum, Diyarbakır, Elazığ, Eskişehir, Gümüşhane, Iğdır, Isparta,"
    "İstanbul, İzmir, Kırşehir, Kütahya, Muğla, Muş, Nevşehir, Niğde, Şanlıurfa, Şırnak, Tekirdağ, Uşak"
)


@form
def tuik_biruni() -> Form:
    """Bars as separators, titles, a sum row 'Toplam', a header with the sexes below 'Toplam'."""
    names = [n.strip() for n in TURKEY_NAMES.split(",")]
    rows: list[list[object]] = [
        ["Adrese Dayalı Nüfus Kayıt Sistemi Sonuçları"],
        ["İl ve cinsiyete göre nüfus, 2022"],
        [],
        ["İl", "Toplam", "Erkek", "Kadın"],
    ]
    e, k = PEOPLE.sum((0, 2)).tolist()
    rows.append(["Toplam", e + k, e, k])
    for name, people in zip(names, PEOPLE, strict=True):
        e, k = people.sum(1).tolist()
        rows.append([name, e + k, e, k])
    rows += [[], ["TÜİK, Adrese Dayalı Nüfus Kayıt Sistemi, 2022"]]
    return Form(
        "pivot.csv",
        delimited(rows, "|"),
        stated(geography="İl", header="4", last=29, wide="{sex:Erkek|Kadın}", only="İl != Toplam"),
        truth=Truth(tuple(names), PEOPLE.sum(2), (("Erkek", "Kadın"),)),
    )


@form
def elstat_workbook() -> Form:
    """Depth of the administrative division as a column of digits, codes of other lengths, names in Greek."""
    rows: list[list[object]] = [
        ["ΑΠΟΤΕΛΕΣΜΑΤΑ ΑΠΟΓΡΑΦΗΣ ΠΛΗΘΥΣΜΟΥ-ΚΑΤΟΙΚΙΩΝ 2021"],
        ["Μόνιμος Πληθυσμός κατά φύλο"],
        [],
        ["Επίπεδο διοικητικής διαίρεσης", "Κωδικός", "Περιγραφή", "Σύνολο", "Άρρενες", "Θήλεις"],
    ]
    codes: list[str] = []
    for depth, _, people in GERMANY.nested():
        i = len(codes)
        code = ("", f"{i // 6 + 1:02d}", f"{i // 6 + 1:02d}{i % 6 + 1:02d}")[depth]
        if depth == 2:
            codes.append(code)
        m, f = people.sum(1).tolist()
        rows.append(
            [
                (0, 3, 5)[depth],
                code,
                f"ΔΗΜΟΣ {i}" if depth == 2 else f"ΠΕΡΙΦΕΡΕΙΑ {i}" if depth else "ΣΥΝΟΛΟ ΧΩΡΑΣ",
                m + f,
                m,
                f,
            ]
        )
    return Form(
        "A1602_SAM01_DT_DC_00_2021_01_F_GR.xlsx",
        workbook({"Πίνακας": rows}),
        stated(
            geography="Κωδικός=Περιγραφή",
            header="4",
            levels="nuts=2,dimos=4",
            level="Επίπεδο διοικητικής διαίρεσης",
            drop_level="0,3",
            wide="{sex:Άρρενες|Θήλεις}",
        ),
        truth=by_sex(GERMANY, ("Άρρενες", "Θήλεις"), regions=True, codes=codes),
    )


@form
def statistics_austria_ogd() -> Form:
    rows: list[list[object]] = [["C-A10-0", "C-GRGEMAKT-0", "C-C11-0", "C-GALT5J99-0", "F-ISIS-1"]]
    for i, people in enumerate(PEOPLE):
        for s in range(2):
            for a in range(5):
                rows.append(
                    [
                        "A10-2022",
                        f"GRGEMAKT-{10101 + 100 * (i // 6) + i % 6}",
                        f"C11-{s + 1}",
                        f"GALT5J99-{a + 1}",
                        int(people[s, a]),
                    ]
                )
    return Form(
        "OGD_bevstandjbab2002_BevStand_2022.csv",
        delimited(rows, ";"),
        stated(geography="C-GRGEMAKT-0", count="F-ISIS-1", attributes="C-C11-0,C-GALT5J99-0"),
        truth=Truth(
            tuple(f"GRGEMAKT-{10101 + 100 * (i // 6) + i % 6}" for i in range(N_AREAS)),
            PEOPLE,
            (("C11-1", "C11-2"), tuple(f"GALT5J99-{a + 1}" for a in range(5))),
        ),
    )


@form
def statbel_structure() -> Form:
    """Bars; texts in two languages; municipality, district, province and region in each row; single years of age."""
    rows: list[list[object]] = [
        row(
            "CD_REFNIS|TX_DESCR_NL|TX_DESCR_FR|CD_DSTR_REFNIS|TX_ADM_DSTR_DESCR_NL|TX_ADM_DSTR_DESCR_FR|"
            "CD_RGN_REFNIS|TX_RGN_DESCR_NL|TX_RGN_DESCR_FR|CD_SEX|CD_NATLTY|TX_NATLTY_NL|TX_NATLTY_FR|CD_AGE|"
            "MS_POPULATION"
        )
    ]
    codes: list[str] = []
    for i, people in enumerate(PEOPLE):
        r, k = divmod(i, 6)
        code = f"{11 + r}{k + 1:03d}"
        codes.append(code)
        for s, sex in enumerate("MF"):
            for a, age in enumerate((7, 22, 37, 55, 80)):
                nationals = int(people[s, a]) * 9 // 10
                for nation, n in (("BEL", nationals), ("ETR", int(people[s, a]) - nationals)):
                    if n:
                        rows.append(
                            [
                                code,
                                f"Gemeente {i}",
                                f"Commune {i}",
                                f"{11 + r}000",
                                f"Arrondissement {r} nl",
                                f"Arrondissement {r} fr",
                                "02000" if r < 2 else "03000",
                                "Vlaams" if r < 2 else "Waals",
                                "flamande" if r < 2 else "wallonne",
                                sex,
                                nation,
                                nation + " nl",
                                nation + " fr",
                                age,
                                n,
                            ]
                        )
    belgians = PEOPLE * 9 // 10
    counts = np.stack([belgians, PEOPLE - belgians], axis=-1)
    return Form(
        "TF_SOC_POP_STRUCT_2023.txt.csv",
        delimited(rows, "|"),
        stated(geography="CD_DSTR_REFNIS,CD_REFNIS", count="MS_POPULATION", attributes="CD_SEX,CD_AGE,CD_NATLTY"),
        truth=Truth(tuple(codes), counts, (("M", "F"), ("7", "22", "37", "55", "80"), ("BEL", "ETR")), regions=True),
    )


@form
def rosstat_windows_cyrillic() -> Form:
    """Titles, blanks of thousands, a total row, in Windows Cyrillic."""
    rows: list[list[object]] = [
        ["Численность населения по полу на 1 января 2021 года, человек"],
        ["Район", "Всего", "Мужчины", "Женщины"],
    ]
    names = [f"Район № {k}" for k in range(1, N_AREAS + 1)]
    for name, people in [("Всего по области", PEOPLE.sum(0)), *zip(names, PEOPLE, strict=True)]:
        m, f = people.sum(1).tolist()
        rows.append([name, *(grouped(n, " ") for n in (m + f, m, f))])
    return Form(
        "Bul_chislen_nasel.csv",
        delimited(rows, ";", encoding="cp1251"),
        stated(
            geography="Район",
            header="2",
            encoding="cp1251",
            wide="{sex:Мужчины|Женщины}",
            only="Район != Всего по области",
        ),
        stops="column 'Мужчины': found '",
    )


@form
def population_beside_area_and_density() -> Form:
    rows: list[list[object]] = [["Gemeinde-Nr.", "Gemeinde", "Fläche in km²", "Bevölkerung", "Einwohner je km²"]]
    for k, ((code, name), people) in enumerate(zip(GERMANY.areas, PEOPLE, strict=True)):
        n = int(people.sum())
        km2 = 20 + 7 * k + 0.37
        rows.append([code, name, f"{km2:.2f}".replace(".", ","), n, round(n / km2)])
    return Form(
        "gemeindeverzeichnis.csv",
        delimited(rows, ";", encoding="cp1252"),
        stated(geography="Gemeinde-Nr.=Gemeinde", levels="land=2,gemeinde=5", count="Bevölkerung"),
        truth=only_total(GERMANY),
    )
