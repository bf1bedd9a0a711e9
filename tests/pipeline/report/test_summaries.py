"""Margins and errors in figures equal those by brute force, whatever the parts the tables come in."""

from __future__ import annotations

import html
import math

import numpy as np
import pytest

from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.numerals import Numerals
from pipeline.release.reliability import CLASSES, UNKNOWN, classes_of, tenths
from pipeline.release.tables import ReleasedTable
from pipeline.report.render import script_json
from pipeline.report.summaries import SIZES, MarginSummary
from pipeline.report.truth import TableErrors, accuracy_page


def table(n: int, size: int, seed: int) -> ReleasedTable:
    rng = np.random.default_rng(seed)
    counts = np.where(rng.random((n, size)) < 0.3, 0, rng.lognormal(4, 3, (n, size))).astype(np.int64)
    margins = np.where(rng.random((n, size)) < 0.2, 0.0, rng.lognormal(2, 2.5, (n, size)))
    margins[rng.random((n, size)) < 0.05] = np.nan
    lows: np.ndarray = counts - margins * rng.random((n, size))
    highs: np.ndarray = counts + margins
    labels = tuple(f"cell {number}" for number in range(size))
    codes = np.array([f"{number:04d}" for number in range(n)])
    return ReleasedTable("t", "level", "q", codes, labels, counts, lows, highs)


def parts_of(whole: ReleasedTable, step: int) -> list[ReleasedTable]:
    return [whole.rows(slice(i, i + step)) for i in range(0, len(whole.geocodes), step)]


@pytest.mark.parametrize(
    ("count", "margin", "expected"),
    [
        (100, 10.0, "good"), (100, 10.05, "care"), (100, 50.0, "care"), (100, 50.01, "sum"), (0, 0.0, "sum"),
        (0, 1.0, "sum"), (5, 0.0, "care"), (10, 0.0, "good"), (7, math.nan, "sum"),
        (3, 0.3, "care"), (30, 3.0000000000000004, "good"),
    ],
)  # fmt: skip
def test_a_number_is_of_the_first_class_that_it_fits(count: int, margin: float, expected: str) -> None:
    found = classes_of(np.array([[count]]), tenths(np.array([[margin]])))
    assert CLASSES[int(found[0, 0])].key == expected


def test_a_zero_is_good_where_it_is_exact_alone() -> None:
    counts, margins = np.array([[0, 0]]), np.array([[0.0, 0.0]])
    found = classes_of(counts, tenths(margins, np.array([[True, False]])))
    assert [CLASSES[int(one)].key for one in found[0]] == ["good", "sum"]


@pytest.mark.parametrize(
    ("count", "margin", "noisy"),
    [(300, 100, True), (300, 99, False), (100, 34, True), (99, 90, False), (0, 500, False)],
)
def test_noise_is_large_beside_numbers_that_are_far_from_zero(count: int, margin: int, noisy: bool) -> None:
    """Half intervals of a third of a mean of 100 or more; the mean is that of all numbers, in any parts."""
    counts = np.array([[count - 50 if count else 0, count + 50 if count else 0]] * 6)
    ends = counts - float(margin), counts + float(margin)
    whole = ReleasedTable("t", "level", "q", np.arange(6).astype(str), ("a", "b"), counts, *ends)
    summary = MarginSummary()
    for part in parts_of(whole, 4):
        summary.add(part)
    assert summary.mean == count
    assert summary.is_noisy is noisy


