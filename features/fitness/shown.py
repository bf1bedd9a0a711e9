"""What is found of a release's fitness, on the terminal; of public figures alone."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from features.fitness.fitness import Fitness


def show_fitness(fitness: Fitness) -> None:
    """Errors of all tables, and thresholds."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 140
    console.print(f"Expected errors of {fitness.release}, in persons and percent. Known from:")
    for basis in fitness.bases:
        console.print(f"  {basis}", soft_wrap=True)
    console.print(_errors(fitness))
    if fitness.amounts:
        console.print(
            "Of sums of an amount errors are in its units, and percentages are of the sums; there are none where sums "
            "may be below 0.",
            soft_wrap=True,
        )
    if fitness.thresholds:
        console.print(_thresholds(fitness))


def _columns(text: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in text:
        table.add_column(title, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right")
    return table


def _errors(fitness: Fitness) -> Table:
    table = _columns(("table", "level"), ("areas", "MAE", "RMSE", "bias", "MAPE", "within 5 points", "worst group"))
    for one in fitness.tables:
        whole, target, worst = one.whole, one.target, one.worst_group
        table.add_row(
            f"{one.table_title} (units of {one.unit})" if one.unit else one.table_title,
            one.level_title,
            f"{whole.areas:,}",
            _number(whole.mae),
            _number(whole.rmse),
            _number(whole.bias, "+"),
            _percent(whole.mape),
            "" if target is None or target.share is None else f"{100 * target.share:.1f} %",
            "" if worst is None else f"{one.called.number(worst.group)} ({_percent(worst.measures.relative)})",
        )
    return table


def _thresholds(fitness: Fitness) -> Table:
    table = _columns(("threshold", "level"), ("areas", "at or above", "expected on the wrong side", "doubtful areas"))
    for one in fitness.thresholds:
        table.add_row(
            f"{one.people:,}",
            one.level_label,
            f"{one.areas:,}",
            f"{one.above:,}",
            f"{one.expected_wrong:.2f}",
            f"{one.doubtful:,}",
        )
    return table


def _number(value: float | None, sign: str = "") -> str:
    return "?" if value is None else format(value, f"{sign},.2f")


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1f} %"
