"""What a release will promise, the errors to expect and its cost, before anything is spent."""

from __future__ import annotations

import html
import io
from dataclasses import fields
from pathlib import Path

import pandas as pd

from flows.plan.amounts import AmountsHeld
from flows.plan.caps import RecordsPerUnit
from flows.plan.release_plan import REMARK, Plan, plan_release
from flows.plan.shares.foretold import SharedRow
from flows.plan.shares.guesses import SharesGuess
from flows.plan.show import cost_line, show_plan
from pipeline.cost.model import Cost
from pipeline.errors import InputError
from pipeline.execution.settings import load_settings
from pipeline.execution.workers import default_workers
from spinewise.specs import Spec, as_spec, with_areas

_WIDTH = 120
_ESTIMATORS = ("full", "topdown")


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
    def cost(self) -> Cost:
        """Seconds and memory of a run."""
        return self._plan.fitting.requested

    @property
    def promise(self) -> dict[str, str]:
        """What is guaranteed for each universe, as text."""
        return {universe_plan.universe.name: universe_plan.statement.words for universe_plan in self._plan.universes}

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

    def write_chart(self, path: Path | str) -> None:
        """Write a picture of the errors: .html, .svg or .png (these two need the extra `charts`).

        Raises:
            InputError: the file's type is unknown, or it cannot be written.
        """
        from flows.plan.chart import check_chart, write_chart

        check_chart(Path(path))
        write_chart(Path(path), self._plan, None)

    def __repr__(self) -> str:
        from rich.console import Console

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
        notes = f"<p>{html.escape(REMARK)}</p><p>{html.escape(cost_line(self.cost))}</p>"
        return f"<p><strong>Plan of {name}</strong></p>{promises}{table}{notes}"


def plan(
    spec: Spec | Path | str,
    areas: object = None,
    *,
    estimator: str | None = None,
    workers: int | None = None,
    shares_spread: str | None = None,
    like: Path | str | None = None,
    records_per_unit: str | None = None,
    amounts: str | None = None,
) -> ReleasePlan:
    """What a release will promise, how wrong its numbers will be, and what it will cost. No records are read.

    Args:
        spec: the spec, or the path of its file.
        areas: the public list of areas, in memory or as a path; by default the file that the spec names.
        estimator: "full" or "topdown"; by default the spec's.
        workers: processes of the run whose cost is estimated; by default that of the settings, or all cores.
        shares_spread: a guess of how far areas are from their public shares, as `--shares-spread` of the command.
        like: an earlier release, for errors by size of area, and for how far areas were from the same shares.
        records_per_unit: how many units have how many records, as `--records-per-unit` of the command.
        amounts: how many records, or units, have which amount, as `--amounts` of the command.

    Raises:
        InputError: something in the spec, its public files or the guess is wrong.
    """
    if estimator not in (None, *_ESTIMATORS):
        raise InputError(f"estimator: found {estimator!r}; allowed are {' and '.join(_ESTIMATORS)}")
    count = load_settings(workers=workers).workers or default_workers()
    earlier = None if like is None else Path(like)
    guess = SharesGuess(shares_spread, earlier)
    records = None if records_per_unit is None else RecordsPerUnit.of(records_per_unit)
    stated = with_areas(as_spec(spec), areas)
    held = None if amounts is None else AmountsHeld.of(amounts)
    return ReleasePlan(plan_release(stated, estimator, count, guess, like=earlier, records=records, held=held))
