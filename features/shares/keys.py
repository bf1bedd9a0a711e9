"""`[postprocess.shares]` in a spec, and what is made of the public shares of a universe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import Field

from features.shares.public_share import Shares, SharesSection
from pipeline.model.schema import Schema
from pipeline.model.universe import Universe
from pipeline.spec.fields import Name, NamedTable
from pipeline.spec.problems import Problems
from pipeline.spec.slots import FeatureKeys

if TYPE_CHECKING:
    from features.shares.files import SharesInput
    from pipeline.estimation.constraints import Knowledge, Results
    from pipeline.estimation.expectation import Expectation
    from pipeline.execution.job import Job
    from pipeline.metadata.products import Product
    from pipeline.pages.templates import ReleaseFacts


class SharedByNumbers(Shares):
    """Public shares, as those ask for them who use a universe's facts."""

    template = ("features.shares", "shared.html.j2")

    def knowledge(self, job: Job, universe: Universe, results: Results) -> Knowledge:
        """See `PublicFact.knowledge`."""
        from features.shares.knowledge import PublicShares  # brings the solvers

        return PublicShares(job, universe, self.shares, results)

    def view(self, facts: ReleaseFacts) -> list[dict[str, Any]]:
        """See `PublicFact.view`: of each share, level and answer how far areas of usual size are from their share.

        That size is 100 expected persons, and the standard deviation `sqrt(tau^2 (100 + a 100^2))`; `own` is that of
        what is measured of an area, None where nothing is.
        """
        rows = []
        for share in self.shares:
            for level in share.levels:
                notes = cast("dict[str, Any]", facts.notes.get(f"estimate {level}", {}))
                for answer, found in notes.get("shares", {}).get(share.name, {}).items():
                    row = {"name": share.name, "columns": ", ".join(share.distinct_columns), "level": level}
                    spread = (found["tau2"] * (100.0 + found["a"] * 100.0**2)) ** 0.5
                    own = None if found["noise"] is None else found["noise"] ** 0.5
                    rows.append({**row, "answer": answer, "spread": spread, "own": own})
        return rows

    def foretold(self, expectation: Expectation, like: Path) -> tuple[dict[str, Any], ...]:
        """See `PublicFact.foretold`."""
        from features.shares.forecast import guesses_like, shared_rows

        guesses = guesses_like(like, self.shares)
        return shared_rows(self.shares, expectation, expectation.planned(), guesses) if guesses else ()


class SharesKeys(FeatureKeys):
    """The key `shares` of [postprocess]."""

    slot: ClassVar[str] = "postprocess"
    after: ClassVar[str] = "seed"

    shares: NamedTable[Name, SharesSection] | None = Field(
        default=None, description="public numbers by which persons are shared among the areas of a parent, by name"
    )

    def facts(self, schema: Schema, level_names: Sequence[str], problems: Problems) -> tuple[SharedByNumbers, ...]:
        """See `Kind.facts`."""
        from features.shares.public_share import resolve_shares

        found = resolve_shares(self.shares or {}, schema, level_names, problems.at("shares"))
        return (SharedByNumbers(found),) if found else ()

    def public_inputs(self) -> tuple[SharesInput, ...]:
        """See `Kind.public_inputs`."""
        from features.shares.files import SharesInput

        return (SharesInput(named=bool(self.shares)),)

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `Kind.products`."""
        from features.shares.files import SHARES

        return (SHARES,)
