"""Makes a version of a release and kills itself: `python -m releases.killed_update RELEASE ANSWER OUT EVENT NUMBER`.

EVENT is "start" or "finish" of a step, or "sync", a write to the disk, as in `releases.killed`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.runs.updates.update import update_release
from releases.command import environment
from releases.killed import Killer

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


def kill_update(release: Path, answer: Path, out: Path, event: str, number: int) -> bool:
    """Update in another process and be killed; False if it ended before."""
    words = [str(word) for word in (release, answer, out, event, number)]
    command = [sys.executable, "-m", "releases.killed_update", *words]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def main() -> None:
    release, answer, out, event, number = sys.argv[1:]
    killer = Killer(event, int(number))
    sync = os.fsync

    def counted(file: FileDescriptorLike) -> None:
        killer.happens("sync")
        sync(file)

    os.fsync = counted  # type: ignore[assignment]
    update_release(Path(release), [Path(answer)], Path(out), 1, killer)


if __name__ == "__main__":
    main()
