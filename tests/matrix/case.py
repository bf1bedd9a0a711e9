"""What a kind of release states for the matrix: small releases, what is true of their numbers, and what is refused.

A kind has its own in `tests/features/KIND/cases.py`: `CASES`, a sequence of `Case`, and `REFUSALS`, of `Refusal`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from releases.forked import Forks

#: Arguments of one command.
Command = tuple[str, ...]

#: Finds its module when a process of a release starts; the file that it writes.
HOOKS: Final = Path(__file__).resolve().parent / "hooks"
STREAMS: Final = "streams"
#: Variable of a command that is killed and started again: how often it was started.
ATTEMPT: Final = "MATRIX_ATTEMPT"
#: The file of a key that is always the same and no test key; see `write_key`.
KEY: Final = "key"


@dataclass(frozen=True)
class Case:
    """Inputs, the commands that make publications of them, where these are, and what is true of them.

    Attributes:
        name: of it, which no other has.
        write: writes the inputs into a folder.
        commands: run one after the other in that folder.
        published: the directories with a public/ folder, as paths in that folder; the last one is looked at.
        expect: asserts what must be true of its numbers, given the folder: against the truth, or by hand.
        charged: whether a ledger is charged, whose clock and identity differ from run to run.
        full: it goes through every column of the matrix; one of each kind does.
        without: column -> why the case has it not.
    """

    name: str
    write: Callable[[Path], object]
    commands: tuple[Command, ...]
    published: tuple[str, ...]
    expect: Callable[[Path], None] | None = None
    charged: bool = False
    full: bool = False
    without: Mapping[str, str] = field(default_factory=dict)

    def make(self, folder: Path, project: Path, forks: Forks, way: str = "") -> int:
        """Run the commands, after `write`, with the packages of a checkout, which `forks` has loaded.

        Args:
            folder: with the inputs.
            project: the checkout.
            forks: to run in.
            way: of `matrix.altered`; a command that is killed is started again until it ends.

        Returns:
            How often a command was killed.

        Raises:
            CalledProcessError: one fails; its notes say what it printed.
        """
        kills = 0
        for command in self.commands:
            words = ["matrix.altered", way, *command] if way else ["flows.cli", *command]
            for attempt in count(1):
                variables = {**environment_of(folder, project), ATTEMPT: str(attempt)}
                done = forks.run(words, variables, folder, timeout=900)
                if way != "killed" or done.returncode != -signal.SIGKILL:
                    break
                kills += 1
            try:
                done.check_returncode()
            except subprocess.CalledProcessError as error:
                error.add_note(f"{done.stdout}\n{done.stderr}")
                raise
        return kills

    def streams(self, folder: Path) -> list[str]:
        """A line for each stream of noise that was drawn from, by `hooks/sitecustomize.py`."""
        path = folder / STREAMS
        return path.read_text("utf-8").splitlines() if path.exists() else []


@dataclass(frozen=True)
class Refusal:
    """A change of a case's spec or files that is refused before anything is drawn, charged or written.

    Attributes:
        case: name of the case.
        change: (text of the spec, what stands in its place); or what changes files in the folder with the inputs.
        told: what the one message says: the file, key, row or geounit; what was found; what is allowed.
        command: that refuses it; the case's last one where it is empty.
        status: its exit status; 3 where the budget is not enough.
    """

    case: str
    change: tuple[str, str] | Callable[[Path], object]
    told: tuple[str, ...]
    command: Command = ()
    status: int = 2

    @property
    def id(self) -> str:
        """What a test calls it."""
        return f"{self.case}: {self.told[0]}, {self.told[1] if len(self.told) > 1 else ''}"


def environment_of(folder: Path, project: Path) -> Mapping[str, str]:
    """What a case's commands are given: a ledger of its own, and where streams are written down."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPINEWISE_")}
    place = {"SPINEWISE_LEDGER": str(folder / "ledger.sqlite"), "SPINEWISE_STATE": str(folder / "state")}
    noted = {"GOLDEN_STREAMS": str(folder / STREAMS), "PYTHONPATH": os.pathsep.join([str(HOOKS), str(project)])}
    return {**own, **place, **noted, "COLUMNS": "100"}


def run_of(spec: str, out: str = "out", *more: str) -> Command:
    """The command that runs a spec."""
    return ("--quiet", "run", spec, "--out", out, "--no-prefect", "--workers", "1", *more)


def opened(dataset: str, rho: str) -> Command:
    """The command that opens a dataset of the ledger."""
    return ("ledger", "open", dataset, "--rho", rho, "--population", "made up")


def released(
    name: str,
    write: Callable[[Path], object],
    spec: str,
    out: str,
    *,
    expect: Callable[[Path], None] | None = None,
    full: bool = False,
    without: Mapping[str, str] | None = None,
) -> Case:
    """The release of one spec, with an insecure key of its own."""
    return Case(name, write, (run_of(spec),), (f"out/{out}",), expect, full=full, without=without or {})


def write_key(folder: Path) -> None:
    """Write a key that is always the same and no test key."""
    path = folder / KEY
    secret = hashlib.sha256(b"the key of the golden releases").hexdigest()
    path.write_text(f"spinewise-master-key-1 {secret}\n", encoding="ascii")
    path.chmod(0o600)
