"""Releases of a series are made in order, each when its file is there, never twice; what is missing stops them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import cast

import pytest
from releases.command import needs
from releases.series_town import YEARS, write_series_town
from releases.small import write_town

from flows.orchestration import release_flow
from flows.orchestration.deployed import Arrivals
from geography.errors import InputError
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import RecordHolder
from pipeline.execution.settings import load_settings
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request
from pipeline.signatures.signing_keys import SigningKey
from pipeline.signatures.statement import signature_of
from pipeline.spec.release_spec import load_spec

pytestmark = needs("years")


def _waiting(folder: Path) -> Arrivals:
    return Arrivals(folder / "in-{period}" / "persons-{period}.csv")


def _arrive(folder: Path, year: str) -> None:
    (folder / f"in-{year}").mkdir(exist_ok=True)
    (folder / f"in-{year}" / f"persons-{year}.csv").touch()


def test_what_is_due(tmp_path: Path) -> None:
    """All states of three periods: the first that is not released, if its file is there; a later one never before."""
    spec = load_spec(write_series_town(tmp_path / "spec"))
    for number, (released, there) in enumerate(product(product((False, True), repeat=3), repeat=2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for year, is_released, is_there in zip(YEARS, released, there, strict=True):
            if is_there:
                _arrive(folder, year)
            if is_released:
                manifest = RunDirectory(folder / "out" / f"padron-{year}").manifest
                manifest.parent.mkdir(parents=True)
                manifest.touch()
        waiting, out, n = _waiting(folder), folder / "out", sum(released)
        if not all(released[:n]) or (n < 3 and not there[n] and any(there[n:])):
            missing = YEARS[released.index(False)]
            with pytest.raises(InputError, match=f"period {missing} is missing: .* none is left out"):
                waiting.due(spec, out)
            continue
        assert waiting.due(spec, out) == (YEARS[n] if n < 3 and there[n] else None)
        waits = f"persons-{YEARS[n]}.csv, of period {YEARS[n]}" if n < 3 else "all releases of the series are made"
        assert waiting.remark(spec, out).endswith(waits)


def test_paths_differ_from_period_to_period(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--wait-for: found done; .* such as persons-\{period\}\.parquet"):
        Arrivals(Path("done"))
    with pytest.raises(InputError, match="--data: found persons"):
        Arrivals(Path("done-{period}"), Path("persons"))
    with pytest.raises(InputError, match="--wait-for: the folders of the periods have / in common"):
        Arrivals(Path("/{period}/persons"))
    two = Arrivals(Path("/in/{period}/done"), Path("/all/of/{period}"))
    assert two.folders == (Path("/in"), Path("/all/of"))
    assert two.records_of("2031-Q1") == Path("/all/of/2031-Q1")
    assert Arrivals(Path("/in/{period}/p-{period}.csv")).records_of("2031") == Path("/in/2031/p-2031.csv")
    with pytest.raises(InputError, match=r"release\.toml: --wait-for is for releases of a series; the spec has no \["):
        Arrivals(Path("x-{period}")).due(load_spec(write_town(tmp_path)), tmp_path)


@pytest.mark.parametrize("there", [True, False])
def test_only_a_release_that_is_found_to_be_ours_is_signed_afterwards(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished release without a signature may be somebody else's: it is gone through as by a run started again."""
    spec, out = write_series_town(tmp_path / "spec"), tmp_path / "out"
    for year in YEARS:
        manifest = RunDirectory(out / f"padron-{year}").manifest
        manifest.parent.mkdir(parents=True)
        manifest.touch()
        if there:
            _arrive(tmp_path, year)
    key = SigningKey.generate("statistics.example/releases", post_quantum=False)
    key.write(tmp_path / "agency.sign")
    monkeypatch.setenv("SPINEWISE_SIGN_KEY", f"file:{tmp_path / 'agency.sign'}")
    made: list[tuple[str | None, Path | None]] = []
    monkeypatch.setattr(release_flow, "_made", lambda request, _: made.append((request.period, request.data)))
    request = Request(spec, out, None, 1, KeySource())
    release_flow._arrived(request, _waiting(tmp_path), load_settings())
    waiting = _waiting(tmp_path)
    assert made == ([(YEARS[-1], waiting.records_of(YEARS[-1]))] if there else [])
    assert not any(signature_of(RunDirectory(out / f"padron-{year}")).exists() for year in YEARS)


def test_the_flow_leaves_the_signature_to_the_command_line_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SigningKey.generate("statistics.example/releases", post_quantum=False).write(tmp_path / "agency.sign")
    monkeypatch.setenv("SPINEWISE_SIGN_KEY", f"file:{tmp_path / 'agency.sign'}")
    scheduled = release_flow.signer_of(load_settings())
    assert scheduled is not None
    assert scheduled.name == "statistics.example/releases"
    token = release_flow.measured_of_run.set(cast(RecordHolder, object()))
    try:
        assert release_flow.signer_of(load_settings()) is None
    finally:
        release_flow.measured_of_run.reset(token)
