"""No redrawing until the noise pleases: committed first, drawn at a round that nobody knew, and once only."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest
from releases.chain import beacon_text, chain_info
from releases.command import spinewise
from releases.repeated import rerun
from releases.small import PEOPLE_EXACT, QUICK, UNITS_EXACT, write_town

from pipeline.confidential.charge import commit_draw
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.chain import Group, LedgerError
from pipeline.privacy.ledger.charges import Charge, RunFingerprint
from pipeline.privacy.ledger.draws import DrawLedger, RedrawnError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.report import dataset_report
from pipeline.release.beacon import BeaconAwaitedError, due, parse_beacon
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest, write_manifest
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.runs.verify import verify_release
from pipeline.spec.privacy_section import BeaconSection

#: When the rounds of the chain begin here: after the tests' commitments, as the chain's clock tells.
SOON = int(time.time()) + 30 * 86_400
PAST = 1_600_000_000
QUICKNET = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = str(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", place)
    with Ledger.open(place, create=True) as opened:
        for name, exact in (("town", PEOPLE_EXACT), ("town-units", UNITS_EXACT)):
            opened.open_dataset(
                name, population=name, framework="zcdp", budget=Fraction(20), neighbours="change-one", exact=exact
            )
    return place


def spec_of(folder: Path, *, number: int = 7, genesis: int = SOON, beacon: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    chain = chain_info(genesis)["hash"]
    stated = f'beacon = {{ chain = "{chain}", round = {number} }}\n' if beacon else ""
    changes = (
        ('key = "insecure-test:1"\n', f'dataset = "town"\n{stated}'),
        ('privacy = { rho = "1" }', 'privacy = { dataset = "town-units", rho = "1" }'),
    )
    return write_town(folder, *QUICK, *changes)


def drawn(spec: Path, out: Path, key: Path, *, number: int | None = None, genesis: int = SOON) -> RunDirectory:
    beacon = None if number is None else parse_beacon(beacon_text(genesis, number).encode(), "beacon")
    checked = check_request(Request(spec, out, None, 1, KeySource(key), beacon=beacon))
    run_release(checked, Silent())
    return checked.run


def kinds(place: str) -> list[str]:
    with Ledger.open(place) as opened:
        assert opened.verify() == ()
        return [event.kind for event in opened.events()]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    MasterKey.generate().write(tmp_path / "key")
    return tmp_path / "key"


def values(run: RunDirectory) -> list[list[int]]:
    frame = pd.read_parquet(run.main.measurement("county", "grown * sex"))
    return [list(value) for value in frame["value"]]


@pytest.mark.slow
def test_a_release_is_committed_then_drawn_and_then_repeated(ledger: str, tmp_path: Path, key: Path) -> None:
    spec, out = spec_of(tmp_path / "spec"), tmp_path / "out"
    with pytest.raises(BeaconAwaitedError, match="committed to round 7 of the beacon"):
        drawn(spec, out, key)
    assert "charge" not in kinds(ledger)
    assert kinds(ledger).count("draw") == 2  # one a dataset
    assert list(out.rglob("measurements/**/*.parquet")) == []
    run = drawn(spec, out, key, number=7)
    found, manifest = values(run), run.manifest.read_bytes()
    stated = read_manifest(run.manifest).beacon
    assert stated is not None
    assert stated.round == 7
    assert verify_release(run, 1, Silent()) == []
    before = kinds(ledger)
    assert drawn(spec, out, key, number=7).manifest.read_bytes() == manifest
    assert kinds(ledger) == before
    assert rerun(run.root, source=KeySource(key)).differences == ()
    assert values(run) == found


def test_another_round_is_other_noise_from_the_same_key(key: Path) -> None:
    master, context = MasterKey.read(key), ("a", "b", "c")
    plain = master.stream_key(context, "county", "total")
    streams = {master.at_beacon(f"{number:064x}").stream_key(context, "county", "total") for number in range(5)}
    assert len(streams | {plain}) == 6
    assert master.at_beacon("ab").commitment() == master.commitment()
    assert master.at_beacon("ab").keyed_hash("x", b"y") == master.keyed_hash("x", b"y")
    assert master.at_beacon("ab") != master
    with pytest.raises(ValueError):
        master.at_beacon("")


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["another key", "another round", "no beacon", "other records"])
def test_a_second_draw_is_refused_and_the_attempt_is_seen(ledger: str, tmp_path: Path, key: Path, attack: str) -> None:
    """Today's main draws each of these, as often as the budget lasts, and publishes the one that pleases."""
    spec, out = spec_of(tmp_path / "spec"), tmp_path / "out"
    with pytest.raises(BeaconAwaitedError):
        drawn(spec, out, key)
    drawn(spec, out, key, number=7)
    spent = kinds(ledger).count("charge")
    again, number = tmp_path / "again", 7
    if attack == "another key":
        key = tmp_path / "other key"
        MasterKey.generate().write(key)
    elif attack == "another round":
        spec, number = spec_of(tmp_path / "spec", number=8), 8
    elif attack == "no beacon":
        spec = spec_of(tmp_path / "spec", beacon=False)
    else:
        persons = tmp_path / "spec" / "persons.csv"
        persons.write_text("\n".join(persons.read_text().splitlines()[:-1]) + "\n")
    given = None if attack == "no beacon" else number
    with pytest.raises(
        RedrawnError, match=r"is committed to one draw, and this would be another .* records the attempt"
    ):
        drawn(spec, again, key, number=given)
    assert list(again.rglob("measurements/**/*.parquet")) == []
    assert kinds(ledger).count("charge") == spent
    assert kinds(ledger)[-1] == "redraw"
    with Ledger.open(ledger) as opened:
        attempts = dataset_report(opened.dataset("town"), Fraction(1, 10**10))["redraws"]
    assert len(attempts) == 1
    assert attempts[0].startswith("town, ")
    shown = spinewise("ledger", "show", "town")
    assert "REFUSED a second draw of town" in shown.stdout


