"""A release of the made-up workers that was charged, answers to questions on them, and the version made with both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.confidential.custody import KeySource
from pipeline.execution.steps import Silent
from pipeline.privacy.keys import MasterKey
from pipeline.runs.updates import Updated, update_release
from releases.asked import ask, ledger_of, write_workers
from releases.mutant import resealed
from releases.small import run as run_release

#: What the release publishes beside its tables.
PUBLISH = ("[input]", "[publish]\nreplicates = 6\nunbiased = true\n[input]")
#: It measures all cells, so that everything is determined.
DETAILED = ('total = "1/2"', '"age * sex" = "1/2"')
#: Questions with their budgets: with a condition, in another order than the schema's; and one that is measured already.
QUESTIONS = (("count by tract, sex, age where age in 18-64, 65+", "1/2"), ("count by county, age, sex", "1/4"))


def key_of(folder: Path, number: int) -> Path:
    """A file with a key that is always the same, and no test key."""
    path = folder / f"key-{number}"
    if not path.exists():
        MasterKey(hashlib.sha256(f"key {number}".encode()).digest()).write(path)
    return path


@contextmanager
def charged_release(
    folder: Path, *changes: tuple[str, str], number: int = 1, **ledger: str
) -> Iterator[tuple[Path, Path]]:
    """The spec and the release, while its ledger is there."""
    spec = write_workers(folder / "in", *changes)
    with ledger_of(folder / "in", **{"budget": "9", **ledger}):
        yield spec, run_release(spec, folder / "out", key_file=key_of(folder / "in", number))


def answer_to(spec: Path, text: str, rho: str | None, number: int = 1, **rest: object) -> Path:
    """An answer under the key of that number."""
    return ask(spec, text, rho, key=KeySource(key_of(spec.parent, number)), **rest)


def update(release: Path, answers: Sequence[Path], out: Path, workers: int = 1) -> Updated:
    return update_release(release, answers, out, workers, Silent())


def seal(root: Path, **changes: object) -> None:
    """Change the manifest, with the hashes of the files as they are now: what a forger would do."""
    resealed(root, lambda content: content.update(changes))
