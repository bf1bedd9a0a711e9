"""A plan on the terminal: in a few lines, or with every query and level; and what another division makes worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from features.plan.best import Best
from features.plan.kinds import RECORDS, SHARE_ERROR, LocalRow, names_of_shares, words_of_joins
from features.plan.release_plan import REMARK, PlannedRelease, UniversePlan, error_text, levels_line
from features.plan.sizes import UNKNOWN
from pipeline.cost.memory import Fitting, Memory, counted_workers, gigabytes
from pipeline.execution.console import table_of
from pipeline.model.exact import exact_text
from pipeline.model.labels import Labels, beside
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.privacy.limits import beyond_limits
from pipeline.release.area_sizes import SIZE_LABELS
from pipeline.spec.release_spec import ReleaseSpec

#: Errors that become larger, or smaller, by less are not told.
_NOTICED = 0.005
#: Numbers that are named of those that become worse.
_NAMED = 6


@dataclass(frozen=True, eq=False)
class CalledInPlan:
    """What a plan calls queries: their labels stand beside their names.

    Attributes:
        labels: that the spec states.
        schema: what queries are about.
    """

    labels: Labels
    schema: Schema

    @classmethod
    def of(cls, spec: ReleaseSpec, universe: Universe) -> CalledInPlan:
        """The words of a universe of a spec."""
        return cls(spec.labels(universe.name), universe.schema)

    def beside_query(self, name: str) -> str:
        """The name of a query, with labels where any is stated of what it is by."""
        terms = Query.parse(name, self.schema).terms
        stated = any(term in self.labels.attributes for term in terms)
        return beside(name, " * ".join(map(self.labels.attribute, terms))) if stated else name


def show_summary(plan: PlannedRelease, console: Console) -> None:
    """The plan in some six lines; of a companion two more."""
    console.print(levels_line(plan), soft_wrap=True)
    console.print(f"Budget: {_budget(plan.universes)}; {plan.promise}.", soft_wrap=True)
    if plan.undecided:
        console.print(plan.undecided, soft_wrap=True)
    for each in plan.universes:
        for line in _bought(each, CalledInPlan.of(plan.spec, each.universe)):
            console.print(line, soft_wrap=True)
    held = [one for each in plan.universes for one in each.universe.invariants]
    if exact := dict.fromkeys(f"{query.name} of every {level}" for level, query in held):
        console.print(f"Published exactly (not protected): {', '.join(exact)}.", soft_wrap=True)
    _show_beyond(plan, console)


def _show_beyond(plan: PlannedRelease, console: Console) -> None:
    for one in beyond_limits([each.universe for each in plan.universes]):
        console.print(f"Beyond the usual limits, refused without --i-know: {one}.", soft_wrap=True)


def _budget(plans: Sequence[UniversePlan]) -> str:
    texts = []
    for plan in plans:
        universe = plan.universe
        if universe.framework != "local":
            name = BUDGET_NAMES[universe.framework]
            texts.append(f"{name} = {exact_text(universe.budget)}{f' of {universe.name}' if universe.name else ''}")
    return ", ".join(texts) or "each respondent's own"


def _bought(plan: UniversePlan, called: CalledInPlan) -> list[str]:
    """What the budget buys, of the coarsest and of the most detailed numbers: the mean error of one at each level."""
    what = _unit(plan.universe)
    kinds = sorted({row.query: row.numbers for row in plan.rows}.items(), key=lambda one: one[1])
    chosen = dict.fromkeys([kinds[0][0], kinds[-1][0]]) if kinds else {}
    lines = []
    for query in chosen:
        errors = [
            f"{row.level} {error_text(row.per_number, given_by=row.given_by)}"
            for row in plan.rows
            if row.query == query
        ]
        of = f"{plan.universe.name}: " if plan.universe.name else ""
        lines.append(f"Mean error of one number of {of}{called.beside_query(query)}, in {what}: {', '.join(errors)}")
    return lines


def show_changes(own: UniversePlan, best: Best, console: Console) -> None:
    """Which numbers the division that was found makes worse than the spec's, and how much; and how many better."""
    before = {(row.level, row.query): row.per_number for row in own.rows}
    worse, better = [], 0
    for row in best.planned.rows:
        old, new = before.get((row.level, row.query)), row.per_number
        if old and new and new > old * (1 + _NOTICED):
            worse.append((new / old, f"{row.level} {row.query} from {old:,.2f} to {new:,.2f} ({new / old - 1:+.0%})"))
        better += bool(old and new and new < old * (1 - _NOTICED))
    named = [text for _, text in sorted(worse, reverse=True)[:_NAMED]]
    rest = f", and {len(worse) - _NAMED} more" if len(worse) > _NAMED else ""
    said = f"become worse: {', '.join(named)}{rest}" if named else "none becomes worse"
    console.print(f"Mean errors of one number, beside the spec as it is: {said}; {better} become better.")