@pytest.mark.parametrize("step", [7, 1000])
def test_margins_by_brute_force(step: int) -> None:
    whole = table(400, 5, seed=2)
    assert whole.margins is not None
    summary = MarginSummary()
    for part in parts_of(whole, step):
        summary.add(part)
    margins = tenths(whole.margins)
    sizes = whole.counts.sum(axis=1)
    for found in [*summary.by_size(), summary.all()]:
        low = 0 if found.size < 0 else SIZES[found.size]
        high = math.inf if found.size < 0 or found.size + 1 == len(SIZES) else SIZES[found.size + 1]
        rows = (sizes >= low) & (sizes < high)
        known = np.sort(margins[rows][margins[rows] != UNKNOWN]) / 10
        assert (found.areas, found.numbers) == (rows.sum(), len(known))
        for quantile, value in ((0.1, found.low), (0.5, found.median), (0.9, found.high)):
            if len(known):
                exact = known[math.ceil(quantile * len(known) - 1e-9) - 1]
                assert value is not None
                assert exact * 0.99 - 1e-9 <= value <= exact + 1e-9
        some = whole.counts[rows] > 0
        classes = np.bincount(classes_of(whole.counts[rows], margins[rows])[some], minlength=3)
        assert found.shares == tuple(classes.tolist())


@pytest.mark.parametrize("step", [13, 1000])
def test_errors_by_brute_force(step: int) -> None:
    whole = table(300, 4, seed=3)
    assert whole.margins is not None
    rng = np.random.default_rng(4)
    truth = np.maximum(0, whole.counts + rng.integers(-40, 41, whole.counts.shape))
    errors = TableErrors("t", "level")
    for start, part in zip(range(0, 300, step), parts_of(whole, step), strict=True):
        errors.add(part, truth[start : start + step])
    error = whole.counts - truth
    found = errors.whole
    assert (found.areas, found.numbers, found.largest) == (300, 1200, np.abs(error).max())
    assert found.l1 == pytest.approx(np.abs(error).sum(axis=1).mean())
    assert found.bias == pytest.approx(error.mean())
    assert found.rmse == pytest.approx(np.sqrt((error.astype(float) ** 2).mean()))
    expected = np.quantile(np.abs(error), [0.5, 0.9, 0.99], method="inverted_cdf")
    assert (found.half, found.nine, found.ninetynine) == tuple(expected)
    assert whole.lows is not None
    assert whole.highs is not None
    known = ~np.isnan(whole.lows)
    inside = (whole.lows <= truth) & (truth <= whole.highs)
    assert 0.1 < inside[known].mean() < 0.9
    assert found.covered == pytest.approx(inside[known].mean())
    assert sum(one.areas for one in errors.by_size) == 300
    assert [abs(one.error) for one in errors.largest] == np.sort(np.abs(error).ravel())[::-1][:5].tolist()
    fitness = errors.fitness
    assert fitness is not None
    people = truth.sum(axis=1)
    fit = [
        abs(c[t.argmax()] / max(1, c.sum()) - t.max() / max(1, t.sum())) <= 0.05
        for c, t in zip(whole.counts, truth, strict=True)
    ]
    assert (fitness.areas, fitness.fit) == ((people >= 500).sum(), np.array(fit)[people >= 500].sum())
    assert (fitness.all_areas, fitness.all_fit) == ((people > 0).sum(), np.array(fit)[people > 0].sum())


def test_the_restricted_page_says_so_and_escapes_names() -> None:
    errors = TableErrors("<b>", "level")
    whole = table(20, 2, seed=5)
    errors.add(whole, whole.counts)
    page = accuracy_page("r", "official", [("people", [errors])], Texts())
    assert "RESTRICTED" in page
    assert "<b>" not in page
    assert "script-src 'none'" in html.unescape(page)


def test_figures_for_people() -> None:
    assert [Numerals("en").persons(value) for value in (None, 0.0, 0.4, 3.0, 12.2, 1234.0)] == [
        "?", "0", "0.4", "3", "13", "1,234",
    ]  # fmt: skip
    assert [Numerals("en").percent(value) for value in (0.0, 0.004, 0.25, 0.996, 1.0)] == [
        "0 %",
        "< 1 %",
        "25 %",
        "> 99 %",
        "100 %",
    ]


def test_json_cannot_end_its_script() -> None:
    assert "<" not in script_json({"a": "</script><!--"})
