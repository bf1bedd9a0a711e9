"""What a person sees: how much is done, of public numbers only, and the reason of a refusal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import pipeline.execution.console
from pipeline.execution.console import Bar, Lines
from pipeline.execution.steps import Step

STEPS = (
    Step("tabulate", lambda: None, geounits=100),
    Step("estimate", lambda: None, level="block", geounits=1200, effort=5.0),
)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, highlight=False)


def text_of(one: Console) -> str:
    assert isinstance(one.file, io.StringIO)
    return one.file.getvalue()


@pytest.mark.parametrize("kind", [Bar, Lines])
def test_steps_are_shown_with_geounits(kind: type[Bar] | type[Lines], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.execution.console, "_QUIET", 0.0)
    one = console(terminal=kind is Bar)
    progress = kind(one)
    progress.begin(STEPS)
    progress.start(STEPS[0])
    progress.finish(STEPS[0], skipped=True)
    progress.start(STEPS[1])
    progress.advance(400)
    if isinstance(progress, Bar):
        progress._progress.refresh()
    assert "estimate block" in text_of(one)
    assert "400 of 1,200 geounits" in text_of(one)
    assert "left" in text_of(one)
    progress.advance(5000)
    assert progress._count.done == progress._count.total == 6000, "what was done before counts for nothing"
    progress.finish(STEPS[1])
    assert progress._count.done == progress._count.total
    progress.close()
