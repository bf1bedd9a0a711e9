"""Views of the page, drawn at random: what they show are the numbers of the files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.browser import opened

from pipeline.reading.release import Release, open_release, reader_of

_VIEWS = 30


@pytest.fixture(scope="module")
def release(town: Path) -> Release:
    return open_release(town)


def said(row: Any, label: str, exact: bool) -> str:
    """A number as a sentence has it, from a row of the file."""
    if exact:
        return f"{row[label]:,.0f} (exact)"
    low, high = row[f"{label}:low90"], row[f"{label}:high90"]
    known = f"90 % interval: {low:,.0f} to {high:,.0f}"
    return f"{row[label]:,.0f} ({'interval not known' if pd.isna(low) else known})"


@pytest.mark.slow
def test_views_say_what_the_files_say(browser: Any, release: Release) -> None:
    """Row, card and sentences of an area, and its place in an order by a head."""
    shown, random = opened(browser, release.report), np.random.default_rng(36)
    base = shown.page.url.partition("#")[0]
    with_total, compared, seen = 0, 0, set()
    for _ in range(_VIEWS):
        table = reader_of(release).universe.tables[random.integers(len(reader_of(release).universe.tables))]
        level = str(random.choice([name for name in release.levels if name in table.levels]))
        stored, exact = release.table(table.name, level), release.exact_table(table.name, level)
        labels, code = list(exact.columns), str(random.choice(stored.index))
        cell, order = int(random.integers(len(labels))), str(random.choice(["most", "least"]))
        label = labels[cell]
        name = label.replace(" ", "%20")
        view = f"table={table.name}&level={level}&cell={name}&order={order}&by={name}&area={level}:{code}"
        shown.page.goto("about:blank")
        shown.page.goto(f"{base}#{view}")
        shown.page.wait_for_selector("html[data-ready]")
        values = stored[label].to_numpy()
        place = np.argsort(-values if order == "most" else values, kind="stable").tolist()
        rows = shown.page.evaluate(
            "[...document.querySelectorAll('#counts-body tr')].map(row => row.children[0].textContent)"
        )
        assert rows == [stored.index[at] for at in place[:25]]
        card = shown.page.locator("#area tbody tr").nth(cell).locator("td").all_text_contents()
        assert int(card[0].replace(",", "")) == stored.loc[code, label]
        sentences = shown.page.locator("#area .sentence").all_text_contents()
        total: Any = release.table("total", level).loc[code]
        is_exact = bool(release.exact_table("total", level).at[code, "total"])
        assert sentences[0] == f"People in {code}: {said(total, 'total', is_exact)}."
        with_total += len(labels) > 1
        if len(labels) > 1 and (
            match := re.match(r"Of these, .*?: ([\d.]+) % \(90 % interval: ([\d.]+) to", sentences[1])
        ):
            shares: Any = release.query(table.query.name).shares_at(level).loc[code]
            step = 0.51 * 10.0 ** -len(match.group(1).partition(".")[2])
            assert float(match.group(1)) == pytest.approx(
                100 * float(values[stored.index.get_loc(code)]) / total["total"], abs=step
            )
            assert float(match.group(2)) == pytest.approx(shares[f"{label}:low90"], abs=step)
            compared += 1
        rank = re.search(r"in place (\d+) of (\d+)", sentences[-1])
        if rank:
            assert int(rank.group(1)) == 1 + (values > stored.loc[code, label]).sum()
            assert int(rank.group(2)) == len(stored)
        seen.add(view)
    assert shown.complaints == []
    assert with_total > 0.3 * _VIEWS
    assert compared > 0.15 * _VIEWS
    assert len(seen) > 0.6 * _VIEWS