def test_a_round_that_was_known_is_too_late(ledger: str, tmp_path: Path, key: Path) -> None:
    """Committed after the round was out, to any of thousands of known rounds: the one that pleases."""
    spec = spec_of(tmp_path / "spec", genesis=PAST)
    with pytest.raises(InputError, match="is not committed to a draw, and the beacon's round is known"):
        drawn(spec, tmp_path / "out", key, number=7, genesis=PAST)
    assert "draw" not in kinds(ledger)
    with pytest.raises(BeaconAwaitedError):
        drawn(spec, tmp_path / "out", key)
    with pytest.raises(InputError, match="too late, since it was known"):
        drawn(spec, tmp_path / "out", key, number=7, genesis=PAST)
    assert "charge" not in kinds(ledger)
    text = spec.read_text().replace(chain_info(PAST)["hash"], QUICKNET).replace('name = "town"', 'name = "late"')
    (tmp_path / "spec" / "late.toml").write_text(text)
    with pytest.raises(InputError, match="is not committed to a draw, and the beacon's round is known"):
        drawn(tmp_path / "spec" / "late.toml", tmp_path / "out", key)  # round 7 of quicknet was in 2023


def test_whether_a_round_is_known_is_told_by_the_clock_that_dates_the_commitment(tmp_path: Path) -> None:
    named = BeaconSection(chain=QUICKNET, round=7)
    when = due(named.chain, named.round)
    assert when is not None
    job = SimpleNamespace(spec=SimpleNamespace(name="town", privacy=SimpleNamespace(beacon=named)), beacon=None)
    group = Group("county", "total", "discrete_gaussian", Fraction(2), 1)
    charge = Charge("town", RunFingerprint("a" * 64), "town", "change-one", (group,))
    for early, refusal in ((1, BeaconAwaitedError), (0, InputError)):
        now = when - timedelta(seconds=early)
        place = str(tmp_path / f"{early}.sqlite")
        with DrawLedger.open(place, create=True, clock=partial(datetime.fromisoformat, now.isoformat())) as opened:
            opened.open_dataset(
                "town", population="town", framework="zcdp", budget=Fraction(20), neighbours="change-one"
            )
            with pytest.raises(refusal):
                commit_draw(cast("Job", job), MasterKey.generate(), opened, [charge], [])
            assert [event.kind for event in opened.events()] == ["open", "draw"][: 1 + early]
            assert {event.time for event in opened.events()} == {now.isoformat()}


