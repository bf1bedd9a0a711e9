"""What the noise of a universe is bound to: its records, by all tables that the release has of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey


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
