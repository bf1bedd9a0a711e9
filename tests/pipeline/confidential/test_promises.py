"""A run is charged before it measures; and attacks on what the ledger promises: exact numbers, reruns, shared keys."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError
from releases.command import feature_module, needs
from releases.killed import kill_at
from releases.repeated import rerun
from releases.small import PEOPLE_EXACT, QUICK, UNITS_EXACT, request_of, run, write_town
from typer.testing import CliRunner

import pipeline.confidential.parts
import pipeline.publishing.manifest as stating
import pipeline.runs.verify as verifying
from flows.checks.validation import validate
from flows.cli import app
from pipeline.confidential.custody import KeySource
from pipeline.errors import BudgetRefusedError, InputError, RefusedError
from pipeline.estimation.constraints import LARGEST_TOTAL
from pipeline.execution.steps import Silent
from pipeline.privacy.accounting import statements
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.events import LedgerError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.notes import Marks, read_notes
from pipeline.publishing import promises
from pipeline.publishing.provenance import provenance_of
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, read_manifest, write_manifest
from pipeline.release.receipts import NOT_CHARGED
from pipeline.release.run_directory import recorded_input
from pipeline.run import ReleaseRun
from pipeline.runs.run import run_release
from pipeline.storage.files import sha256_file

CHARGED = (
    *QUICK,
    ('key = "insecure-test:1"\n', 'dataset = "town"\n'),
    ('privacy = { rho = "1" }', 'privacy = { dataset = "town-units", rho = "1" }'),
)
EXACT = ('county = ["total"]', 'county = ["total"]\nblock = ["detailed"]')


def open_datasets(place: Path) -> str:
    """A ledger with a budget for one run."""
    with Ledger.open(str(place), create=True) as ledger:
        for name, budget, exact in (("town", 2, PEOPLE_EXACT), ("town-units", 1, UNITS_EXACT)):
            ledger.open_dataset(
                name, population=name, framework="zcdp", budget=Fraction(budget), neighbours="change-one", exact=exact
            )
    return str(place)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with in/, out/town and ledger.sqlite; all of the budget is spent, and the datasets are closed."""
    folder = tmp_path_factory.mktemp("promises")
    place = open_datasets(folder / "ledger.sqlite")
    shutil.copy(place, folder / "before.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", place)
        patch.setenv("SPINEWISE_STATE", str(folder / "state"))
        run(write_town(folder / "in", *CHARGED), folder / "out")
    with Ledger.open(place, state=folder / "state") as ledger:
        assert {event.kind for event in ledger.events()} == {"open", "allow", "charge", "exact", "key", "commit"}
        assert Marks(folder / "state").seen(ledger.id) == ledger.head()
        for name in ("town", "town-units"):
            ledger.close_dataset(name)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to be attacked, with the ledger that the settings name; records and spec are those of `made`."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.setenv("SPINEWISE_LEDGER", str(tmp_path / "copy" / "ledger.sqlite"))
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    return tmp_path / "copy"


