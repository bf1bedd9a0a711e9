"""Keyed fingerprints of the records: what noise is bound to, and what a release says of key and records in public."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.manifest import KeyStatement
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256


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
