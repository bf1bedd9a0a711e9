"""The log only grows: what is changed, taken out, shown differently or drawn again does not go unnoticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from releases.by_hand import write_release

from features.witness.checkpoint import Checkpoint, read_checkpoint
from features.witness.entry import Entry, entry_of
from features.witness.log import (
    WIDTH,
    LogError,
    add_entry,
    contradiction,
    new_log,
    open_log,
    redrawings,
    tile_path,
    write_entries,
)
from features.witness.log_proofs import check_growth, check_inclusion, consistency_proof, inclusion_proof
from pipeline.errors import InputError, ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.release.merkle import ProofError, leaf_hash, root_of
from pipeline.signatures.signing_keys import SigningKey


def entry(name: str, draws: str = "aa", *receipts: str) -> Entry:
    return Entry(name, "official", f"{name}{draws}", draws, "", "", receipts)


@pytest.fixture
def log(tmp_path: Path, key: SigningKey) -> Path:
    folder = tmp_path / "log"
    new_log(folder, "statistics.example/log", key)
    for name in ("one", "two", "three"):
        add_entry(folder, entry(name), key)
    return folder


def force(folder: Path, entries: list[Entry], key: SigningKey) -> None:
    """Write and sign a log of any entries, as an agency could that does not use this program."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = [each.data() for each in entries]
    write_entries(folder, data, 0, folder)
    root = root_of([leaf_hash(each) for each in data])
    (folder / "checkpoint").write_bytes(Checkpoint("statistics.example/log", len(data), root).signed(key))


def test_a_release_is_added_once(log: Path, key: SigningKey, release: RunDirectory) -> None:
    assert add_entry(log, entry_of(release), key) == 3
    before = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    assert add_entry(log, entry_of(release), key) == 3
    assert {path: path.read_bytes() for path in log.rglob("*") if path.is_file()} == before
    opened = open_log(log, key.public())
    assert [each.release for each in opened.entries] == ["one", "two", "three", "little"]


def test_the_files_are_those_of_c2sp(log: Path) -> None:
    names = {path.relative_to(log).as_posix() for path in log.rglob("*") if path.is_file()} - {".lock"}
    widths = (1, 2, 3)
    tiles = {f"tile/{level}/000.p/{width}" for level in ("0", "entries") for width in widths}
    assert names == {"checkpoint", *tiles}
    text = (log / "checkpoint").read_text("utf-8")
    assert text.splitlines()[:2] == ["statistics.example/log", "3"]
    data = entry("one").data()
    assert (log / "tile/entries/000.p/1").read_bytes() == len(data).to_bytes(2, "big") + data
    assert tile_path(Path(), "0", 1_234_067, 5).as_posix() == "tile/0/x001/x234/067.p/5"


def test_redrawing_is_refused_and_noticed(log: Path, key: SigningKey, tmp_path: Path) -> None:
    """The noise was drawn until it pleased: one name, two draws."""
    first, second = (write_release(tmp_path / "r", noise=noise) for noise in ("1 1", "2 2"))
    add_entry(log, entry_of(first), key)
    with pytest.raises(LogError, match="entry 3 contradicts it: little was drawn again, with other noise"):
        add_entry(log, entry_of(second), key)
    force(log, [*open_log(log, key.public()).entries, entry_of(second)], key)
    problems = redrawings(open_log(log, key.public()))
    assert problems == ["entries 3 and 4: little was drawn again, with other noise"]


def test_one_charge_is_for_one_noise(log: Path, key: SigningKey) -> None:
    """Another name does not hide a redrawing, nor a ledger that was put back and charged again."""
    first = entry("first", "aa", "f00d 12 abcd people")
    add_entry(log, first, key)
    add_entry(log, entry("later", "bb", "f00d 15 ef01 people"), key)
    add_entry(log, entry("elsewhere", "cc", "beef 12 9999 people"), key)
    with pytest.raises(LogError, match="second was drawn for the charge of first"):
        add_entry(log, entry("second", "bb", "f00d 12 abcd people"), key)
    forked = entry("third", "bb", "f00d 12 9876 people")
    with pytest.raises(LogError, match="event 12 of the ledger f00d is two events"):
        add_entry(log, forked, key)
    force(log, [first, forked], key)
    assert redrawings(open_log(log, key.public())) == [
        "entries 0 and 1: event 12 of the ledger f00d is two events: it was put back, or forked"
    ]


