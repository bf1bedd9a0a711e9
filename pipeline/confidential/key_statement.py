"""What a release says of its key and its records, in public."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.privacy.keys import MasterKey
from pipeline.release.key_statement import KeyStatement
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
