"""The report says what public files and readers say, in figures of its own; its twin stays restricted."""

from __future__ import annotations

import html
import itertools
import math
import re
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matrix.shown import content_of, numbers_of, page_shows_the_tables
from releases.browser import opened
from releases.drawn import drawn_table, parts_of
from releases.made_case import made_case
from releases.pages import marked_texts, outside_of_signs, report_in, visible
from releases.small import QUICK, SPEC, run, write_town

from features.report.moments import Reported
from features.report.table_numbers import MarginSummary
from pipeline.cost import memory
from pipeline.cost.memory import memory_of
from pipeline.execution.steps import Silent
from pipeline.inputs.geography import read_spine
from pipeline.model.texts.catalogue import Numerals
from pipeline.reading.question import WantedNumbers
from pipeline.reading.release import Release, open_release, reader_of
from pipeline.release.area_sizes import TENFOLD
from pipeline.release.layout import RunDirectory
from pipeline.release.reliability import UNKNOWN, classes_of, tenths
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec


def test_the_page_holds_every_number_and_says_which_are_exact_and_which_unknown(town: Path) -> None:
    assert page_shows_the_tables(town) == 3 + 2 + 3 + 3 + 3
    page, release = RunDirectory(town).report.read_text("utf-8"), open_release(town)
    certain = 0
    for table in content_of(page)["tables"]:
        for level, where in table["levels"].items():
            universe = release.companion(table["universe"]) if table["universe"] else release
            exact = universe.exact_table(table["name"], level).to_numpy()
            stored = universe.table(table["name"], level)
            unknown = stored[[f"{label}:low90" for label in table["labels"]]].isna().to_numpy()
            below = numbers_of(page, where["numbers"]).reshape(3, -1, len(stored))[1].T
            assert np.array_equal(below == 0, exact)
            assert np.array_equal(below == 1, unknown & ~exact)
            certain += exact.sum()
    assert certain > 20


