"""Words by which a description proposes a reading, and by which a sum row is stopped; nothing is ever read by them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: What rows and columns of sums are called.
TOTALS: Final = frozenset(
    _words(
        """
    total totals all both overall sum everyone everybody insgesamt gesamt zusammen summe alle beide
    ensemble tous toutes todos todas ambos ambas totale tutti tutte maschi-e-femmine totaal allen
    alt i-alt ialt yhteensa totalt samtliga razem ogolem celkem spolu osszesen ukupno skupaj kokku
    kopa viso sinolo toplam jumlah tong 合計 总计 合计 총계 всего итого both-sexes all-ages both-genders
    all-persons total-population
    """
    )
)
#: What columns of counts are called.
COUNTS: Final = frozenset(
    _words(
        """
    count counts n number persons people population pop residents inhabitants freq frequency value
    obs_value anzahl einwohner personen bevolkerung effectif nombre habitants poblacion personas
    habitantes populacao pessoas popolazione residenti aantal antal personer folkmangd lukumaara
    liczba ludnosc pocet
    """
    )
)
#: What columns of areas are called, from the largest to the smallest.
LEVELS: Final = _words(
    """
    country nation land state bundesland province region nuts1 nuts2 nuts3 department departement
    canton county kreis district gemeinde municipality commune comune municipio town city ward
    tract taz maz zone lsoa msoa block area code geocode ags insee iris
    """
)
#: What columns of households, of names of areas, and of ages are called.
HOUSEHOLDS: Final = frozenset(_words("household households hh home haushalt menage hogar famiglia huishouden"))
NAMES: Final = frozenset(_words("name names nm nom nombre nome naam navn namn label libelle bezeichnung"))
AGES: Final = frozenset(_words("age ages alter edad eta leeftijd alder idade wiek"))
#: What columns that say the level of a row are called.
KINDS: Final = frozenset(
    _words(
        """
    level geolevel geo_level ebene niveau nivel livello type sumlev summarylevel
    """
    )
)


def plain(text: str) -> str:
    """The text without accents, in small letters."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).casefold()


def folded(text: str) -> str:
    """The text without accents, in small letters, its words joined by hyphens."""
    return re.sub(r"[\s_\-]+", "-", plain(text).strip(" .:*()[]"))


def is_total(text: str) -> bool:
    """Whether a value is called a sum."""
    return folded(text) in TOTALS
