"""A plan as Python users have it: tables of its figures, and how it shows itself; `spinewise.plans` makes it."""

from __future__ import annotations

import html
import io
from dataclasses import fields
from pathlib import Path

import pandas as pd
from rich.console import Console

from features.plan.kinds import SharedRow
from features.plan.release_plan import REMARK, plan_release
from features.plan.show import memory_line, show_plan
from pipeline.cost.memory import Memory
from pipeline.spec.release_spec import ReleaseSpec

_WIDTH = 120


class ReleasePlan:
    """The plan of a release; it shows itself in a terminal and in a notebook."""

    def __init__(self, spec: ReleaseSpec, workers: int, like: Path | None) -> None:
        """The plan of a spec; arguments and errors as for `plan_release`."""
        self._plan = plan_release(spec, workers, like)

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
        """What shares from public counts do to errors and budget, one row per share and level of an earlier release.

        Columns: name, level, query, geounits, answers, without and error (expected absolute error of a shared answer,
        in persons, without shares and with them), budget, needed_without (the budget that gives `error` without shares)
        and enough (that gives `without` with them).
        """
        return pd.DataFrame([vars(row) for row in self._plan.shared], columns=[f.name for f in fields(SharedRow)])

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
