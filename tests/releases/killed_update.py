"""Makes a version of a release and kills itself: `python -m releases.killed_update RELEASE GIVEN OUT EVENT NUMBER`.

GIVEN is an answer, or a TOML file of corrected texts.

EVENT is "start" or "finish" of a step, or "sync", a write to the disk, as in `releases.killed`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.runs.updates import update_release
from releases.command import module_in_a_fork
from releases.killed import Killer

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


def kill_update(release: Path, given: Path, out: Path, event: str, number: int) -> bool:
    """Update in a process of its own and be killed; False if it ended before."""
    ended = module_in_a_fork("releases.killed_update", release, given, out, event, number, timeout=120)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def main() -> None:
    release, given, out, event, number = sys.argv[1:]
    killer = Killer(event, int(number))
    sync = os.fsync

    def counted(file: FileDescriptorLike) -> None:
        killer.happens("sync")
        sync(file)

    os.fsync = counted  # type: ignore[assignment]
    texts = Path(given) if given.endswith(".toml") else None
    update_release(Path(release), [] if texts else [Path(given)], Path(out), 1, killer, texts=texts)


if __name__ == "__main__":
    main()