def show_plan(plan: PlannedRelease, console: Console) -> None:
    """The plan of every universe, and the memory of a run."""
    console.print(levels_line(plan))
    if plan.undecided:
        console.print(plan.undecided, soft_wrap=True)
    for universe_plan in plan.universes:
        console.print()
        _show_universe(universe_plan, console, CalledInPlan.of(plan.spec, universe_plan.universe))
    console.print()
    _show_sizes(plan, console)
    joins = words_of_joins(plan.spec)
    for words in joins:
        console.print(f"Joined in every geounit: {words}.", soft_wrap=True)
    if joins:
        _show_joined(plan, console)
    if plan.local:
        console.print()
        _show_local(plan.local, console)
    if names_of_shares(plan.universes[0].universe):
        _show_shared(plan, console)
    if plan.amounts:
        _show_amounts(plan, console)
    console.print()
    console.print(f"In one number: {plan.promise}.", soft_wrap=True)
    _show_beyond(plan, console)
    console.print(REMARK)
    console.print(memory_line(plan.fitting.requested))
    console.print(way_line(plan.fitting))


def show_asked(plan: PlannedRelease, console: Console) -> None:
    """What options ask for beside the plan in a few lines, the memory of a run, and where there is more."""
    if plan.sizes:
        _show_sizes(plan, console)
    if plan.local:
        _show_local(plan.local, console)
    if names_of_shares(plan.universes[0].universe):
        _show_shared(plan, console)
    taken = memory_line(plan.fitting.requested) if plan.fitting.fits else way_line(plan.fitting)
    console.print(f"{taken} --details shows every query and level.", soft_wrap=True)


def _show_universe(plan: UniversePlan, console: Console, called: CalledInPlan) -> None:
    name = f"Companion {plan.universe.name}" if plan.universe.name else "The release"
    console.print(f"{name}. {plan.statement.words}")
    for level, query in plan.universe.invariants:
        console.print(f"Published exactly (not protected): {query.name} of every {level}.")
    _show_expected(plan, console, called)
    unit = _unit(plan.universe)
    console.print(
        f"Share of the budget; sigma of the noise, in {unit}. Errors are expected absolute errors in {unit} with the "
        f"estimator {plan.expectation.estimator}: of one number, and added up over the numbers of a geounit. "
        "A query without a share is not measured there; its error follows from the queries that are."
    )
    if any(row.given_by == "positive" for row in plan.rows):
        console.print(
            "In part: its noisy answers are drawn only where the released area above is positive. The error depends on "
            "which these are, and is not known before the run."
        )
    if any(row.given_by == "completion" for row in plan.rows):
        console.print(
            "Completed: nothing measures it there; the numbers of the level above are divided in proportion to what is "
            "measured. Nothing says how far that is from the truth, so it has no margin."
        )


