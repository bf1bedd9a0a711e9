"""Writes what the small releases hold into tests/matrix/stored/: `make golden`, after a change that is meant.

A change of the form of files needs no more; numbers and streams of noise that are other than they were are written with
`--numbers` alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from releases.command import forks

from matrix.case import Case
from matrix.cases import CASES
from matrix.content import content_of, differences, is_form, streams_of

#: What of a manifest follows from the hash of an event of the ledger, where a choice is named by its event.
_OF_ITS_EVENT: Final = ("spec.marginals.chosen", "key_salt", "key_commitment", "input_fingerprints")
PROJECT: Final = Path(__file__).resolve().parents[2]
STORED: Final = Path(__file__).resolve().parent / "stored"


def held_by(case: Case, folder: Path) -> dict[str, str]:
    """What the public files of a small release hold, which was made in a folder; and the streams of its noise."""
    files = {
        f"{place}: {name}": text
        for place in case.published
        for name, text in content_of(folder / place / "public").items()
    }
    if any("spec.marginals.chosen" in name for name in files):
        files = {name: text for name, text in files.items() if not any(one in name for one in _OF_ITS_EVENT)}
    return files | streams_of(case.streams(folder))


def stored(name: str) -> dict[str, str]:
    """What is kept of a small release."""
    found: dict[str, str] = json.loads((STORED / f"{name}.json").read_text("utf-8"))
    return found


def main(arguments: Sequence[str]) -> int:
    """Write the named ones, or all; 1 if numbers are other than they were, and these were not to be."""
    names = [one for one in arguments if one != "--numbers"]
    other: list[str] = []
    for case in CASES:
        if names and case.name not in names:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            case.write(folder)
            case.make(folder, PROJECT, forks())
            held = held_by(case, folder)
        path = STORED / f"{case.name}.json"
        before = stored(case.name) if path.exists() else held
        moved = differences(*({name: one[name] for name in one if not is_form(name)} for one in (before, held)))
        if moved and "--numbers" not in arguments:
            other += [f"{case.name}: {sentence}" for sentence in moved]
        else:
            path.write_text(json.dumps(held, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    if other:
        sys.stderr.write("\n".join([*other, "numbers are other than they were; if that is meant: --numbers", ""]))
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
