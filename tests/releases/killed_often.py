"""Kills runs at random moments, over all steps: `python -m releases.killed_often SPEC KEY LEDGER FOLDER KILLS SEED`.

Everything is imported once, and each run is a fork of this process. A run is killed within a step that is drawn in
turn, at a moment that is drawn from the step's usual duration; then the same run is started again. Prints, as JSON, in
which step each was killed, and what is not as it would be undisturbed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import shutil
import signal
import sys
import time
from fractions import Fraction
from pathlib import Path

from pipeline.execution.progress import Silent
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Step
from pipeline.privacy.accounting.statements import privacy_statements  # noqa: F401 - imported before the first fork
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from postprocess.downward import tasks as level_task
from releases.small import public_bytes, run

#: Before the first step and after the last.
FIRST, LAST = "the beginning", "the end"


class Telling(Silent):
    """Writes the names of steps as they begin."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.ends_after = ""

    def begin(self, steps: tuple[Step, ...]) -> None:
        self.ends_after = steps[-1].name

    def start(self, step: Step) -> None:
        os.write(self.descriptor, f"{step.name}\n".encode())

    def finish(self, step: Step, *, skipped: bool = False) -> None:  # noqa: ARG002
        if step.name == self.ends_after:
            os.write(self.descriptor, f"{LAST}\n".encode())


class Run:
    """A run in a fork of this process."""

    def __init__(self, spec: Path, key: Path, out: Path, ledger: Path) -> None:
        reader, writer = os.pipe()
        self.process = os.fork()
        if not self.process:
            status = 1
            try:
                os.close(reader)
                os.environ["SPINEWISE_LEDGER"] = str(ledger)
                os.environ["SPINEWISE_STATE"] = f"{ledger}.state"  # each copy of the ledger is one of its own
                os.write(writer, f"{FIRST}\n".encode())
                run(spec, out, key_file=key, progress=Telling(writer))
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        self.reader = reader
        self.steps: list[tuple[str, float]] = []
        self.text = b""

    def next_step(self, until: float | None = None) -> bool:
        """Wait for the next step; False if the run has ended, or at `until`."""
        while b"\n" not in self.text:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self.reader], [], [], left)[0]:
                return False
            content = os.read(self.reader, 1024)
            if not content:
                return False
            self.text += content
        name, _, self.text = self.text.partition(b"\n")
        self.steps.append((name.decode(), time.monotonic()))
        return True

    def end(self) -> int:
        """The exit status; minus the signal's number where one has ended it."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        while self.next_step():
            pass
        os.close(self.reader)
        return status


def killed(one: Run, step: str, after: float) -> str:
    """Kill a run so long after a step has begun; the step that it was in, or "" if it had ended."""
    while one.next_step():
        if one.steps[-1][0] == step:
            moment = one.steps[-1][1] + after
            if not one.next_step(moment):  # else it was sooner than usual, and the next step has just begun
                time.sleep(max(0.0, moment - time.monotonic()))
            break
    os.kill(one.process, signal.SIGKILL)
    status = one.end()
    return one.steps[-1][0] if status == -signal.SIGKILL else ""


def usual(spec: Path, key: Path, out: Path, ledger: Path) -> tuple[dict[str, bytes], dict[str, float]]:
    """The public files of an undisturbed run, and how long each step took."""
    one = Run(spec, key, out, ledger)
    status, ended = one.end(), time.monotonic()
    assert status == 0
    times = [*(began for _, began in one.steps), ended]
    durations = {name: later - began for (name, began), later in zip(one.steps, times[1:], strict=True)}
    return but_for_receipts(out / "town"), durations


def but_for_receipts(root: Path) -> dict[str, bytes]:
    """The public files, without what they say of the ledger: each run has a copy of its own, with times of its own."""
    files = public_bytes(root)
    if "public/manifest.json" in files:
        content = json.loads(files["public/manifest.json"])
        assert {receipt["cost"] for receipt in content.pop("receipts")}
        del content["manifest_sha256"], content["files"]["report.html"], files["public/report.html"]
        files["public/manifest.json"] = json.dumps(content).encode()
    return files


def spent(ledger: Path) -> Fraction:
    """What was charged to all datasets."""
    with Ledger.open(str(ledger), state=Path(f"{ledger}.state")) as opened:
        assert list(opened.verify([])) == []
        return sum((state.spent for state in opened.datasets().values()), Fraction(0))


def main() -> None:
    spec, key, ledger, folder = map(Path, sys.argv[1:5])
    kills, seed = map(int, sys.argv[5:7])
    load_settings()
    level_task.BATCH_OPERATIONS = 1.0  # a batch for each family, so that runs are killed between batches too
    random_ = random.Random(seed)
    shutil.copy(ledger, folder / "usual.sqlite")
    expected, durations = usual(spec, key, folder / "usual", folder / "usual.sqlite")
    charged = spent(folder / "usual.sqlite")
    steps = list(durations)
    first = random_.randrange(len(steps))
    where: list[str] = []
    problems: list[str] = []
    tries = 0
    while len(where) < kills and tries < 3 * kills:
        out, own = folder / str(tries), folder / f"{tries}.sqlite"
        shutil.copy(ledger, own)
        # Far from the one before, so that few kills are spread over all steps; 1 apart, where each has its turn.
        apart = max(1, len(steps) // kills)
        step = steps[(first + tries * apart) % len(steps)]
        tries += 1
        found = killed(Run(spec, key, out, own), step, random_.random() * durations[step])
        if not found:
            continue
        where.append(found)
        status = Run(spec, key, out, own).end()
        if status:
            problems.append(f"killed in {found}: the run that went on ended with {status}")
            continue
        public = but_for_receipts(out / "town")
        for name in sorted(expected.keys() | public.keys()):
            if expected.get(name) != public.get(name):
                problems.append(f"killed in {found}: {name} differs")
        if spent(own) != charged:
            problems.append(f"killed in {found}: {spent(own)} was charged, {charged} is due")
        kept = [path.name for path in (out / "town" / "restricted").rglob("*.npz")]
        if kept:
            problems.append(f"killed in {found}: left behind {kept}")
        shutil.rmtree(out)
    manifest = read_manifest(RunDirectory(folder / "usual" / "town").manifest)
    digest = hashlib.sha256(repr(sorted(expected)).encode()).hexdigest()
    told = {"killed": where, "steps": steps, "problems": problems, "status": manifest.status, "files": digest}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
