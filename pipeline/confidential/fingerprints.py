"""Keyed hashes: of the records, to which noise is bound, and of all that a run is made from, by which it is recognised.

Of the records, `key_statement` has what a release says in public of them and of the key.

The seal of a run is a keyed hash over the spec, the bytes of every file that the run reads, and the program: so a
finished run that is started again is recognised. Without the key nobody can test a guess of the records against it.
Sizes and times of files are no part of it: they prove nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from geography.errors import SpinewiseError
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import canonical_json, json_sha256, sha256_file


def release_salt(key: MasterKey, spec: ReleaseSpec) -> str:
    """The public salt of the release that the spec states, as published; the same run has the same one."""
    return key.release_salt(f"{spec.name}/{json_sha256(spec.public_dict())}")


def key_statement(key: MasterKey, salt: str, fingerprints: Mapping[str, str]) -> KeyStatement:
    """Commitment and fingerprints, salted.

    Args:
        key: the run's master key.
        salt: from `release_salt`; "" for a release that was made before there were salts.
        fingerprints: universe -> of its records, keyed, from `bound_fingerprints`.
    """
    published = {name: key.published_fingerprint(salt, name, one) for name, one in fingerprints.items()}
    return KeyStatement(salt, key.commitment(salt), published)


def bound_fingerprints(
    key: MasterKey, universes: Sequence[Universe], fingerprints: Mapping[str, str]
) -> dict[str, str]:
    """Universe -> keyed fingerprint of its records, on which noise, charges and what is published depend.

    Universes that are tables of the same records (cliques, counts and amounts) have one: over the fingerprints of all
    of them, and over that of the tables by which cliques were chosen. If each had that of its own table, the numbers
    that stay the same under one key would show which tables do not change when a record does.

    Args:
        key: the run's master key.
        universes: all of the release, its own first.
        fingerprints: universe -> of its own table, keyed.
    """
    names = sorted(one.name for one in universes if one.own_records or not one.name)
    drawn_from = [one.earlier.records for one in universes if one.earlier is not None]
    if len(names) < 2 and not drawn_from:
        return dict(fingerprints)
    content = json.dumps([[[name, fingerprints[name]] for name in names], drawn_from])
    return {**fingerprints, **dict.fromkeys(names, key.keyed_hash("input of all tables", content.encode()))}


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