def test_a_page_speaks_of_a_key_only_where_noise_was_drawn_here(
    town: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Of reports their senders drew it."""
    survey = made_case(tmp_path_factory, "survey") / "out" / "survey"
    for root, keyed in ((town, True), (survey, False)):
        page = " ".join((root / "public" / "report.html").read_text("utf-8").split())
        assert ("the noise was drawn with a secret key" in page) == keyed
        assert ("no noise was drawn here" in page) != keyed


def test_the_restricted_twin_is_closed_and_is_not_public(town: Path) -> None:
    directory = RunDirectory(town)
    assert stat.S_IMODE(directory.accuracy_page.stat().st_mode) == 0o600
    page = directory.accuracy_page.read_text("utf-8")
    stored = pd.read_parquet(directory.main.table("total", "block")).set_index("geocode")["total"]
    truth = pd.read_parquet(directory.main.true_histogram("block")).groupby("geocode", observed=True)["count"].sum()
    error = (stored - truth.reindex(stored.index).fillna(0)).abs()
    rows = re.findall(r'<tr><th scope="row">total</th><td class="text">block</td>(.*)', page)
    cells = re.findall(r"<td>([^<]*)</td>", rows[0])
    assert cells[:2] == [str(len(stored)), f"{error.mean():.2f}"]
    assert cells[7] == str(int(error.max()))


def tiles(release: Release) -> list[tuple[int, str]]:
    """The number and the text of each tile."""
    (part,) = re.findall(r'<ul class="tiles">(.*?)</ul>', release.report.read_text("utf-8"), re.DOTALL)
    found = re.findall(r"<li><b>([0-9,]+)</b><span>(.*?)</span>", part, re.DOTALL)
    return [(int(number.replace(",", "")), html.unescape(text)) for number, text in found]


def interval(text: str) -> tuple[int, int]:
    """The ends that a tile says."""
    (ends,) = re.findall(r"; 90 % interval: ([0-9,]+) to ([0-9,]+)$", text)
    return int(ends[0].replace(",", "")), int(ends[1].replace(",", ""))


def test_of_several_areas_at_the_top_and_of_exact_numbers(tmp_path: Path) -> None:
    """People are exact in each county; housing units are not, and their sum over counties has the interval of a sum."""
    noisy = ('invariants = { block = ["total"] }\n', "invariants = {}\n")
    release = open_release(run(write_town(tmp_path / "in", *QUICK, noisy), tmp_path / "out"))
    (_, people), (units, text), *_ = tiles(release)
    assert "interval" not in people
    companion = reader_of(release.companion("units"))
    everywhere = np.ones(companion.spine.n_leaves)
    ((half,),) = companion.margins.half_widths(everywhere, release.companion("units").query("total").query.groups)
    assert interval(text) == (max(0, units - half), units + half)
    assert half > 0


#: Words of the town's spec and its units: names of levels, tables, queries and attributes, and what is in the notes.
WORDS = (
    "county tract block total sex detail detailed grown status units Adults Sexo Condado habitantes edad Office of "
    "Towns counts town example CC BY The people first note is too building students dorm abril de"
)


def test_whatever_the_page_says_is_from_the_catalogue(named_town: Path) -> None:
    """Every text is between signs; what is not is a word of the spec."""
    page = report_in(named_town, "es", marked_texts())
    text = visible(page)
    assert text.count("\u27e6") > 150
    assert outside_of_signs(text) - set(WORDS.split()) == set()


def test_scripts_and_pages_write_numbers_alike(browser: Any) -> None:
    page = browser.new_page()
    numbers = [0, 999, 1234, 9999, 12345, 1234567, 12.5, 1234.5]
    written = (
        "([language, numbers]) => numbers.map(one => new Intl.NumberFormat(language, "
        "{ maximumFractionDigits: 1, numberingSystem: 'latn' }).format(one))"
    )
    for language in ("en", "es", "es-MX", "de", "pt-PT", "hi"):
        found = page.evaluate(written, [language, numbers])
        assert found == [Numerals(language).decimal(Decimal(str(one))) for one in numbers], language
    page.close()


@pytest.mark.parametrize("step", [7, 1000])
def test_margins_by_brute_force(step: int) -> None:
    whole = drawn_table(400, 5, seed=2)
    assert whole.margins is not None
    summary = MarginSummary()
    for part in parts_of(whole, step):
        summary.add(part)
    margins = tenths(whole.margins)
    sizes = whole.counts.sum(axis=1)
    for found in [*summary.by_size(), summary.all()]:
        low = 0 if found.size < 0 else TENFOLD[found.size]
        high = math.inf if found.size < 0 or found.size + 1 == len(TENFOLD) else TENFOLD[found.size + 1]
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


#: The town's people alone.
PEOPLE_ALONE = ("[companions.units]" + SPEC.split("[companions.units]")[1], "")


def test_the_report_is_part_of_the_memory_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other steps where it takes little, after them where it takes much: then the larger of the two counts.

    Here it takes more memory than all else.
    """
    monkeypatch.setattr("features.report.moments.HELD_BYTES", 1e6)
    spec = load_spec(write_town(tmp_path, PEOPLE_ALONE))
    (universe,), spine = spec.universes(), read_spine(spec.geography)
    found = Reported.of(universe, spine, margins=True)
    beside = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_AHEAD", 0)
    after = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_HELD", 0)
    processes = memory.MAIN_MB + memory.ENGINE_MB + 2 * memory.WORKER_MB
    assert after.peak_mb == pytest.approx(processes + found.bytes / 1e6, rel=1e-3)  # and the histograms
    assert memory_of(spec, spine, 2).peak_mb < after.peak_mb < beside.peak_mb < 1.1 * after.peak_mb


#: [table, [areas], number of the answer] -> what the page says of each; areas are [level, row].
_NUMBERS = """async (asked) => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const { number, share } = moments(content, figures(content));
  const found = [];
  for (const [table, areas, j] of asked) found.push([await number(table, areas, j), await share(table, areas, j)]);
  return found;
}"""
#: [table, [areas], [other areas], number of the answer] -> the comparison.
_COMPARED = """async (asked) => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const { compare } = moments(content, figures(content));
  return Promise.all(asked.map((one) => compare(...one)));
}"""
#: [table, level] -> of each area, of each number, what the page says of its rank.
_RANKS = """async (asked) => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const { ranks } = moments(content, figures(content));
  const found = [];
  for (const [table, level] of asked) {
    const rankOf = await ranks(table, level), n = content.levels[level].n, k = content.tables[table].labels.length;
    found.push(Array.from({ length: n }, (_, row) => Array.from({ length: k }, (_, j) => rankOf(row, j))));
  }
  return found;
}"""
#: level -> of each area of the last table, what the page says of its median.
_MEDIANS = """async (asked) => {
  const content = JSON.parse(document.getElementById("content").textContent), table = content.tables.length - 1;
  const { medians } = moments(content, figures(content)), { medianText } = figures(content);
  const found = [];
  for (const level of asked) {
    const medianOf = await medians(table, level), n = content.levels[level].n;
    const all = Array.from({ length: n }, (_, row) => medianOf(row));
    found.push(all.map((one) => one && { ...one, words: medianText(content.tables[table], one) }));
  }
  return [found, await Promise.all(asked.map(async (level) => (await medians(0, level))(0)))];
}"""
Area = tuple[int, int]


@pytest.fixture(scope="module")
def release(town: Path) -> Release:
    return open_release(town)


def asked_of(release: Release, function: str, asked: list[Any], browser: Any) -> Any:
    shown = opened(browser, release.report)
    found = shown.page.evaluate(function, asked)
    assert shown.complaints == []
    shown.page.context.close()
    return found


def codes(release: Release, areas: list[Area]) -> list[str]:
    return [str(reader_of(release).spine.levels[level].geocodes[row]) for level, row in areas]


def ends_of_page(release: Release, areas: list[Area], query: WantedNumbers, over: Any) -> np.ndarray:
    """The ends `(2, size)` of the numbers of areas together: of one geounit the reader's, else around the number.

    The page has no unbiased estimates, around which the reader's are.
    """
    inside = np.zeros(reader_of(release).spine.n_leaves, dtype=bool)
    for level, row in areas:
        leaves = reader_of(release).spine.leaf_offsets(level)
        inside[leaves[row] : leaves[row + 1]] = True
    labels = query.query.answer_labels()
    if reader_of(release).geounit_of(inside) is not None:
        return np.array([[over[f"{label}:{end}90"] for label in labels] for end in ("low", "high")], dtype=float)
    counts = np.array([over[label] for label in labels], dtype=float)
    halves = reader_of(release).margins.half_widths(inside.astype(float), query.query.groups)[0]
    return np.stack([np.maximum(counts - halves, 0), counts + halves])


def same(found: float | None, expected: Any) -> None:
    """Equal but for the six digits of the factors; None is what is not known."""
    assert (np.nan if found is None else found) == pytest.approx(expected, rel=2e-4, abs=2e-4, nan_ok=True)


def test_sums_and_shares_are_the_readers(browser: Any, release: Release) -> None:
    """One area, several of one and of several levels, children of one parent, and a whole family of children."""
    places: list[list[Area]] = [
        [(1, 0)], [(2, 3)], [(1, 0), (1, 4)], [(2, 0), (2, 1)], [(2, 0), (2, 9), (1, 5)], [(1, 0), (1, 1), (1, 2)],
        [(0, 0), (1, 3)], [(2, n) for n in range(0, 20, 3)], [(0, 0), (0, 1)],
    ]  # fmt: skip
    asked, expected = [], []
    for number, table in enumerate(reader_of(release).universe.tables):
        query = release.query(table.query.name)
        for areas in places:
            if all(release.levels[level] in table.levels for level, _ in areas):
                over, shares = (one({"x": codes(release, areas)}).loc["x"] for one in (query.over, query.shares_over))
                ends = ends_of_page(release, areas, query, over)
                for j, label in enumerate(table.query.answer_labels()):
                    asked.append((number, areas, j))
                    expected.append((over[label], *ends[:, j], shares, label, len(table.query.answer_labels())))
    assert len(asked) > 120
    for (total, share), (count, low, high, shares, label, size) in zip(
        asked_of(release, _NUMBERS, asked, browser), expected, strict=True
    ):
        assert total["value"] == count
        found_ends = total["ends"] or (None, None)
        same(found_ends[0], low)
        same(found_ends[1], high)
        if size > 1 and share is not None:
            same(share["value"], shares[label])
            for found, end in zip(share["ends"] or (None, None), ("low", "high"), strict=True):
                same(found, shares[f"{label}:{end}90"])


def test_comparisons_are_the_readers(browser: Any, release: Release) -> None:
    """Siblings, cousins, areas without a common parent, an area and one that it is in, and sums of areas."""
    pairs: list[tuple[list[Area], list[Area]]] = [
        ([(1, 0)], [(1, 1)]), ([(1, 0)], [(1, 4)]), ([(2, 0)], [(2, 1)]), ([(2, 0)], [(2, 12)]), ([(1, 2)], [(0, 0)]),
        ([(2, 4)], [(1, 1)]), ([(2, 4)], [(1, 0)]), ([(0, 0)], [(0, 1)]), ([(1, 0), (1, 1)], [(1, 3), (1, 4)]),
        ([(1, 1)], [(1, 1)]),
    ]  # fmt: skip
    asked, expected = [], []
    for number, table in enumerate(reader_of(release).universe.tables):
        for first, second in pairs:
            if all(release.levels[level] in table.levels for level, _ in first + second):
                places = codes(release, first), codes(release, second)
                found = release.query(table.query.name).compared(*places)
                total = release.query("total").difference(*places).loc["total"]
                for j, label in enumerate(table.query.answer_labels()):
                    asked.append((number, first, second, j))
                    expected.append((found.loc[label], total))
    assert len(asked) > 120
    verdicts = set()
    for found, (row, total) in zip(asked_of(release, _COMPARED, asked, browser), expected, strict=True):
        for key, name in (("difference", "difference"), ("shares", "share difference"), ("ratio", "ratio")):
            if found[key] is None:
                assert np.isnan(row[name])
                continue
            same(found[key]["value"], row[name])
            for end, side in zip(found[key]["ends"] or (None, None), ("low90", "high90"), strict=True):
                same(end, row[f"{name}:{side}"])
        same(found["totals"]["value"], total["difference"])
        for end, side in zip(found["totals"]["ends"] or (None, None), ("low90", "high90"), strict=True):
            same(end, total[f"difference:{side}"])
        assert bool(found["difference"]["differs"]) == row["differs"]
        verdicts.add((found["difference"]["differs"], bool(found["shares"] and found["shares"]["differs"])))
    assert len(verdicts) >= 3


def test_ranks_are_the_readers(browser: Any, release: Release) -> None:
    asked, expected = [], []
    for number, table in enumerate(reader_of(release).universe.tables):
        for level in table.levels:
            asked.append((number, release.levels.index(level)))
            expected.append(release.query(table.query.name).ranks_at(level))
    seen = set()
    for found, ranks in zip(asked_of(release, _RANKS, asked, browser), expected, strict=True):
        labels = [label for label in ranks.columns if not str(label).endswith(("low90", "high90"))]
        for row, of_area in enumerate(found):
            for label, of_number in zip(labels, of_area, strict=True):
                stated = [int(ranks[name].iloc[row]) for name in (label, f"{label}:low90", f"{label}:high90")]
                if of_number is None:
                    assert stated[1:] == [1, len(found)]
                    continue
                assert [of_number[key] for key in ("rank", "low", "high")] == stated
                seen.add(tuple(stated))
    assert len(seen) > 60
    assert sum(high - low < 4 for _, low, high in seen) > 5


@pytest.mark.slow
def test_medians_are_the_readers(browser: Any, tmp_path: Path) -> None:
    """Of a table that says that its values are in order; of others none. Some areas are empty, some are not sure."""
    table = ('detail = "detailed"', 'detail = "detailed"\nage = { query = "age", median = true }')
    spec = write_town(tmp_path, *QUICK[:1], table, PEOPLE_ALONE)
    release = open_release(run(spec, tmp_path / "out"))
    assert not verify_release(reader_of(release).run, 1, Silent())
    labels = list(reader_of(release).universe.tables[-1].query.answer_labels())
    assert labels == ["child", "adult", "old"]
    found, others = asked_of(release, _MEDIANS, [0, 1, 2], browser)
    assert others == [None] * 3
    seen = set()
    for level, of_level in zip(release.levels, found, strict=True):
        expected = release.query("age").medians_at(level)
        for one, (_, row) in zip(of_level, expected.iterrows(), strict=True):
            if one is None:
                assert pd.isna(row["median"])
                continue
            ends = [row["median:low90"], row["median:high90"]]
            assert [labels[one[key]] for key in ("median", "low", "high")] == [row["median"], *ends]
            between = "" if ends[0] == ends[1] else f" (90 % interval: {ends[0]} to {ends[1]})"
            assert one["words"] == f"Median: {row['median']}{between}"
            seen.add((row["median"], *ends))
    assert len(seen) >= 3
    assert any(low != high for _, low, high in seen)


def alike(folder: Path, seed: int) -> Release:
    """A release of 24 tracts of 12 blocks that all have the same people."""
    spec = write_town(folder, *QUICK, ('key = "insecure-test:1"', f'key = "insecure-test:{seed}"'))
    blocks = [f"{county}{tract:02d}{block:02d}" for county in "AB" for tract in range(12) for block in range(12)]
    people = [
        (block, age, sex, "house")
        for block in blocks
        for (age, sex), n in zip(
            itertools.product(["child", "adult", "old"], "fm"), (9, 12, 31, 24, 14, 3), strict=True
        )
        for _ in range(n)
    ]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    pd.DataFrame({"block": blocks, "dorms": 0, "prisons": 0}).to_csv(folder / "facilities.csv", index=False)
    pd.DataFrame(people, columns=["block", "age", "sex", "quarters"]).to_csv(folder / "persons.csv", index=False)
    units = pd.DataFrame({"block": np.repeat(blocks, 2), "status": ["occupied", "vacant"] * len(blocks), "count": 8})
    units.to_csv(folder / "units.csv", index=False)
    return open_release(run(spec, folder / "out"))


@pytest.mark.slow
def test_areas_that_are_equal_in_truth_differ_one_time_in_ten(browser: Any, tmp_path: Path) -> None:
    """In the page itself; with margins half as wide, or sums as if errors were independent, it would be far more."""
    release = alike(tmp_path, 7)
    n = len(reader_of(release).spine.levels[2])
    near = [([(2, row)], [(2, row + 1)]) for row in range(0, n, 2)]
    far = [([(2, row)], [(2, row + n // 2)]) for row in range(n // 2)]
    size = len(reader_of(release).universe.tables[2].query.answer_labels())
    for pairs in (near, far):
        asked = [(2, first, second, j) for first, second in pairs for j in range(size)]
        found = asked_of(release, _COMPARED, asked, browser)
        # Impossible cells are exact: they are no test.
        told = [one for one in found if one["difference"]["ends"][1] > one["difference"]["ends"][0]]
        assert len(told) > 800
        rate = np.mean([one["difference"]["differs"] for one in told])
        assert 0.02 < rate < 0.12
        assert np.mean([one["shares"]["differs"] for one in told]) < 0.12
        values = np.array([one["difference"]["value"] for one in told])
        reach = values - np.array([one["difference"]["ends"][0] for one in told])
        assert np.mean(np.abs(values) > np.floor(reach / 2)) > 0.25
