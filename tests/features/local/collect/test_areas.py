"""Words by area from reports as they arrive: every report is used once or counted under a reason; levels add up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from features.local.collect.bits import KeyedBytes
from features.local.collect.rappor import Rappor
from features.local.collect.words import WordList, arrived, count_words
from pipeline.errors import InputError

KEY = b"a key of the tests, thirty-two b"
MECHANISM = Rappor(16, 2, 8, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
WORDS = tuple(f"word {number}" for number in range(6))
AREAS = [f"{county}{tract:02d}" for county in "AB" for tract in range(20)]


def survey(size: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """Codes, words, cohorts and texts; "A19" has no reports."""
    rng = np.random.default_rng(1)
    codes = [AREAS[number] for number in rng.choice([n for n in range(40) if n != 19], size)]
    said = [WORDS[number] for number in rng.choice(6, size, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05])]
    reports = MECHANISM.randomise(said, KeyedBytes(KEY))
    return codes, said, [str(cohort) for cohort in reports[:, 0]], MECHANISM.encode(reports)


def test_levels_add_up_and_intervals_cover() -> None:
    codes, said, cohorts, texts = survey(20_000)
    used = arrived(MECHANISM, codes, cohorts, texts, areas=AREAS)
    assert set(used.unused.values()) == {0}
    whole, counties, tracts = count_words(WordList(MECHANISM, WORDS), used, lengths=(0, 1, 3))
    assert (whole.areas, counties.areas, tracts.areas) == (("",), ("A", "B"), tuple(AREAS))
    assert np.allclose(counties.counts.sum(axis=0), whole.counts[0])
    assert np.allclose(tracts.counts[:20].sum(axis=0), counties.counts[0])
    assert tracts.reports.tolist() == [codes.count(code) for code in AREAS]
    assert not tracts.counts[19].any()
    assert not tracts.errors[19].any()
    true = np.zeros((40, 6))
    np.add.at(true, ([AREAS.index(code) for code in codes], [WORDS.index(word) for word in said]), 1)
    low, high = tracts.interval()
    covered = ((low[:, :6] <= true) & (true <= high[:, :6]))[tracts.reports > 0]
    assert 0.84 < covered.mean() < 0.96
    narrow, wide = tracts.interval(0.5)
    assert 0.4 < ((narrow[:, :6] <= true) & (true <= wide[:, :6]))[tracts.reports > 0].mean() < 0.7


def test_every_report_is_used_once_or_counted_under_a_reason() -> None:
    codes, _, cohorts, texts = survey(12)
    respondents = [f"r{number}" for number in range(12)]
    texts[0] = "abc"
    texts[1] = "zzzz"
    cohorts[2] = "8"
    codes[3] = "C00"
    respondents[4] = ""
    respondents[6] = respondents[5]
    respondents[7] = respondents[0]  # whose first report cannot be used
    codes[0] = "nowhere"  # the text's fault is counted
    used = arrived(MECHANISM, codes, cohorts, texts, areas=AREAS, respondents=respondents, key=KEY)
    assert used.unused == {
        "wrong length": 1,
        "wrong character": 1,
        "not a report of the mechanism": 0,
        "wrong cohort": 1,
        "area that is not listed": 1,
        "missing respondent": 1,
        "second report of a respondent": 1,
    }
    assert len(used.reports) + sum(used.unused.values()) == 12
    kept = [used.areas[place] for place in used.places]
    assert kept in ([codes[row] for row in (one, 7, 8, 9, 10, 11)] for one in (5, 6)) or codes[5] == codes[6]


def test_mistakes_of_the_caller_are_named() -> None:
    codes, _, cohorts, texts = survey(5)
    with pytest.raises(InputError, match="codes: found 4, for 5 texts"):
        arrived(MECHANISM, codes[1:], cohorts, texts, areas=AREAS)
    with pytest.raises(InputError, match="key: missing; of a respondent"):
        arrived(MECHANISM, codes, cohorts, texts, areas=AREAS, respondents=codes)
    with pytest.raises(InputError, match="areas: found 41 codes, of which 40 are different"):
        arrived(MECHANISM, codes, cohorts, texts, areas=[*AREAS, "A00"])
    used = arrived(MECHANISM, codes, cohorts, texts, areas=AREAS)
    with pytest.raises(InputError, match="lengths: found 4; from 0 to 3"):
        count_words(WordList(MECHANISM, WORDS), used, lengths=(1, 4))
