"""The checks of streams hold for what is installed, and notice faults in streams, keys and open draws."""

from __future__ import annotations

import pytest

from features.audit.second_opinion import stream_problems
from features.audit.streams import stream_findings
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import sampler as noise
from pipeline.privacy.noise.streams import Stream


def failed() -> set[str]:
    return {f.check for f in stream_findings(1, 1 << 16) if not f.passed}


def test_what_is_installed_passes() -> None:
    assert failed() == set()


def test_a_stream_that_is_not_ctr_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Stream.fill
    monkeypatch.setattr(Stream, "fill", lambda self, start, out: fill(self, start - start % 1024, out))
    assert {"published vectors", "seekable"} <= failed()


def test_words_that_lean_to_one_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Stream.fill

    def leaning(self, start, out):  # type: ignore[no-untyped-def]
        fill(self, start, out)
        out[::8] |= 1

    monkeypatch.setattr(Stream, "fill", leaning)
    assert "uniform bits" in failed()


def test_open_draws_that_take_no_further_words_fail() -> None:
    def careless(spec, word, further):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return noise.decide(spec, word, iter([1 << 63] * 64))

    findings = [f for f in stream_findings(1, 1 << 12, careless) if f.check == "undecidable path"]
    assert findings
    assert not any(f.passed for f in findings)


def test_keys_that_forget_a_part_of_their_context_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second program derives them by its own code."""
    assert stream_problems(1) == []
    stream_key = MasterKey.stream_key
    monkeypatch.setattr(
        MasterKey, "stream_key", lambda self, context, level, query: stream_key(self, context[1:], level, query)
    )
    assert "the keys of streams are not derived as documented" in stream_problems(1)