@pytest.mark.usefixtures("ledger")
def test_a_charged_release_cannot_be_committed_afterwards(tmp_path: Path, key: Path) -> None:
    drawn(spec_of(tmp_path / "spec", beacon=False), tmp_path / "out", key)
    with pytest.raises(RedrawnError, match="was charged to 'town' before it was committed"):
        drawn(spec_of(tmp_path / "spec"), tmp_path / "again", key)


@pytest.mark.usefixtures("ledger")
def test_another_beacon_than_the_spec_names_is_refused(tmp_path: Path, key: Path) -> None:
    spec = spec_of(tmp_path / "spec")
    with pytest.raises(InputError, match=r"found round 7 of .* and the beacon that is given is round 9"):
        drawn(spec, tmp_path / "out", key, number=9)
    with pytest.raises(InputError, match="names no beacon"):
        drawn(spec_of(tmp_path / "spec", beacon=False), tmp_path / "out", key, number=9)


@pytest.mark.slow
@pytest.mark.usefixtures("ledger")
def test_a_manifest_with_another_round_does_not_verify(tmp_path: Path, key: Path) -> None:
    spec, out = spec_of(tmp_path / "spec"), tmp_path / "out"
    with pytest.raises(BeaconAwaitedError):
        drawn(spec, out, key)
    run = drawn(spec, out, key, number=7)
    manifest = read_manifest(run.manifest)
    assert manifest.beacon is not None
    forged = manifest.beacon.model_copy(update={"randomness": "00" * 32})
    for beacon, message in ((None, "states no beacon"), (forged, "the randomness is not the hash of the signature")):
        write_manifest(run, manifest.model_copy(update={"beacon": beacon}))
        assert [message in problem for problem in verify_release(run, 1, Silent())] == [True]


def test_a_beacon_needs_a_dataset(tmp_path: Path) -> None:
    chain = chain_info(SOON)["hash"]
    beacon = ('key = "insecure-test:1"\n', f'beacon = {{ chain = "{chain}", round = 7 }}\n')
    spec = write_town(tmp_path, *QUICK, beacon)
    with pytest.raises(InputError, match="needs a dataset: the draw is committed to in its ledger"):
        check_request(Request(spec, tmp_path / "out", None, 1))


def test_the_ledger_itself_shows_a_charge_beside_the_commitment(
    ledger: str, tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that were written past the program do not replay: a second draw cannot be hidden in a sound ledger."""
    spec, out = spec_of(tmp_path / "spec"), tmp_path / "out"
    with pytest.raises(BeaconAwaitedError):
        drawn(spec, out, key)
    other = tmp_path / "other key"
    MasterKey.generate().write(other)
    plain = spec_of(tmp_path / "spec", beacon=False)
    monkeypatch.setattr(DrawLedger, "_refuse_redraws", lambda *_: None)
    with pytest.raises(RedrawnError, match="committed to another draw meanwhile"):  # by another process
        drawn(plain, tmp_path / "again", other)
    monkeypatch.setattr(DrawLedger, "_charge", Ledger._charge)
    with suppress(LedgerError):
        drawn(plain, tmp_path / "again", other)
    with Ledger.open(ledger) as opened:
        problems = opened.verify()
    assert any("for another draw than it is committed to" in problem for problem in problems)


@pytest.mark.slow
@pytest.mark.usefixtures("ledger")
def test_on_the_command_line(tmp_path: Path, key: Path) -> None:
    spec = spec_of(tmp_path / "spec")
    arguments = ("run", spec, "--out", tmp_path / "out", "--no-prefect", "--workers", 1, "--key", f"file:{key}")
    first = spinewise(*arguments)
    assert first.returncode == 1
    assert "nothing is drawn yet" in first.stderr
    (tmp_path / "round.json").write_text(beacon_text(SOON, 7))
    forged = json.loads(beacon_text(SOON, 7, randomness="11" * 32))
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    refused = spinewise(*arguments, "--beacon-file", tmp_path / "forged.json")
    assert refused.returncode == 2
    assert "the randomness is not the hash of the signature" in refused.stderr
    done = spinewise(*arguments, SPINEWISE_BEACON_COMMAND=f"cat {tmp_path / 'round.json'}")
    assert done.returncode == 0, done.stderr
