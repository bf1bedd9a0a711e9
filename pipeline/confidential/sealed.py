"""What a run is made from, sealed with its master key: how a finished run that is started again is recognised.

The seal is a keyed hash over the spec, the bytes of every file that the run reads, and the program. Without the key
nobody can test a guess of the records against it. Sizes and times of files are no part of it: they prove nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from geography.errors import SpinewiseError
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import canonical_json, sha256_file

_LABEL: Final = "what a run is made from"


@dataclass(frozen=True)
class Ingredients:
    """What a release follows from, beside its key.

    Attributes:
        stated: the spec as it is read, how the records are read, and the program; JSON.
        files: all that is read, confidential records among them.
        charged: whether a ledger counts the release.
    """

    stated: str
    files: tuple[Path, ...]
    charged: bool


def seal_of(ingredients: Ingredients, key: MasterKey | None, origin: str) -> str:
    """64 hex digits; "" where there is no key, or not every file can be read.

    Args:
        ingredients: of the run.
        key: its master key.
        origin: where the key is from, see `Keyholder.identity`.
    """
    if key is None or not all(path.is_file() for path in ingredients.files):
        return ""
    try:
        hashes = [sha256_file(path) for path in ingredients.files]
    except OSError:
        return ""
    return key.keyed_hash(_LABEL, canonical_json([origin, ingredients.stated, hashes]))


def is_counted(run: RunDirectory) -> bool:
    """Whether the ledger of the settings is the one that the run was charged in, whole; nothing is charged."""
    from pipeline.execution.settings import load_settings
    from pipeline.privacy.ledger.ledger import Ledger
    from pipeline.privacy.ledger.notes import read_note

    settings = load_settings()
    with suppress(SpinewiseError):
        note = read_note(run.restricted)
        if note is None:
            return False
        with Ledger.open(settings.ledger, state=settings.state) as ledger:
            return not ledger.verify([note])
    return False
