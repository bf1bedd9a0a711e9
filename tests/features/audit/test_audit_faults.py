"""Ten faults, each switched on in a run, and each found by the audit of its release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.command import needs
from releases.repeated import rerun
from releases.small import PEOPLE_EXACT, UNITS_EXACT, run, write_town

import pipeline.confidential.measure
import pipeline.model.universe
import pipeline.privacy.ledger.charge
import pipeline.publishing.tables
import pipeline.release.privacy_statement
from features.audit.findings import Audit
from features.audit.finished import audit_release
from pipeline.confidential.custody import KeySource
from pipeline.estimation.whole_spine import Estimation
from pipeline.privacy.accounting.uses import measurements_of
from pipeline.privacy.budget import NoiseSpec, noise_for
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import Sampler, sampler_for
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import ReleasedTable, write_table
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked

Patch = pytest.MonkeyPatch
#: Changes to the town's spec that spare what these tests do not look at.
LIGHT = (("replicates = 3", "margins = false"), ("unbiased = true", "unbiased = false"))


def audited(root: Path, *, key: bool = True, ledger: str | None = None) -> Audit:
    directory = RunDirectory(root)
    if not key:
        directory.key.unlink()
    return audit_release(directory, KeySource(), ledger, 1, lambda _: None)


def failed(audit: Audit, group: str = "release") -> set[str]:
    """What the program's own checks find, or those of the second program, "independent"."""
    return {finding.check for finding in audit.failed if finding.group == group}


@pytest.mark.slow
def test_a_sound_release_passes(town: Path) -> None:
    audit = audited(town)
    assert failed(audit) == set(), audit.failed
    assert {"noise redrawn", "noise found", "streams apart", "nothing restricted", "verified"} <= {
        finding.check for finding in audit.findings
    }


class Wrapped:
    """A sampler whose draws are changed."""

    def __init__(self, sampler: Sampler, change: Callable[[Sampler, bytes, int, int], np.ndarray]) -> None:
        self.sampler = sampler
        self.change = change

    def draw(self, stream_key: bytes, start: int, count: int) -> np.ndarray:
        return self.change(self.sampler, stream_key, start, count)


def drawn_by(monkeypatch: Patch, change: Callable[[Sampler, bytes, int, int], np.ndarray]) -> None:
    monkeypatch.setattr(pipeline.confidential.measure, "sampler_for", lambda spec: Wrapped(sampler_for(spec), change))