def manifest_of(folder: Path) -> Manifest:
    return read_manifest(RunDirectory(folder / "out" / "town").manifest)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels of which noise is drawn from now on; none is."""
    levels: list[str] = []
    monkeypatch.setattr(pipeline.confidential.parts, "measure_level", lambda *given: levels.append(given[-1]))
    return levels


# The charge


def spent(place: str, name: str = "town") -> Fraction:
    with Ledger.open(place) as opened:
        return opened.dataset(name).spent


@pytest.mark.slow
def test_a_killed_run_is_charged_before_it_measures_and_never_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed again and again, at ever later writes to the disk, it ends as one that was not, for the price of one."""
    ledger = open_datasets(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SPINEWISE_LEDGER", ledger)
    spec, root = write_town(tmp_path / "spec", *CHARGED), tmp_path / "out" / "town"
    before = after = 0
    moments = count(4, 8)
    while kill_at(spec, tmp_path / "out", "sync", next(moments)):
        measured = [*root.rglob("measurements/**/*.parquet")]
        assert spent(ledger) == 2 or (spent(ledger) == 0 and not measured)
        before += spent(ledger) == 0
        after += spent(ledger) == 2 and not (root / "public" / "manifest.json").exists()
    assert before > 0
    assert after > 2
    assert spent(ledger) == 2
    again = run(spec, tmp_path / "out")
    assert spent(ledger) == 2
    with Ledger.open(ledger) as opened:
        assert opened.verify(read_notes(again).values()) == ()
        assert [event.kind for event in opened.events()].count("commit") == 2


# Exact numbers


@pytest.mark.parametrize("another_key", [False, True])
def test_a_spent_and_closed_dataset_publishes_no_true_histogram(
    folder: Path, tmp_path: Path, another_key: bool, drawn: list[str]
) -> None:
    """With the key of the run, whose measurements are paid for, and with a new one."""
    spec = write_town(folder / "in", *CHARGED, EXACT)
    with Ledger.open() as ledger:
        before = ledger.events()
    key = None if another_key else folder / "out" / "town" / "restricted" / "key"
    with pytest.raises(BudgetRefusedError) as refused:
        run(spec, tmp_path / "attack", key_file=key, i_know=True)
    if not another_key:
        assert "publishes block:detailed exactly, which no budget covers" in str(refused.value)
        assert "the dataset is closed" in str(refused.value)
    assert refused.value.exit_status == 3
    assert drawn == []
    assert not list((tmp_path / "attack").rglob("*.parquet.*"))
    assert not list((tmp_path / "attack" / "town" / "public").rglob("*.parquet"))
    with Ledger.open() as ledger:
        assert ledger.events() == before


def test_the_manifest_names_what_is_exact_and_the_receipt_is_repeated(folder: Path) -> None:
    manifest = manifest_of(folder)
    assert manifest.status == "official"
    people, units = manifest.receipts
    assert {one.what for one in people.exact} == set(PEOPLE_EXACT)
    assert [(one.universe, one.what) for one in units.exact] == [("units", "block:total")]
    assert (people.unit, people.cost, units.cost) == ("rho", "2", "1")
    with Ledger.open() as ledger:
        for receipt in manifest.receipts:
            assert ledger.id == receipt.ledger
            assert ledger.events()[receipt.number - 1].hash == receipt.hash
        assert ledger.head().number > people.number
    before = (folder / "out" / "town" / "public" / "manifest.json").read_bytes()
    run(folder / "in" / "release.toml", folder / "out")
    assert (folder / "out" / "town" / "public" / "manifest.json").read_bytes() == before


# Fields of the manifest that could carry a number


def leaves(content: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value of JSON that is no container, with its place."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from leaves(value, (*place, key))
    else:
        yield place, content


def others(value: Any) -> list[Any]:
    """What might stand in its place: another number, the same with words, a number padded as a hash, a real hash."""
    if isinstance(value, str):
        return [f"{value}+There.are.80.men", "80".zfill(64), hashlib.sha256(value.encode()).hexdigest(), "1.2.3"]
    return [not value] if isinstance(value, bool) else [80] if value is None else [value + 80]


def test_each_field_of_a_manifest_is_compared_or_named_as_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that are named, hashes have no number padded with zeros in them, and versions no words."""
    run_directory, manifest = RunDirectory(folder / "out" / "town"), manifest_of(folder)
    monkeypatch.setattr(verifying, "sha256_file", cache(sha256_file))  # the same for each manifest
    accepted: dict[str, list[Any]] = {}
    with verifying._recomputed(run_directory, manifest, 1, Silent()) as job:
        stated = provenance_of(job)
        monkeypatch.setattr(stating, "provenance_of", lambda _: stated)
        assert verifying._compare(job, manifest) == []
        tried = 0
        for place, value in leaves(manifest.model_dump(mode="json")):
            tried += 1
            if place[0] == "files" or (place[0] in ("spec", "privacy", "accounts", "solver") and tried % 20):
                continue  # the files' own hashes are compared before; the others are compared as a whole
            for other in others(value):
                content = manifest.model_dump(mode="json")
                at: Any = content
                for step in place[:-1]:
                    at = at[step]
                at[place[-1]] = other
                try:
                    changed = Manifest.model_validate_json(json.dumps(content))
                except ValidationError:
                    continue
                if not verifying._compare(job, changed):
                    accepted.setdefault(".".join(map(str, place)), []).append(other)
    assert tried > 200
    named = {
        "receipts (ledger, number, hash)": r"receipts\.\d\.(ledger|number|hash)",
        "software": r"software\.(version|python|packages\..*)",
        "input_fingerprints": r"input_fingerprints\..*",
    }
    patterns = "|".join(named.get(one, one) for one in verifying.FORM_ALONE)
    assert {name for name in accepted if not re.fullmatch(patterns, name)} == set()
    texts = [text for found in accepted.values() for text in found if isinstance(text, str)]
    assert not [text for text in texts if re.search("men|0{8}", text)]  # three zeros a true hash may have
    assert {"software.version", "key_salt", "receipts.0.hash"} <= accepted.keys()


# Reruns


def planted(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Another manifest, with its own hash, as anybody can write it who may write to public/."""
    directory = RunDirectory(folder / "out" / "town")
    content = manifest_of(folder).model_dump(mode="json")
    change(content)
    write_manifest(directory, Manifest.model_validate_json(json.dumps(content)))


def test_a_planted_budget_is_refused_before_anything_is_drawn(folder: Path, drawn: list[str]) -> None:
    """Otherwise the rerun draws next to no noise, and the differences that it lists show the true counts."""
    planted(folder, lambda content: content["spec"]["privacy"].update(rho="1000000000"))  # type: ignore[index]
    with pytest.raises(InputError, match=r"public/ is not what was run here: the spec's privacy differ.*never charged"):
        rerun(folder / "out" / "town")
    assert drawn == []


def test_a_planted_geography_is_refused_where_restricted_is_gone(folder: Path, drawn: list[str]) -> None:
    """Another spine gives other noise for the same counts, and averages out what was paid for once."""
    root = folder / "out" / "town"
    shutil.move(root / "restricted" / "key", folder / "key")
    shutil.rmtree(root / "restricted")
    blocks = folder / "in" / "blocks.csv"
    blocks.write_text(blocks.read_text() + "C0101\n")
    facilities = folder / "in" / "facilities.csv"
    facilities.write_text(facilities.read_text() + "C0101,0,0\n")
    with pytest.raises(
        InputError, match=r"public/ is not what .*release.toml gives: the facilities of the bounds, the geography"
    ):
        rerun(root, None, folder / "in" / "release.toml", KeySource(file=folder / "key"))
    assert drawn == []


def test_a_run_that_was_refused_is_not_rerun(folder: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory has recorded spec and records, but it was never charged."""
    with Ledger.open(str(folder / "other.sqlite"), create=True) as ledger:
        ledger.open_dataset("town", population="x", framework="zcdp", budget=Fraction(1), neighbours="change-one")
        other = ledger.id
    monkeypatch.setenv("SPINEWISE_LEDGER", str(folder / "other.sqlite"))
    note = folder / "out" / "town" / "restricted" / "ledger.json"
    # A note of this ledger, which some other charge of the directory has left, does not stand for the run's own.
    note.write_text(json.dumps(json.loads(note.read_text()) | {"ledger": other}))
    for _ in range(2):
        with pytest.raises(InputError, match="has no charge of this run to town, town-units; nothing was drawn"):
            rerun(folder / "out" / "town")
        note.unlink(missing_ok=True)
    monkeypatch.setenv("SPINEWISE_LEDGER", str(folder / "none.sqlite"))
    with pytest.raises(InputError, match="nothing here shows that the run was charged"):
        rerun(folder / "out" / "town")
    assert drawn == []


# One key over several releases


def test_public_files_do_not_show_that_two_releases_share_key_and_records(tmp_path: Path) -> None:
    """By commitment or by fingerprint; the noise of equal queries is shared only within one and the same run."""
    key = tmp_path / "key"
    MasterKey.generate().write(key)
    uncharged = (*QUICK, ('key = "insecure-test:1"\n', ""))
    roots = [
        run(
            write_town(tmp_path / name, *uncharged, ('name = "town"', f'name = "{name}"')),
            tmp_path / "out",
            key_file=key,
        )
        for name in ("first", "second")
    ]
    one, two = (read_manifest(RunDirectory(root).manifest) for root in roots)
    assert one.key_salt != two.key_salt
    assert one.key_commitment != two.key_commitment
    assert not set(one.input_fingerprints.values()) & set(two.input_fingerprints.values())
    unsalted = MasterKey.read(key).commitment()
    for root in roots:
        recorded = recorded_input(RunDirectory(root))
        assert recorded is not None
        for secret in (unsalted, *recorded.values()):
            assert secret not in (root / "public" / "manifest.json").read_text()
    assert one.status == one.charging == NOT_CHARGED
    assert one.receipts == ()


@pytest.mark.parametrize("how", ["other records", "read otherwise", "read otherwise, with another count"])
def test_a_key_over_other_records_or_the_same_read_otherwise_is_refused(folder: Path, tmp_path: Path, how: str) -> None:
    """In one sentence, whether any count changes or not: else a run for nothing would tell. Nothing is left."""
    with Ledger.open() as ledger:
        for name, exact in (("later", PEOPLE_EXACT), ("later-units", UNITS_EXACT)):
            ledger.open_dataset(
                name, population=name, framework="zcdp", budget=Fraction(9), neighbours="change-one", exact=exact
            )
        before = ledger.events()
    if how == "other records":  # the same areas, with facilities that fit: only the people are others
        spec = write_town(tmp_path / "again", *((old, new.replace('"town', '"later')) for old, new in CHARGED), seed=6)
    else:
        encoded = ('file = "persons.csv"', 'file = "persons.csv"\nencoding = "cp1252"')
        spec = write_town(tmp_path / "again", *CHARGED, encoded)
    if how.endswith("count"):
        persons = (spec.parent / "persons.csv").read_text("utf-8")
        (line,) = [line for line in persons.splitlines() if line.endswith("house")][:1]
        block, age, sex, quarters = line.split(",")
        other = ",".join([block, age, {"f": "m", "m": "f"}[sex], quarters])
        (spec.parent / "persons.csv").write_text(persons.replace(line, other, 1), "utf-8")
    told = r"over other records before, or over the same ones read otherwise, .*of the dataset 'town'"
    with pytest.raises(InputError, match=told):
        run(spec, tmp_path, key_file=folder / "out" / "town" / "restricted" / "key")
    with Ledger.open() as ledger:
        assert ledger.events() == before


# Ledgers that were put back


def verified(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["ledger", "verify", *map(str, arguments)])
    return result.output if result.exit_code == 0 else f"{type(result.exception).__name__}: {result.exception}"


def test_receipts_add_up_and_find_what_the_ledger_has_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = folder / "published.json"  # a copy on somebody else's shelf
    shutil.copy(folder / "out" / "town" / "public" / "manifest.json", published)
    sound = verified(published, folder / "out")
    assert "town (ledger " in sound
    assert "rho = 2 in 1 published charges; exact: bounds:group quarters, county:total, zeros" in sound
    assert "is sound:" in sound
    whole = folder / "ledger.sqlite"
    with Ledger.open(str(whole)) as ledger:
        ledger_id, events = ledger.id, ledger.events()
    export = folder / "export.json"
    content = {"format": 2, "ledger": ledger_id, "events": [event.as_dict() for event in events[:5]]}
    export.write_text(json.dumps(content))
    assert "the ledger ends with event 5: it was put back to an older state" in verified("--file", export, published)
    monkeypatch.setenv("SPINEWISE_LEDGER", str(folder / "none.sqlite"))
    assert "what these releases state is sound: 1 manifests, no ledger" in verified(published)


@pytest.mark.parametrize("how", ["its mark", "the run itself", "a run beside it"])
def test_no_run_is_charged_to_a_ledger_that_was_put_back(
    folder: Path, how: str, drawn: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its mark, whatever else is there; without one, by the note of a charge in the same folder of releases."""
    shutil.copy(folder / "before.sqlite", folder / "ledger.sqlite")
    if how == "its mark":
        monkeypatch.setenv("SPINEWISE_STATE", str(folder / "state"))
    name = () if how == "the run itself" else (('name = "town"', 'name = "another"'),)
    out = tmp_path / "elsewhere" if how == "its mark" else folder / "out"
    if how == "the run itself":
        RunDirectory(out / "town").manifest.unlink()
    with pytest.raises(LedgerError, match="put back to an older state"):
        run(write_town(tmp_path / "in", *CHARGED, *name), out)
    assert drawn == []
    assert (folder / "ledger.sqlite").read_bytes() == (folder / "before.sqlite").read_bytes()


def test_a_fork_and_an_undeclared_number_are_found_without_the_ledger(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINEWISE_LEDGER", str(folder / "none.sqlite"))
    original = folder / "original.json"
    shutil.copy(folder / "out" / "town" / "public" / "manifest.json", original)
    planted(folder, lambda content: content["receipts"][0].update(hash="0123456789abcdef" * 4))  # type: ignore[index]
    assert "used twice from there (a fork)" in verified(original, folder / "out")
    planted(folder, lambda content: content["spec"].update(invariants={"block": ["detailed"]}))  # type: ignore[attr-defined]
    told = verified(folder / "out")
    assert told.startswith(LedgerError.__name__)
    assert "publishes block:detailed exactly, which its receipt does not state" in told


# What cannot be released, or not be said of it, is refused before the budget is charged, and before noise is drawn

MANY = """
name = "many"
privacy = { rho = "1", dataset = "many" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, block = 3 } }
schema.attributes.sex = ["f", "m"]
strategy = { queries = { detailed = "1" }, levels = { county = "1/2", block = "1/2" } }
input = { file = "persons.csv", form = "long", geocode = "block" }
publish = { microdata = false, margins = false }
"""


def write_many(folder: Path, total: int) -> Path:
    """A release of so many persons, in three blocks."""
    blocks, size = ("A01", "A02", "A03"), total // 6
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{block}\n" for block in blocks))
    rows = [f"{block},{sex},{size}\n" for block in blocks for sex in "fm"]
    rows[0] = f"A01,f,{total - 5 * size}\n"
    (folder / "persons.csv").write_text("block,sex,count\n" + "".join(rows))
    spec = folder / "release.toml"
    spec.write_text(MANY)
    return spec


def ledger_of_many(folder: Path, patch: pytest.MonkeyPatch, budget: Fraction = Fraction(2)) -> str:
    """A ledger that pays for the release."""
    place = str(folder / "ledger.sqlite")
    patch.setenv("SPINEWISE_LEDGER", place)
    with Ledger.open(place, create=True) as ledger:
        ledger.open_dataset("many", population="x", framework="zcdp", budget=budget, neighbours="change-one")
    return place


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True), (99 * LARGEST_TOTAL // 100, True)])
def test_totals_that_cannot_be_solved_for(
    more: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is charged and nothing measured; validation says the same."""
    place = ledger_of_many(tmp_path, monkeypatch)
    spec = write_many(tmp_path, LARGEST_TOTAL + more)
    found = validate(None, spec)
    assert found.passed != refused
    if not refused:
        run(spec, tmp_path / "out")
    else:
        with pytest.raises(RefusedError) as refusal:
            run(spec, tmp_path / "out")
        details = refusal.value.details.read_text()
        assert f"input: found {LARGEST_TOTAL + more:,} records; up to {LARGEST_TOTAL:,} are allowed" in details
        assert found.findings[0].text in details
        assert str(LARGEST_TOTAL + more) not in str(refusal.value)
        assert not list(tmp_path.rglob("measurements"))
    assert spent(place, "many") == (0 if refused else 1)


@pytest.mark.parametrize("rho", ["1e99", "4.0000001e98", "1e101"])
def test_a_budget_of_which_nothing_can_be_said(rho: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of five costs 25 times as much, of which no epsilon can be stated: it was said at the end."""
    place = ledger_of_many(tmp_path, monkeypatch, 4 * Fraction(rho))
    spec = write_many(tmp_path, 12)
    spec.write_text(MANY.replace('rho = "1"', f'rho = "{rho}"'))
    with pytest.raises(
        InputError, match=r"release\.toml: (privacy: what the budget promises|rho: found|noise scale: found)"
    ) as refused:
        run(spec, tmp_path / "out", i_know=True)
    assert str(refused.value) in [finding.text for finding in validate(None, spec, i_know=True).findings]
    assert spent(place, "many") == 0
    assert not (tmp_path / "out").exists()


#: What a release says of itself: the function that works it out.
SAID: dict[str, tuple[ModuleType, str]] = {
    "accounts": (statements, "privacy_statements"),
    "joint": (statements, "joint_statement"),
    "statements": (promises, "privacy_statement"),
    "package": (promises, "resources"),
}


def fails(*_: Any, **__: Any) -> None:
    raise InputError("planted")


@pytest.mark.parametrize("what", [*SAID, pytest.param("report", marks=needs("report"))])
def test_what_cannot_be_said_is_found_before_it_is_charged(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of it fails: also a fault that the checks of the spec do not find."""
    place = ledger_of_many(tmp_path, monkeypatch)
    checked = request_of(write_many(tmp_path, 12), tmp_path / "out")
    module, name = SAID[what] if what in SAID else (feature_module("features.report.page"), "promised")
    monkeypatch.setattr(module, name, fails)
    with pytest.raises(InputError, match="planted"):
        run_release(checked, Silent())
    assert spent(place, "many") == 0
    assert not list(tmp_path.rglob("measurements"))
    assert not list((tmp_path / "out" / "many" / "public").rglob("*.*"))


def test_once_it_is_charged_no_promise_is_worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report and manifest take what was worked out before: afterwards any of it may fail."""
    place = ledger_of_many(tmp_path, monkeypatch)
    charge = ReleaseRun._charge

    def charged(self: ReleaseRun) -> None:
        charge(self)
        for module, name in SAID.values():
            if name != "resources":
                monkeypatch.setattr(module, name, fails)

    monkeypatch.setattr(ReleaseRun, "_charge", charged)
    root = run(write_many(tmp_path, 12), tmp_path / "out")
    assert spent(place, "many") == 1
    assert (root / "public" / "manifest.json").is_file()
    with pytest.raises(InputError, match="planted"):
        promises.Promises.of(request_of(tmp_path / "release.toml", tmp_path / "out").universes, ())
