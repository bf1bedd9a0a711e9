"""Faults planted in what is done with amounts: the clip, and how far one record, or one unit, moves a sum."""

from __future__ import annotations

from typing import Any

import pipeline.privacy.ledger.charge
import pipeline.records.units
from pipeline.model.schema import AmountAttribute
from pipeline.model.universe import Universe
from pipeline.privacy.units import kept_records
from releases.mutant import Mutant, Patch, attribute, mutant


def _unclipped(patch: Patch) -> None:
    """Every amount counts as much as it is."""
    patch.setattr(AmountAttribute, "number_of", lambda self, amount: round((amount - self.low) / self.unit))


def _uncounted_units(patch: Patch) -> None:
    """The noise of sums is that of counts: a record moves them by one."""
    patch.setattr(Universe, "reach", property(lambda self: 1))  # noqa: ARG005


def _the_larger_end(patch: Patch) -> None:
    """A record that turns a loss into a gain within its cell moves a sum by more than either end."""
    larger = property(lambda self: max([1, *(end for one in self.measure.amounts for end in (-one.first, one.last))]))
    patch.setattr(Universe, "reach", larger)


def _one_record_of_several(patch: Patch) -> None:
    """The noise of sums is that of one record, and a unit has several."""
    sound = vars(Universe)["record_budget"].fget
    one = property(lambda self: self.budget if self.measure.amounts else sound(self))
    patch.setattr(Universe, "record_budget", one)


def _all_summed(patch: Patch) -> None:
    """The cap is kept to in counts alone."""
    sound = kept_records

    def kept(units: Any, cells: Any, names: Any, at_most: int, keyed: Any, beside: Any = ()) -> Any:
        return sound(units, cells, names, 10**9 if beside else at_most, keyed, beside)

    patch.setattr(pipeline.records.units, "kept_records", kept)


AMOUNTS: tuple[Mutant, ...] = (
    mutant("amounts are not clipped before they are summed", "s", on="amounts", plant=_unclipped),
    mutant("the noise of sums is that of counts, whatever one record adds", "sa", on="amounts", plant=_uncounted_units),
    mutant("sums of losses and gains get the noise of the larger end", "s", on="balances", plant=_the_larger_end),
    mutant(
        "the ledger is not told how far one record moves a sum",
        "sv",
        on="amounts ledger",
        plant=attribute(pipeline.privacy.ledger.charge, "by_up_to", lambda _: ""),
    ),
    mutant("sums of several records of a unit get the noise of one", "s", on="jobs", plant=_one_record_of_several),
    mutant(
        "the ledger is not told how many records of a unit are summed",
        "sv",
        on="jobs ledger",
        plant=attribute(pipeline.privacy.ledger.charge, "per_person", lambda _: ""),
    ),
    mutant(
        "a unit's amounts are not taken down to the ends of its total",
        "i",
        on="installed",
        plant=attribute(pipeline.records.units, "within_ends", lambda units, amounts, low, high: amounts),  # noqa: ARG005
    ),
    mutant("all records of a unit are summed, and not as many as are counted", "i", on="installed", plant=_all_summed),
)
