"""What levels of areas are called in the files of many countries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

#: Names of levels, from the top down; those in a line are about equally high.
_LINES = (
    "world continent earth",
    "nation country us ctry nuts0 land_iso country_or_area",
    "region nuts1 rgn reg regio regiao regione makroregion gor regc gccsa gcc",
    "division nuts2 ccaa comunidad comunidad_autonoma regierungsbezirk mesorregiao cmauid",
    "state province land bundesland governorate oblast department nuts3 prefecture provincia provincie provinz "
    "upper_tier_local_authorities uf entidad kanton pruid departement dep dept wojewodztwo voivodeship kraj megye "
    "ste lan fylke il provinsi "
    "prov estado utla ctyua cauth itl3",
    "county district_county kreis canton parish lau1 cty landkreis amt powiat okres jaras cduid microrregiao "
    "lower_tier_local_authorities ltla lad lgd council arrondissement comarca lga sa4 ta kabupaten prefectura "
    "sub_region subregion shire bezirk",
    "municipality commune gemeinde gemeente town township city district subdistrict ward lau2 lau municipio comune "
    "kommune comuna insee code_insee "
    "kommun kunta concelho gmina obec kecamatan csduid csd wd barangay depcom codgeo insee_com com procom ags ars "
    "kreis_gemeinde local_authority:_district_unitary local_authority_district tehsil taluk subcounty sub_county "
    "settlement ilce epci municipality_district local_authority",
    "tract sa3 middle_layer_super_output_area msoa intermediate_zone iz ctuid distrito wijk freguesia sdz "
    "superoutputarea sprengel",
    "lower_layer_super_output_area lsoa sector zone superzone datazone data_zone dz buurt iris ageb subdistrito "
    "sogn deso localidad suburb location",
    "taz sa2 quarter seccion sezione sez small_area sub_location zaehlsprengel grunnkrets dguid neighbourhood",
    "block_group blockgroup blkgrp bg oa output_area maz mgra sa1 village enumeration_area ea dauid da setor "
    "setor_censitario cusec precinct vtd mahalle desa kelurahan",
    "block mesh_block meshblock mb grid cell_id blk dbuid db postcode",
    "leaf area areas geo geography geographic_area geo_area place territory territorio gebiet raumeinheit "
    "zone_statistique area_unit areal_unit location_unit region_geo regios regioner regions ref_area terr",
)
_RANKS = {name: rank for rank, line in enumerate(_LINES) for name in line.split()}
_ENDING = re.compile(r"_?(id|code|cod|cd|no|nr|number|fips|geoid|kode|kod|schluessel|gid)$")
_LABELS = "name|nm|nmw|label|title|bezeichnung|libelle|nom|nombre|nome|namn|navn"
_LABEL_ENDING = re.compile(rf"(?<=[a-z0-9_])_?({_LABELS})$")
_LABEL_START = re.compile(r"^(name|nom|nombre|nome|libelle|label)_?(of_)?(?=[a-z])")
_YEAR = re.compile(r"_?((19|20)?\d{2})$")


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as text."""
    return frozenset(text.split())


def folded(name: str) -> str:
    """The name in small letters without accents, words joined by _."""
    # Bulk files of Eurostat name the columns by the rows and by the column headings: "geo\\time".
    parts = unicodedata.normalize("NFKD", name.split("\\")[0].strip())
    plain = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return re.sub(r"[\s./-]+", "_", re.sub(r"['\u2019\"]", "", plain)).lower()


def plain(name: str) -> str:
    """A column's name as the list of level names has it: without year and without "code" and the like."""
    text = folded(name)
    while text not in _RANKS:
        if text.removesuffix("s") in _RANKS or text.removesuffix("n") in _RANKS or text.removesuffix("es") in _RANKS:
            return next(text.removesuffix(end) for end in ("s", "n", "es") if text.removesuffix(end) in _RANKS)
        shorter = _ENDING.sub("", text)
        if shorter == text:
            shorter = _YEAR.sub("", text)
        if not shorter or shorter == text:
            return text
        text = shorter
    return text


def rank(name: str) -> int | None:
    """How far from the top a level of this name is; None where the name is none of a level, or of its label."""
    return None if is_label(name) else _RANKS.get(plain(name))


#: Kinds of areas, which columns called "area" hold.
_KINDS = words(
    "total all urban rural city town village semi_urban peri_urban urbano urbana rurale urbain urbaine urban_areas "
    "rural_areas stadt land staedtisch laendlich miejskie wiejskie tatort glesbygd"
)


def are_kinds(values: Collection[str]) -> bool:
    """Whether the values are kinds of areas, such as urban and rural, and no areas."""
    plain_values = {folded(value) for value in values}
    return plain_values <= _KINDS and len(plain_values) > 1


def is_generic(name: str) -> bool:
    """Whether the name is that of any area, of no level in particular."""
    return rank(name) == len(_LINES) - 1


def is_label(name: str) -> bool:
    """Whether the column holds areas' names for people, beside their codes."""
    return labelled(name) is not None


def labelled(name: str) -> str | None:
    """The plain name of the level whose areas' names the column holds; None where it is no such column."""
    text = folded(name)
    for pattern in (_LABEL_ENDING, _LABEL_START):
        if (bare := pattern.sub("", text)) != text and plain(bare) in _RANKS:
            return plain(bare)
    return None


def rank_of_label(name: str) -> int | None:
    """How far from the top the level is whose areas' names the column holds; None where it is no such column."""
    level = labelled(name)
    return None if level is None else _RANKS[level]


def is_bare_label(name: str) -> bool:
    """Whether the column is called "name" and no more, as that of the list's own areas is."""
    return re.fullmatch(_LABELS, folded(name)) is not None


def says_code(name: str) -> bool:
    """Whether the name shows that the column holds codes or numbers of things."""
    text = folded(name)
    return bool(_ENDING.search(text)) or text.split("_")[0] in (
        "code",
        "cod",
        "codigo",
        "kod",
        "id",
        "fid",
        "objectid",
        "gid",
        "fips",
        "geoid",
    )