def test_roll_back_is_noticed(log: Path, key: SigningKey, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(log, old)
    add_entry(log, entry("four"), key)
    seen = read_checkpoint(log / "checkpoint", key.public())
    assert contradiction(open_log(log, key.public()), seen) == ""
    rolled_back = open_log(old, key.public())
    assert contradiction(rolled_back, seen).startswith("rolled back: a checkpoint of 4 entries was signed")
    add_entry(old, entry("five"), key)  # and grown again beyond what was seen
    add_entry(old, entry("six"), key)
    assert contradiction(open_log(old, key.public()), seen).startswith("split view")


def test_split_views_are_noticed(log: Path, key: SigningKey, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(log, other)
    add_entry(log, entry("for you"), key)
    add_entry(other, entry("for me"), key)
    mine, yours = (open_log(folder, key.public()) for folder in (other, log))
    assert mine.checkpoint.size == yours.checkpoint.size
    assert contradiction(mine, yours.checkpoint).startswith("split view")
    assert contradiction(yours, mine.checkpoint).startswith("split view")


@pytest.mark.parametrize("file", ["tile/0/000.p/3", "tile/entries/000.p/3", "checkpoint"])
def test_any_changed_byte_is_noticed(log: Path, key: SigningKey, file: str) -> None:
    content = (log / file).read_bytes()
    for place in range(0, len(content) - 1, max(1, len(content) // 40)):
        changed = bytearray(content)
        changed[place] ^= 1
        (log / file).write_bytes(changed)
        with pytest.raises(ReleaseError):
            open_log(log, key.public())
    (log / file).unlink()
    with pytest.raises((ReleaseError, InputError)):
        open_log(log, key.public())


def test_an_entry_changed_with_its_tile_is_noticed(log: Path, key: SigningKey) -> None:
    """Without the key, nobody can sign the other root."""
    checkpoint = (log / "checkpoint").read_bytes()
    force(log, [entry("one"), entry("two", "changed"), entry("three")], SigningKey.generate("a"))
    (log / "checkpoint").write_bytes(checkpoint)
    with pytest.raises(LogError, match="do not have the root that is signed"):
        open_log(log, key.public())


def test_inclusion_and_growth_are_proved_without_the_log(log: Path, key: SigningKey, release: RunDirectory) -> None:
    public = key.public()
    early = read_checkpoint(log / "checkpoint", public)
    add_entry(log, entry_of(release), key)
    opened = open_log(log, public)
    proof = inclusion_proof(opened, entry_of(release))
    assert proof.startswith(b"c2sp.org/tlog-proof@v1\nindex 3\n")
    assert check_inclusion(proof, entry_of(release), public).size == 4
    growth = consistency_proof(opened, early.size)
    assert growth.startswith(b"old 3\n")
    assert check_growth(growth, early, public).size == 4
    with pytest.raises(ProofError, match="is not of another"):
        check_inclusion(proof, entry("another"), public)
    with pytest.raises(ProofError):
        check_inclusion(proof.replace(b"index 3", b"index 2"), entry_of(release), public)
    with pytest.raises(ReleaseError, match="no Ed25519 signature"):
        check_inclusion(proof, entry_of(release), SigningKey.generate(public.name).public())
    with pytest.raises(ProofError):
        check_growth(growth, Checkpoint(early.origin, early.size, leaf_hash(b"x")), public)
    with pytest.raises(ProofError, match="is not in the log"):
        inclusion_proof(opened, entry("another"))


def test_a_log_of_several_tiles(tmp_path: Path, key: SigningKey) -> None:
    folder = tmp_path / "long"
    entries = [entry(f"release-{number}") for number in range(2 * WIDTH + 3)]
    force(folder, entries[:-4], key)
    early = read_checkpoint(folder / "checkpoint", key.public())
    for each in entries[-4:]:
        add_entry(folder, each, key)
    opened = open_log(folder, key.public())
    assert opened.entries == tuple(entries)
    assert contradiction(opened, early) == ""
    names = {path.relative_to(folder / "tile").as_posix() for path in folder.rglob("tile/*/*") if path.is_file()}
    assert {"0/000", "0/001", "entries/001"} <= names
    assert (folder / "tile/1/000.p/2").stat().st_size == 64
    check_inclusion(inclusion_proof(opened, entries[300]), entries[300], key.public())
    shutil.rmtree(folder / "tile/0/001.p")  # which C2SP allows once the tile is full
    assert open_log(folder, key.public()).entries == tuple(entries)


def test_a_log_is_not_made_over_something(tmp_path: Path, log: Path, key: SigningKey) -> None:
    with pytest.raises(InputError, match="is not an empty folder"):
        new_log(log, "a", key)
    with pytest.raises(InputError, match="no log is here"):
        add_entry(tmp_path / "nowhere", entry("x"), key)
    with pytest.raises(InputError, match="--origin"):
        new_log(tmp_path / "n", "spinewise.release/1", key)
    assert not (tmp_path / "n").exists()
