"""A plan as Python users have it: tables of its figures, and how it shows itself; `spinewise.plans` makes it."""

from __future__ import annotations

import html
import io
from dataclasses import fields
from pathlib import Path

import pandas as pd
from rich.console import Console

from features.plan.amounts import AmountsHeld
from features.plan.caps import RecordsPerUnit
from features.plan.release_plan import REMARK, Plan, plan_release
from features.plan.shares import SharedRow, SharesGuess
from features.plan.show import memory_line, show_plan
from pipeline.cost.memory import Memory
from pipeline.spec.release_spec import ReleaseSpec

_WIDTH = 120


class ReleasePlan:
    """The plan of a release; it shows itself in a terminal and in a notebook."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def errors(self) -> pd.DataFrame:
        """The errors to expect, one row per universe, level and query.

        Columns: universe ("" is the release's own), level, query, geounits, numbers (of the query in a geounit), share
        (of the whole budget, exact text; empty where the query is not measured), sigma (of the noise on a number),
        per_number and per_geounit (expected absolute error of a number, and added up over the numbers of a geounit) and
        margin90 (half the width of a 90 % interval). Persons; NaN where the measurements do not determine a number.
        """
        rows = [
            {"universe": universe_plan.universe.name, **vars(row)}
            for universe_plan in self._plan.universes
            for row in universe_plan.rows
        ]
        frame = pd.DataFrame(rows)
        return frame.astype(dict.fromkeys(("sigma", "per_number", "per_geounit", "margin90"), float))

    @property
    def memory(self) -> Memory:
        """What a run takes at most."""
        return self._plan.fitting.requested

    @property
    def promise(self) -> dict[str, str]:
        """What is guaranteed for each universe, as text."""
        return {one.universe.name: one.statement.words for one in self._plan.universes}

    @property
    def shares(self) -> pd.DataFrame:
        """What shares from public counts do to the errors and the budget, one row per share and level with a guess.

        Columns: name, level, query, geounits, answers, without and error (expected absolute error of a shared answer,
        in persons, without shares and with them), budget, needed_without (the budget that gives `error` without shares)
        and enough (that gives `without` with them).
        """
        return pd.DataFrame([row.data() for row in self._plan.shared], columns=[f.name for f in fields(SharedRow)])

    @property
    def caps(self) -> pd.DataFrame:
        """What caps on the records of a unit cost, one row per cap and level; empty where the records have no units.

        Columns: at_most, level, error (expected absolute error of a count by noise), left_out (share of the records
        that are not counted, NaN where nothing is known of them) and missing (records of an area not counted).
        """
        rows = [
            (row.at_most, level, error, row.left_out, row.missing.get(level))
            for row in self._plan.caps
            for level, error in row.errors.items()
        ]
        frame = pd.DataFrame(rows, columns=["at_most", "level", "error", "left_out", "missing"])
        return frame.astype({"left_out": float, "missing": float})

    @property
    def ends(self) -> pd.DataFrame:
        """What upper ends of amounts cost, one row per amount, end and level; empty unless `amounts` was given.

        Columns: companion, high, level, error (expected absolute error of a sum by noise), cut_off (share of all
        amounts that the ends cut off) and missing (what is cut off in an area, NaN where shares alone were given).
        """
        rows = [
            (row.companion, row.high, level, error, row.cut_off, row.missing.get(level))
            for row in self._plan.ends
            for level, error in row.errors.items()
        ]
        frame = pd.DataFrame(rows, columns=["companion", "high", "level", "error", "cut_off", "missing"])
        return frame.astype({"missing": float})

    def __repr__(self) -> str:
        text = io.StringIO()
        show_plan(self._plan, Console(file=text, width=_WIDTH, highlight=False, markup=False))
        return text.getvalue().rstrip()

    def _repr_html_(self) -> str:
        name = html.escape(self._plan.spec.name)
        promises = "".join(
            f"<p>{html.escape(f'Companion {universe}. ' if universe else '')}{html.escape(statement)}</p>"
            for universe, statement in self.promise.items()
        )
        columns = [name for name in self.errors.columns if name != "universe" or len(self._plan.universes) > 1]
        table = self.errors[columns].to_html(index=False, na_rep="", float_format="{:,.2f}".format, border=0)
        notes = f"<p>{html.escape(REMARK)}</p><p>{html.escape(memory_line(self.memory))}</p>"
        return f"<p><strong>Plan of {name}</strong></p>{promises}{table}{notes}"


def planned(
    spec: ReleaseSpec,
    estimator: str | None,
    workers: int,
    *,
    shares_spread: str | None,
    like: Path | None,
    records_per_unit: str | None,
    amounts: str | None,
) -> ReleasePlan:
    """The plan of a release, from what is known of its records as the command's options say it.

    Raises:
        InputError: something in the spec, its public files or a guess is wrong.
    """
    guess = SharesGuess(shares_spread, like)
    records = None if records_per_unit is None else RecordsPerUnit.of(records_per_unit)
    held = None if amounts is None else AmountsHeld.of(amounts)
    return ReleasePlan(plan_release(spec, estimator, workers, guess, like=like, records=records, held=held))
