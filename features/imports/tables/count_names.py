"""What columns of counts, and of other numbers, are called, in the languages of many offices."""

from __future__ import annotations

import re
from collections.abc import Collection

from features.imports.tables.level_names import folded, words

#: Columns with these names alone hold counts in a table with a row a cell.
_COUNT_NAMES = words(
    "n obs value values obs_value observation observations number total wert werte valeur valeurs valor valore ob "
    "figure amount estimate est hodnota wartosc arvo ertek vrednost verdi varde vaerdi"
)
#: So do columns with one of these words in their name.
_COUNT_WORDS = words(
    "count counts freq frequency frequencies persons people population pop residents inhabitants heads headcount "
    "habitants effectif effectifs anzahl personen einwohner bevoelkerung bevolkerung poblacion habitantes personas "
    "popolazione residenti abitanti populacao moradores pessoas aantal inwoners antal befolkning folkmengd folkmaengd "
    "ludnosc asukkaat liczba pocet obyvatel vaestoe vaesto households haushalte menages hogares dwellings units "
    "observation value estimate bevolking personer innbyggere folketal"
)
#: Numbers of a person or an area that are never counts of people.
_OTHER_NUMBERS = words(
    "age ages alter edad idade eta leeftijd alder wiek ika year jahr annee ano anno aar jaar month monat mois mes "
    "income "
    "einkommen revenu renta ingreso salary wage weight lat lon latitude longitude easting northing area aland awater "
    "altitud altitude elevation longitud latitud hectares km2 sqkm density dichte densite densidad objectid fid "
    "index rank percent percentage pct proportion share "
    "rate mean median ratio birthyear birth hours stunden heures horas height size rooms"
)
_MEASURES = words(
    "x y area_km2 area_ha area_sqkm land_area water_area pop_density population_density shape_area "
    "code cod codigo codice kod kode clave cve kennziffer schluessel schlussel"
)
#: Words of numbers that are about a count beside them: margins, errors, flags, scales.
_ABOUT_COUNTS = words(
    "moe margin error se cv stderr rse lower upper ci flag flags status symbol decimals decimal scalar uom scale "
    "footnote footnotes quality percent percentage pct share rate ratio proportion index change growth density median "
    "mean average per quote anteil anteile taux part porcentaje tasa"
)
#: Columns of time: the people of several years are not people of one population.
_TIMES = words(
    "year years jahr jahre annee annees ano anos anno anni aar ar jaar rok vuosi time time_period ref_date refdate "
    "period periode perioden periodo date datum fecha data_date stichtag quarter month reference_year censusyear "
    "census_year reference_date berichtsjahr"
)
_WEIGHTS = words(
    "weight weights wgt wt wght pweight perwt hhwt wtperfin asecwt finalwt pwgtp wgtp gewicht gewichtung "
    "hochrechnungsfaktor hochrechnung poids ponderation coef coefficient peso ponderacion factor_expansion fexp facexp "
    "pondera factor vikt vaegt vekt vakt painokerroin waga weegfactor weging fator fnlwgt db090 rb050 pb040"
)


def name_words(name: str) -> set[str]:
    """The words of a column's name, in small letters without accents."""
    return set(re.split(r"[^a-z]+", folded(name))) - {""}


def named_count(name: str) -> bool:
    """Whether a column's name shows that it holds counts of people."""
    text = re.sub(r"_?\(?[0-9]{1,2}\)?$", "", folded(name))
    if about_counts(name):
        return False
    if re.fullmatch(r"(19|20)[0-9]{2}(m[0-9]{2}|q[1-4])?", folded(name)):
        return True  # a column of counts of one year
    return text in _COUNT_NAMES or bool(name_words(name) & _COUNT_WORDS)


def about_counts(name: str) -> bool:
    """Whether a number with this name is about a count beside it: its margin, its share, its flag."""
    return bool(name_words(name) & _ABOUT_COUNTS) or "%" in name


def is_other_number(name: str) -> bool:
    """Whether a number with this name, in a row of its own, describes something about a person other than a count."""
    return bool(name_words(name) & _OTHER_NUMBERS) and not (name_words(name) & _COUNT_WORDS)


def measures_an_area(name: str) -> bool:
    """Whether a number with this name, beside an area's counts, is none of them: by its whole name, as in age_0_4."""
    return re.sub(r"_?[0-9]+$", "", folded(name).strip("_")) in _OTHER_NUMBERS | _MEASURES or about_counts(name)


_THOUSANDS = re.compile(
    r"(?<![a-z0-9])(1[ .,']?000(?![0-9])|'000|000s|thousands?|tausend|tsd|millions?|mio|milliers?|millones|miljoen|"
    r"mille|duizend|tusen|tusind)(?![a-z])"
)


def in_thousands(text: str) -> bool:
    """Whether a name or a value says that numbers are in thousands, or more."""
    return _THOUSANDS.search(text.lower()) is not None


def is_time(name: str) -> bool:
    """Whether the column says of which year or day a row is."""
    return re.sub(r"_?[0-9]+$", "", folded(name)) in _TIMES


_YEAR_WORDS = words("year years date jahr annee ano anno aar rok period periode")


def holds_years(name: str, values: Collection[str]) -> bool:
    """Whether the name is about a time, and the values are years: 2021 in DATE_NAME."""
    return bool(name_words(name) & _YEAR_WORDS) and all(re.fullmatch(r"(1[89]|20)[0-9]{2}", value) for value in values)


def named_weight(name: str) -> bool:
    """Whether the name is that of a survey weight."""
    return folded(name) in _WEIGHTS or bool(name_words(name) & (_WEIGHTS - {"factor", "coef", "coefficient", "peso"}))


def alike_but_for_a_year(names: Collection[str]) -> list[str]:
    """Columns, one of each year, whose names differ in that alone: POP2011, POP2012; P10_F, P15_F. None: no years."""
    whole = [alike for alike in _by_stem(names, r"(?:19|20)[0-9]{2}") if len(alike) > 1]
    # Two digits are years where several numbers are there in each of them: P10_F and P10_H, P15_F and P15_H.
    sets = [alike for alike in _by_stem(names, r"(?<![0-9])[0-9]{2}(?![0-9])") if len(alike) > 1]
    whole += [alike for alike in sets if sum(alike.keys() == other.keys() for other in sets) > 2]
    return [] if not whole else list(max(whole, key=len).values())


def years_of(names: Collection[str]) -> dict[str, list[str]]:
    """Year -> its columns, where each column is of one and some differ in that alone: pop2011, pop2021; else none."""
    found: dict[str, list[str]] = {}
    several = False
    for alike in _by_stem(names, r"(?<![0-9])(?:19|20)[0-9]{2}(?![0-9])"):
        several |= len(alike) > 1
        for year, name in alike.items():
            found.setdefault(year, []).append(name)
    once = sorted(name for some in found.values() for name in some) == sorted(names)
    return found if several and once else {}


def _by_stem(names: Collection[str], number: str) -> list[dict[str, str]]:
    """For each text that names have around a number: the number -> the name with it."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        for match in re.finditer(number, name):
            found.setdefault(f"{name[: match.start()]}*{name[match.end() :]}", {})[match.group()] = name
    return list(found.values())
