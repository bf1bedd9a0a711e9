"""Writes what the small releases hold into tests/golden/stored/: `make golden`, after a change that is meant."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from releases.command import forks

from golden.content import content_of
from golden.releases import RELEASES, SmallRelease

PROJECT: Final = Path(__file__).resolve().parents[2]
STORED: Final = Path(__file__).resolve().parent / "stored"


def held_by(release: SmallRelease, folder: Path) -> dict[str, str]:
    """Make a small release in an empty folder; what its public files hold."""
    release.write(folder)
    release.make(folder, PROJECT, forks())
    return {
        f"{place}: {name}": text
        for place in release.published
        for name, text in content_of(folder / place / "public").items()
    }


def stored(name: str) -> dict[str, str]:
    """What is kept of a small release."""
    found: dict[str, str] = json.loads((STORED / f"{name}.json").read_text("utf-8"))
    return found


def main(names: Sequence[str]) -> None:
    """Write the named ones, or all."""
    for release in RELEASES:
        if not names or release.name in names:
            with tempfile.TemporaryDirectory() as folder:
                text = json.dumps(held_by(release, Path(folder)), indent=0, ensure_ascii=False)
            (STORED / f"{release.name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
