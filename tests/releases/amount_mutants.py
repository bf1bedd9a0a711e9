"""Faults planted in what is done with amounts: the clip, and how far one record moves a sum."""

from __future__ import annotations

import pipeline.privacy.ledger.charge
from pipeline.model.schema import AmountAttribute
from pipeline.model.universe import Universe
from releases.mutant import Mutant, Patch, attribute, mutant


def _unclipped(patch: Patch) -> None:
    """Every amount counts as much as it is."""
    patch.setattr(AmountAttribute, "number_of", lambda self, amount: round((amount - self.low) / self.unit))


def _uncounted_units(patch: Patch) -> None:
    """The noise of sums is that of counts: a record moves them by one."""
    patch.setattr(Universe, "reach", property(lambda self: 1))  # noqa: ARG005


def _the_larger_end(patch: Patch) -> None:
    """A record that turns a loss into a gain within its cell moves a sum by more than either end."""
    larger = property(lambda self: 1 if self.amount is None else max(-self.amount.first, self.amount.last))
    patch.setattr(Universe, "reach", larger)


AMOUNTS: tuple[Mutant, ...] = (
    mutant("amounts are not clipped before they are summed", "s", on="amounts", plant=_unclipped),
    mutant("the noise of sums is that of counts, whatever one record adds", "s", on="amounts", plant=_uncounted_units),
    mutant("sums of losses and gains get the noise of the larger end", "s", on="balances", plant=_the_larger_end),
    mutant(
        "the ledger is not told how far one record moves a sum",
        "sa",
        on="amounts ledger",
        plant=attribute(pipeline.privacy.ledger.charge, "by_up_to", lambda _: ""),
    ),
)
