"""Faults planted in what is done with amounts: the clip, and how far one record, or one unit, moves a sum."""

from __future__ import annotations

import pipeline.privacy.ledger.charges
import pipeline.records.tabulate
from releases.mutant import Mutant, attribute, mutant
from releases.tested_mutants import text

_CHARGED = "pipeline.privacy.ledger.charges:charge_for"
_REACH, _OF_RECORD = "pipeline.model.universe:Universe.reach", "self.measure.reach(self.neighbours)"
_LARGER_END = "max([1, *(end for one in self.measure.amounts for end in (-one.first, one.last))])"
_KEPT = "records.at_most, keyed, found.beside"

AMOUNTS: tuple[Mutant, ...] = (
    mutant("amounts are not clipped before they are summed", "s", on="amounts", plant=text(
        "pipeline.model.schema:AmountAttribute.number_of", "min(max(amount, self.low), self.high)", "amount")),
    mutant("the noise of sums is that of counts, whatever one record adds", "sa", on="amounts",
           plant=text(_REACH, _OF_RECORD, "1")),
    mutant("sums of losses and gains get the noise of the larger end", "s", on="balances",
           plant=text(_REACH, _OF_RECORD, _LARGER_END)),
    mutant("the ledger is not told how far one record moves a sum", "sv", on="amounts ledger",
           plant=text(_CHARGED, "reach=universe.reach", "reach=1")),
    mutant("sums of several records of a unit get the noise of one", "s", on="jobs", plant=text(
        "pipeline.model.universe:Universe.record_budget",
        "return ", "return self.budget if self.measure.amounts else ")),
    mutant("the ledger is not told how many records of a unit are summed", "sv", on="jobs ledger",
           plant=text(_CHARGED, "records=universe.unit.records", "records=1")),
    mutant("a unit's amounts are not taken down to the ends of its total", "i", on="installed",
           plant=attribute(pipeline.records.tabulate, "within_ends", lambda units, amounts, low, high: amounts)),  # noqa: ARG005
    mutant("all records of a unit are summed, and not as many as are counted", "i", on="installed", plant=text(
        "pipeline.records.tabulate:tabulate_units", _KEPT, f"10**9 if found.beside else {_KEPT}")),
)  # fmt: skip
