"""Whether each clique of a release of marginals has the part of every level's budget that the spec states for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from auditor.findings import Found, holds
from auditor.form import Form
from auditor.reading.errors import FormError
from auditor.release import Release


def parts_findings(release: Release) -> Iterator[Found]:
    """What each clique costs at each level, by the universes, against `[marginals]`; nothing of other releases."""
    if release.manifest["spec"].get("marginals") is not None:
        yield holds("statements", "parts of the budget", parts_problems(release.form, release.manifest["spec"]))


def parts_problems(form: Form, spec: Mapping[str, Any]) -> list[str]:
    """Cliques that have another part of what all have at a level, or are measured elsewhere, twice or not at all."""
    section = spec["marginals"]
    try:
        cliques = [frozenset(map(str, clique)) for clique in section["cliques"]]
        of = {**dict.fromkeys(cliques, 1), **_parts(section.get("parts"))}
        at = {str(level): {**of, **_parts(stated)} for level, stated in section.get("parts_at") or ()}
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FormError(f"public/manifest.json: its [marginals] cannot be understood: {error}") from error
    problems = []
    for level in form.levels:
        spent: dict[frozenset[str], Fraction] = {}
        for universe in form.universes:
            own = universe.budget - (Fraction(0) if universe.cliques is None else universe.cliques.cost)
            for name, share, queries in universe.levels:
                for query, part in queries if name == level and share else ():
                    clique = frozenset(query.names)
                    if clique in spent:
                        problems.append(f"{query.name} is measured twice at {level}")
                    spent[clique] = own * share * part
        due, whole = at.get(level, of), sum(spent.values(), Fraction(0))
        for clique in [*due, *(one for one in spent if one not in due)]:
            found, stated = spent.get(clique, Fraction(0)), due.get(clique, 0)
            if found * sum(due.values()) != stated * whole:
                problems.append(
                    f"{' * '.join(sorted(clique))} has {found} of the {whole} of all cliques at {level}; its part is "
                    f"{stated} of {sum(due.values())}"
                )
    return problems


def _parts(stated: Any) -> dict[frozenset[str], int]:
    return {frozenset(term.strip() for term in text.split("*")): int(part) for text, part in stated or ()}