def _show_sizes(plan: PlannedRelease, console: Console) -> None:
    """Errors by size of area, or what it takes to know them."""
    if not plan.sizes:
        console.print(UNKNOWN)
        return
    table = table_of(("table", "level", "areas of"), ("areas", "error of a number", "RMSE", "errors, % of people"))
    called = {one.universe.name: CalledInPlan.of(plan.spec, one.universe) for one in plan.universes}
    for row in plan.sizes:
        labels = called[row.universe].labels
        unit = f" (units of {row.unit})" if row.unit else ""
        table.add_row(
            f"{row.universe} {beside(row.table, labels.table(row.table))}{unit}".strip(),
            beside(row.level, labels.level(row.level)),
            SIZE_LABELS[row.size],
            f"{row.areas:,}",
            error_text(row.per_number),
            error_text(row.rmse),
            "" if row.relative is None else f"{row.relative:.1f} %",
        )
    console.print(table)
    console.print(
        "Areas by their number of people in the earlier release. Errors of a number are those of the linear estimate, "
        "which depend on what is measured and not on the size; their percentage of an area's people does."
    )
    if any(row.unit for row in plan.sizes):
        console.print(
            "Errors of sums of an amount are in its units, and have no percentage: how large sums are is not known. "
            "Their areas are those with so many records of the release itself."
        )


def _show_joined(plan: PlannedRelease, console: Console) -> None:
    """What the joins do to the errors, and where average household sizes are published."""
    if plan.joined:
        table = table_of(("level", "companion"), ("persons in households", "households, apart", "households, joined"))
        for row in plan.joined:
            errors = (row.persons, row.households_apart, row.households)
            table.add_row(row.level, row.companion, *(error_text(error, "±") for error in errors))
        console.print(table)
        console.print(
            "Standard errors of the two numbers in a geounit. Joined households learn from the persons how many "
            "members they have; persons hardly change. Sizes such as 7+ are taken to have the members that are "
            "expected of them: where there are many of these, less is learned."
        )
    for companion, levels in plan.average_sizes.items():
        missing = [level for level in plan.spine.level_names if level not in levels]
        text = f"Average household size of {companion}: published for {', '.join(levels) or 'no level'}"
        if missing and any(row.companion == companion for row in plan.joined):
            text += f"; for {', '.join(missing)} no table has the persons in households, or none the households"
        console.print(f"{text}.", soft_wrap=True)


def _show_amounts(plan: PlannedRelease, console: Console) -> None:
    """Errors of sums and of means, in what the amount is in."""
    table = table_of(
        ("amount", "level", "query"), ("error of a sum", "margin (90 %)", *(f"of a mean of {n:,}" for n in RECORDS))
    )
    for row in plan.amounts:
        means = (error_text(row.mean_margins[n], "±") if row.mean_margins else "no count" for n in RECORDS)
        sums = (error_text(row.sum_error), error_text(row.sum_margin, "±"))
        table.add_row(row.companion, row.level, row.query, *sums, *means)
    console.print(table)
    console.print(
        "Of amounts, in what they are in (the tables above are in whole units): the expected absolute error and the "
        "margin of a sum, and the margin of a mean of so many records, if it is in the middle of the clip. Clipping "
        "and rounding come on top: they change the true sums, and no margin covers them."
    )


def _show_shared(plan: PlannedRelease, console: Console) -> None:
    """What public shares do to the errors, and to the budget that they need; or that nothing is known of it."""
    budget = BUDGET_NAMES[plan.universes[0].universe.framework]
    if plan.shared:
        table = table_of(
            ("shares", "level", "query"),
            ("without shares", "with them", f"{budget} for that without", f"{budget} with them for the first"),
        )
        for row in plan.shared:
            table.add_row(
                row.name,
                row.level,
                row.query,
                error_text(row.without),
                error_text(row.error),
                "none" if row.needed_without is None else f"{row.needed_without:.4g}",
                "" if row.enough is None else f"{row.enough:.4g}",
            )
        console.print(table)
        console.print(
            "Expected absolute errors of a shared answer, in persons, if areas are as far from their public shares as "
            "in the earlier release: means over all areas, more of those unlike their neighbours. Then the budgets, "
            "divided as here, that give the same error without shares, and the present one with them; the spec's is "
            f"{budget} = {exact_text(plan.universes[0].universe.budget)}. The tables above are without shares."
        )
    if plan.unguessed_shares:
        console.print(
            f"Shares from public counts are used: {', '.join(plan.unguessed_shares)}. What they gain is not known "
            "before the run, and the errors above are without them. Name an earlier release that used the same ones "
            "with --like to see it."
        )