def faulty(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A run of the town while a fault is switched on; it is off when this returns."""
    root = run(write_town(tmp_path / "in", *LIGHT), tmp_path / "out")
    monkeypatch.undo()
    return root


@pytest.mark.slow
@pytest.mark.parametrize("key", [True, False])
def test_noise_that_is_too_small(tmp_path: Path, monkeypatch: Patch, key: bool) -> None:
    """The headers state the right scale. Without the key it is seen by the spread."""

    def half(sampler: Sampler, stream_key: bytes, start: int, count: int) -> np.ndarray:
        smaller = NoiseSpec(sampler.spec.mechanism, sampler.spec.scale / 4)
        return sampler_for(smaller).draw(stream_key, start, count)

    drawn_by(monkeypatch, half)
    audit = audited(faulty(tmp_path, monkeypatch), key=key)
    assert failed(audit) >= {"noise found"}
    assert ("noise redrawn" in failed(audit, "independent")) == key


def charged_town(tmp_path: Path) -> tuple[Path, str]:
    """A run of the town with a key of its own, charged to a ledger."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url, create=True) as ledger:
        for name, rho, exact in (("people", "2", PEOPLE_EXACT), ("homes", "1", UNITS_EXACT)):
            ledger.open_dataset(
                name,
                population="made up",
                framework="zcdp",
                budget=Fraction(rho),
                neighbours="change-one",
                exact=exact,
            )
    changes = [
        ('key = "insecure-test:1"', 'dataset = "people"'),
        ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "homes" }'),
    ]
    spec = write_town(tmp_path / "in", *changes, *LIGHT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", url)
        return run(spec, tmp_path / "out"), url


@pytest.mark.slow
def test_a_sound_release_with_a_ledger_passes(tmp_path: Path) -> None:
    root, url = charged_town(tmp_path)
    audit = audited(root, ledger=url)
    assert failed(audit) == set(), audit.failed
    assert "ledger" in {finding.check for finding in audit.findings}
    assert rerun(root).same, "a rerun needs no ledger"


@pytest.mark.slow
def test_a_query_that_is_charged_half(tmp_path: Path, monkeypatch: Patch) -> None:
    """The ledger is told twice the sigma^2 that is drawn with."""

    def cheaper(universe):  # type: ignore[no-untyped-def]
        first, *rest = measurements_of(universe)
        return (replace(first, use=type(first.use)(first.use.scale * 2)), *rest)

    monkeypatch.setattr(pipeline.privacy.ledger.charge, "measurements_of", cheaper)
    root, url = charged_town(tmp_path)
    monkeypatch.undo()
    audit = audited(root, ledger=url)
    assert "ledger" in failed(audit, "independent")
    assert any("was not charged" in finding.detail for finding in audit.failed)


@pytest.mark.slow
def test_a_level_that_is_not_charged(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        pipeline.privacy.ledger.charge,
        "measurements_of",
        lambda universe: tuple(m for m in measurements_of(universe) if m.level != "tract"),
    )
    root, url = charged_town(tmp_path)
    monkeypatch.undo()
    audit = audited(root, ledger=url)
    (finding,) = (one for one in audit.failed if one.group == "independent")
    assert (finding.check, finding.subject) == ("ledger", "charges")
    assert "total at tract was not charged" in finding.detail
    assert failed(audit) == {"verified"}, "its receipt states less than was measured"


def noise_as(monkeypatch: Patch, change: Callable[..., NoiseSpec]) -> None:
    """The pipeline computes its noise otherwise, in the measurements and in the manifest."""
    monkeypatch.setattr(pipeline.model.universe, "noise_for", lambda *arguments: change(noise_for, *arguments))


@pytest.mark.slow
def test_a_sensitivity_that_is_halved(tmp_path: Path, monkeypatch: Patch) -> None:
    def halved(right, *arguments):  # type: ignore[no-untyped-def]
        noise = right(*arguments)
        return NoiseSpec(noise.mechanism, noise.scale / 2)

    noise_as(monkeypatch, halved)
    audit = audited(faulty(tmp_path, monkeypatch))
    assert failed(audit) >= {"noise found"}
    assert failed(audit, "independent") >= {"statements", "headers", "noise redrawn"}


@pytest.mark.slow
def test_wrong_neighbours(tmp_path: Path, monkeypatch: Patch) -> None:
    """The spec is for a changed record, the noise is for an added one."""
    noise_as(monkeypatch, lambda right, *arguments: right(*arguments[:-1], "add-remove"))
    audit = audited(faulty(tmp_path, monkeypatch))
    assert failed(audit) >= {"noise found"}
    assert failed(audit, "independent") >= {"statements", "headers"}


@pytest.mark.slow
def test_a_key_that_is_reused_over_other_data(tmp_path: Path, monkeypatch: Patch) -> None:
    """The noise does not depend on the records any more."""
    monkeypatch.setattr(MasterKey, "keyed_hash", lambda self, label, data: "0123456789abcdef" * 4)  # noqa: ARG005
    audit = audited(faulty(tmp_path, monkeypatch))
    assert failed(audit) == set()
    assert failed(audit, "independent") >= {"key", "noise redrawn"}


@pytest.mark.slow
def test_streams_that_overlap(tmp_path: Path, monkeypatch: Patch) -> None:
    """All queries draw from one stream. Without the key it is seen by correlation."""
    stream_key = MasterKey.stream_key
    monkeypatch.setattr(
        MasterKey, "stream_key", lambda self, context, level, _: stream_key(self, context, level, "all")
    )
    root = faulty(tmp_path, monkeypatch)
    audit = audited(root)
    assert "streams apart" in failed(audit)
    assert "noise redrawn" in failed(audit, "independent")
    assert "streams apart" in failed(audited(root, key=False))


@pytest.mark.slow
def test_a_stream_that_begins_again_with_every_batch(tmp_path: Path, monkeypatch: Patch) -> None:
    drawn_by(monkeypatch, lambda sampler, stream_key, start, count: sampler.draw(stream_key, 0 * start, count))
    monkeypatch.setattr(pipeline.confidential.measure, "ANSWERS_AT_ONCE", 200)
    assert "streams apart" in failed(audited(faulty(tmp_path, monkeypatch)))


@pytest.mark.slow
def test_noise_of_rounded_floats(tmp_path: Path, monkeypatch: Patch) -> None:
    def rounded(sampler: Sampler, stream_key: bytes, start: int, count: int) -> np.ndarray:
        rng = np.random.default_rng([start, *stream_key])
        return np.rint(rng.normal(0, float(sampler.spec.scale) ** 0.5, count)).astype(np.int64)

    drawn_by(monkeypatch, rounded)
    assert "noise redrawn" in failed(audited(faulty(tmp_path, monkeypatch)), "independent")


@pytest.mark.slow
def test_an_invariant_outside_the_spec(tmp_path: Path, monkeypatch: Patch) -> None:
    """Blocks' totals are published exactly, though the spec does not say so."""
    measure = pipeline.confidential.measure.measure_level

    def more(job, key, fingerprint, universe, level):  # type: ignore[no-untyped-def]
        total = next(one.query for one in universe.strategy.level("block").queries if one.query.name == "total")
        measure(job, key, fingerprint, replace(universe, invariants=(*universe.invariants, ("block", total))), level)

    monkeypatch.setattr("pipeline.confidential.parts.measure_level", more)
    root = faulty(tmp_path, monkeypatch)
    audit = audited(root)
    assert failed(audit) == {"verified"}
    assert failed(audit, "independent") == {"files"}
    assert any("invariants/block/total.parquet is not of the spec" in finding.detail for finding in audit.failed)


@pytest.mark.slow
def test_a_measurement_without_noise(tmp_path: Path, monkeypatch: Patch) -> None:
    """The truth stands in public/ under the name of a measurement."""
    drawn_by(monkeypatch, lambda sampler, stream_key, start, count: sampler.draw(stream_key, start, count) * 0)
    assert "noise found" in failed(audited(faulty(tmp_path, monkeypatch)))


@pytest.mark.slow
def test_a_restricted_value_in_a_public_file(tmp_path: Path, monkeypatch: Patch) -> None:
    """The table of block totals holds the truth; its margins and form are right."""

    def leaking(target: Path, staging: Path, parts: list[ReleasedTable]) -> None:
        (table,) = parts
        if (table.name, table.level) == ("detail", "block"):
            restricted = tmp_path / "out" / "town" / "restricted" / "histograms" / "block.parquet"
            schema = load_spec(tmp_path / "in" / "release.toml").universes()[0].schema
            table = replace(table, counts=read_histogram(unchecked(restricted), table.geocodes, schema).toarray())
        write_table(target, staging, [table])

    monkeypatch.setattr(pipeline.publishing.tables, "write_table", leaking)
    audit = audited(faulty(tmp_path, monkeypatch))
    assert "verified" in failed(audit)
    assert any("public/tables/detail/block.parquet is not what its measurements give" in f.detail for f in audit.failed)


@pytest.mark.slow
def test_a_restricted_value_in_the_manifest(tmp_path: Path, monkeypatch: Patch) -> None:
    """A step that sees the records tells something, and it reaches the manifest."""
    estimate = Estimation.estimate_level
    monkeypatch.setattr(Estimation, "estimate_level", lambda self, level: {**estimate(self, level), "persons": 1234})
    audit = audited(faulty(tmp_path, monkeypatch))
    assert failed(audit) == {"verified"}
    assert failed(audit, "independent") == {"solver notes"}
    assert any("reports persons = 1234" in finding.detail for finding in audit.failed)


@needs("report")
@pytest.mark.slow
def test_the_key_in_a_public_file(tmp_path: Path) -> None:
    root = run(write_town(tmp_path / "in", ('key = "insecure-test:1"', ""), *LIGHT), tmp_path / "out")
    secret = (root / "restricted" / "key").read_text().split()[1]
    (root / "public" / "report.html").write_bytes(b"x" + bytes.fromhex(secret) + b"y")
    assert "public/report.html holds the master key" in str([f.detail for f in audited(root).failed])
