"""Many surveys of the example state with words: how often intervals of the state and of counties hold the truth.

Each survey has words of its own, and so bits and cohorts of its own. Only the bits of each county and cohort are drawn,
from their exact distribution: so many of the reports that set a bit send it, and so many of the others. Counts of so
many reports are released as they are debiased, rounded.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from local_state import summed
from local_words import CANDIDATES, RAPPOR, SAID, StateWords
from numpy.typing import NDArray

from features.local.collect.bloom import filters
from features.local.collect.finding import find_words
from features.local.collected_words import CollectedWords
from features.local.unlisted import unlisted_words
from postprocess.statistics import half_widths


def _bits(
    counts: NDArray[np.int64], ones: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the reports of each area: how many of each cohort have each bit, and how many there are.

    Args:
        counts: (areas, words) who says what.
        ones: (cohorts, words, hashes) the bits of the words.
        rng: of cohorts and bits.
    """
    cohorts, n_words, hashes = ones.shape
    by_cohort = rng.multinomial(counts, np.full(cohorts, 1 / cohorts))  # (areas, words, cohorts)
    are_set = np.zeros((len(counts), cohorts, RAPPOR.bits), dtype=np.int64)
    for hashed in range(hashes):
        for word in range(n_words):
            are_set[:, np.arange(cohorts), ones[:, word, hashed]] += by_cohort[:, word]
    numbers = by_cohort.sum(axis=1)
    sent = rng.binomial(are_set, float(RAPPOR.q_star))
    return sent + rng.binomial(numbers[:, :, None] - are_set, float(RAPPOR.p_star)), numbers


def _parts(collected: CollectedWords) -> NDArray[np.float64]:
    """(cohorts, bits, words) what a bit of a report adds to the counts of words."""
    found = []
    for cohort in range(RAPPOR.cohorts):
        reports = np.zeros((RAPPOR.bits, 1 + RAPPOR.bits), dtype=np.uint16)
        reports[:, 0], reports[:, 1:] = cohort, np.eye(RAPPOR.bits)
        found.append(collected.totals(reports, np.arange(RAPPOR.bits), RAPPOR.bits)[:, :-1] / 2.0**20)
    return np.stack(found)


def words_of_many(surveys: int) -> list[dict[str, float | str]]:
    """Print how many counts of listed words are held, by what is stated and with what the reports tell of others."""
    state = StateWords.of(1)
    blocks = np.bincount(state.blocks * SAID + state.said, minlength=state.spine.n_leaves * SAID).reshape(-1, SAID)
    levels = {level.name: summed(state.spine, number, blocks) for number, level in enumerate(state.spine.levels[:2])}
    county = levels["county"]
    held: dict[tuple[str, str], list[float]] = defaultdict(list)
    excess, signs, listed = [], 0, 0
    for survey in range(1, surveys + 1):
        rng = np.random.default_rng(survey)
        names = tuple(f"survey {survey} word {number}" for number in range(SAID))
        bits, numbers = _bits(county, filters(names, RAPPOR.cohorts, RAPPOR.bits, RAPPOR.hashes), rng)
        found = find_words(RAPPOR, names[:CANDIDATES], bits.sum(axis=0).ravel(), numbers.sum(axis=0))
        words = np.array([int(name.split()[-1]) for name in found.words])
        collected = CollectedWords(RAPPOR, found.words)
        counts = np.einsum("acb,cbw->aw", bits, _parts(collected))
        unlisted = unlisted_words(collected, counts.sum(axis=0), bits.sum(axis=0).ravel(), numbers.sum(axis=0))
        assert unlisted is not None
        excess.append(unlisted.excess)
        signs, listed = signs + unlisted.signs, listed + len(words)
        cells = np.arange(collected.n_cells)
        for level, seen in (("state", counts.sum(axis=0, keepdims=True)), ("county", counts)):
            truth, reports = levels[level][:, words], levels[level].sum(axis=1, keepdims=True)
            released = np.maximum(np.rint(seen), 0).astype(np.int64)
            for which, one in (("stated", collected), ("told", collected.told(unlisted.excess, unlisted.reports))):
                own = one.own_errors(cells, cells[None, :-1], released, reports)
                standard = np.sqrt(one.stated_variances(cells, cells[None, :-1], reports)) * own
                held[level, which] += (np.abs(released - truth) <= half_widths(standard)).ravel().tolist()
        print(f"survey {survey}: {len(words)} words, excess variance {unlisted.excess:.3f}, "
              f"as of one word in {unlisted.like_one_word(collected):,}", flush=True)  # fmt: skip
    print(f"{listed / surveys:.1f} words; excess variance {np.mean(excess):.3f}; signs in {signs} of {surveys}")
    rows: list[dict[str, float | str]] = []
    for (level, which), each in held.items():
        rows.append({"level": level, "errors": which, "held": float(np.mean(each)), "intervals": float(len(each))})
        print(f"{level:7} {which:7} {np.mean(each):6.1%} of {len(each):,}", flush=True)
    return rows
