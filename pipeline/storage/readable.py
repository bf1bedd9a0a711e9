"""Which files of a release may be read: those that are what its manifest says, and those that nothing is said of.

What opens a file of a release takes a `Readable`, and no path. `PublishedFiles.unchanged` gives one of each file of a
finished release; a run gives one of each file of its own. `unchecked` gives one of any path: a test of the project
names every place that calls it, with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import NewType

#: The path of a file that may be read as it is.
Readable = NewType("Readable", Path)


def unchecked(path: Path) -> Readable:
    """A file that is read without comparing it with a manifest."""
    return Readable(path)