def _show_local(rows: Sequence[LocalRow], console: Console) -> None:
    """What reports give, beside what true answers with the same epsilon would."""
    error = f"{100 * SHARE_ERROR:g} %"
    needed = f"respondents needed for {error}, local"
    table = table_of(("level",), ("reports of an area", "standard error, local", "central", needed, "central"))
    for row in rows:
        errors = (f"{row.reports:,.0f}", f"{row.local:,.1f}", f"{row.central:,.1f}")
        table.add_row(row.level, *errors, f"{row.needed:,}", f"{row.needed_centrally:,}")
    console.print(table)
    console.print(
        "Local: every answer is randomised before it is sent. Central: true answers are collected, and protected with "
        "the same epsilon when they are published, divided evenly over the levels. Standard errors of the number of "
        "respondents with one answer, in an area; then how many respondents an area needs for a standard error of "
        f"{error} of them. The local error grows with the square root of the respondents, the central one "
        "does not grow.",
        soft_wrap=True,
    )


def _show_expected(plan: UniversePlan, console: Console, called: CalledInPlan) -> None:
    numbers = ("numbers", "share", "noise sigma", "error of a number", "RMSE", "error of a geounit", "margin (90 %)")
    table = table_of(("level", "query"), numbers)
    before = ""
    for row in plan.rows:
        table.add_row(
            row.level if row.level != before else "",
            called.beside_query(row.query),
            f"{row.numbers:,}",
            _percent(row.share),
            "" if row.sigma is None else f"{row.sigma:.2f}",
            *(
                error_text(value, sign, row.given_by)
                for value, sign in ((row.per_number, ""), (row.rmse, ""), (row.per_geounit, ""), (row.margin90, "±"))
            ),
        )
        before = row.level
    console.print(table)


def show_best(best: Best, console: Console, called: CalledInPlan, *, details: bool) -> None:
    """The division that was found, and how it compares."""
    universe = best.universe
    console.print()
    name = f" of the companion {universe.name}" if universe.name else ""
    console.print(
        f"Best division{name}: rho = {exact_text(universe.budget)} (no division is better by more than "
        f"{max(best.gap, 1e-4):.2%} in error)"
    )
    table = table_of(("level",), ("share",))
    table.add_column("queries and their shares of the level")
    for level in universe.strategy.levels:
        queries = ", ".join(f"{measured.query.name} {exact_text(measured.share)}" for measured in level.queries)
        table.add_row(level.level, exact_text(level.share), queries)
    console.print(table)
    console.print()
    targets = best.objective.goal == "largest"
    what = "at most" if targets else "weight"
    titles = (f"{aim.name}{' each' if aim.each else ''} ({what} {aim.number:g})" for aim in best.objective.aims)
    table = table_of(("division",), (*(["rho that meets the targets"] if targets else []), *titles))
    for candidate in best.candidates:
        needed = [] if candidate.budget_needed is None else [exact_text(candidate.budget_needed)]
        table.add_row(candidate.name, *needed, *(f"{error:.2f}" for error in candidate.errors))
    console.print(table)
    if not details:
        console.print(f"Errors with rho = {exact_text(universe.budget)}, in {_unit(universe)}.")
        return
    console.print(
        f"Errors with rho = {exact_text(universe.budget)}, in {_unit(universe)}. With the division that was found:"
    )
    console.print()
    _show_expected(best.planned, console, called)
    console.print(best.planned.statement.words)


def way_line(fit: Fitting) -> str:
    """What `run` would do here and now."""
    if not fit.fits:
        return f"It does not fit here: {fit.summary}; run would refuse it."
    return f"How it would be done here: {fit.summary}."


def memory_line(memory: Memory) -> str:
    """What a run takes, in a sentence."""
    margins = f", {gigabytes(memory.margins_mb)} of it for the margins of error" if memory.margins_mb else ""
    return f"A run takes at most {gigabytes(memory.peak_mb)} of memory with {counted_workers(memory.workers)}{margins}."


def _unit(universe: Universe) -> str:
    """What its numbers count."""
    return universe.measure.counted(texts_in(None))


def _percent(share: str) -> str:
    if not share:
        return ""
    top, _, bottom = share.partition("/")
    return f"{100 * int(top) / int(bottom or 1):.2f} %"
