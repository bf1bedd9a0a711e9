"""`[published]` in a spec, and what is made of it: numbers that were received, and the method that protected them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from features.published.section import PublishedNumbers, PublishedSection
from geography.spine import Spine
from geography.sums import roll_up
from pipeline.disclosure.method import keys_of
from pipeline.model.draw import ReceivedNoise
from pipeline.model.public_key import public_key
from pipeline.model.query import Query
from pipeline.model.source import ReadStored, Received
from pipeline.model.universe import Universe
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.resolve import UniverseResolver
from pipeline.spec.sections import UniverseSections
from pipeline.spec.slots import FeatureKeys
from postprocess.marginal import refines

if TYPE_CHECKING:
    from features.published.files import PublishedInput
    from pipeline.pages.templates import ReleaseFacts
    from pipeline.spec.release_spec import ReleaseSpec


@dataclass(frozen=True, eq=False)
class ReceivedTables(Received):
    """Tables whose methods are known, so that simulated runs protect the estimate as the office did."""

    def truth_for_simulation(
        self, spine: Spine, read: ReadStored, seed: int, released: Callable[[], sp.csr_array]
    ) -> tuple[sp.csr_array, ...] | None:
        """See `Source.truth_for_simulation`: the released leaves, shaken as the method of their finest table says."""
        del read
        level, _, _ = self.numbers[-1]
        _, _, noise = max((one for one in self.numbers if one[0] == level), key=lambda one: one[1].size)
        if noise.method is None or not noise.method.shakes:
            return None
        leaves, generator = released(), _generator("shaken", seed)
        shaken = noise.method.shaken(leaves.data, generator)
        return tuple(roll_up(spine, sp.csr_array((shaken, leaves.indices, leaves.indptr), shape=leaves.shape)))

    def record_keys(
        self, spine: Spine, seed: int, truth: Callable[[], sp.csr_array]
    ) -> tuple[sp.csr_array, ...] | None:
        """See `Source.record_keys`."""
        if not any(noise.method is not None and noise.method.by_records for _, _, noise in self.numbers):
            return None
        return tuple(roll_up(spine, keys_of(truth(), _generator("keys", seed))))


def _nested(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Of some queries those that refine one another, coarse to fine, without the finest of all."""
    ordered = sorted({query.key: query for query in queries}.values(), key=lambda one: one.size)
    chain: list[Query] = []
    for query in ordered[:-1]:
        if not chain or refines(query, chain[-1]):
            chain.append(query)
    return tuple(chain)


def _generator(purpose: str, seed: int) -> np.random.Generator:
    """Public random numbers."""
    key = int.from_bytes(public_key(f"spinewise published {purpose} 1", seed, "")[:16], "big")
    return np.random.Generator(np.random.Philox(key=key))


class PublishedKeys(FeatureKeys):
    """The section [published]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "provenance"
    receives: ClassVar[bool] = True
    stand_for: ClassVar[tuple[str, ...]] = ("strategy",)
    section: ClassVar[tuple[str, str]] = ("features.published", "published.html.j2")

    received: PublishedSection | None = Field(
        default=None,
        alias="published",
        description="tables that others published and protected number by number, in place of records",
    )

    @classmethod
    def implied(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `FeatureKeys.implied`: nothing is measured here."""
        return {"strategy": {}, **content}

    @property
    def stated(self) -> PublishedSection:
        """The section, of a spec that states it."""
        assert self.received is not None
        return self.received

    def source(self, scope: UniverseResolver) -> ReceivedTables | None:
        """See `Kind.source`: what is not exact."""
        before, tables = len(scope.problems.lines), {}
        for name, table in (scope.sections.tables or {}).items():
            with scope.problems.noted():
                tables[name] = Query.parse(table.query, scope.schema, where=dotted(["tables", name, "query"]))
        numbers = self.stated.numbers(scope.level_names, tables, scope.problems.at("published"))
        found = tuple(
            (one.level, one.query, ReceivedNoise(one.method.variance, one.method)) for one in numbers if one.method
        )
        return ReceivedTables("published", found) if len(scope.problems.lines) == before else None

    def placed(self, universe: Universe, sections: UniverseSections, problems: Problems) -> Universe:
        """See `Kind.placed`: what was published without protection is exact, and coarse tables are solved first.

        The numbers of a coarse table are more certain than the sums of a fine one, and are lost where whole numbers are
        found in one pass.
        """
        found = self.numbers(universe, problems)
        exact = tuple((one.level, one.query) for one in found if one.method is None)
        stated = "passes" in cast("ReleaseSpec", sections).postprocess.model_fields_set
        passes = universe.passes if stated else _nested(one.query for one in found)
        return replace(universe, invariants=exact, passes=passes)

    def numbers(self, universe: Universe, problems: Problems | None = None) -> tuple[PublishedNumbers, ...]:
        """What was published, top level first."""
        tables = {table.name: table.query for table in universe.tables}
        return self.stated.numbers(universe.level_names, tables, problems or Problems(""))

    def public_inputs(self) -> tuple[PublishedInput]:
        """See `Kind.public_inputs`: the files."""
        from features.published.files import PublishedInput  # brings the readers

        return (PublishedInput(self.stated.files, self.numbers),)

    def shown(self, facts: ReleaseFacts) -> dict[str, Any]:
        """See `Kind.shown`."""
        from features.published.shown import published_view

        return published_view(facts, self.stated, self.numbers(facts.universes[0]))
