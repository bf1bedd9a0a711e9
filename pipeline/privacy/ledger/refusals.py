"""What the ledger refuses with: how much was asked for and how much is left, or what was not declared."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.errors import BudgetRefusedError

if TYPE_CHECKING:
    from pipeline.privacy.ledger.dataset import DatasetState
    from pipeline.privacy.ledger.disclosures import Exact


class OverspentError(BudgetRefusedError):
    """A dataset has less left than was asked for. Nothing was charged.

    Attributes:
        dataset: its name; `unit` is rho or epsilon.
        total, spent, asked: exact.
    """

    def __init__(self, dataset: str, unit: str, total: Fraction, spent: Fraction, asked: Fraction) -> None:
        super().__init__(
            f"budget of the dataset {dataset!r}: asked for {unit} = {amount_text(asked, up=True)}, left is "
            f"{amount_text(total - spent)}: {amount_text(spent, up=True)} of {amount_text(total)} is spent; refused, "
            "and nothing was charged or drawn"
        )
        self.dataset, self.unit, self.total, self.spent, self.asked = dataset, unit, total, spent, asked

    @property
    def left(self) -> Fraction:
        """The budget that is not spent, rho or epsilon, exact."""
        return self.total - self.spent

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.dataset, self.unit, self.total, self.spent, self.asked)


class UndeclaredError(BudgetRefusedError):
    """A run would publish exact numbers of a dataset that were not declared. Nothing was charged."""

    def __init__(self, state: DatasetState, refused: Sequence[Exact]) -> None:
        used_up = [] if state.closed else state.allowed
        subjects = [
            f"{exact}{' (declared, but used up for other numbers)' if exact.subject in used_up else ''}"
            for exact in refused
        ]
        options = " ".join(dict.fromkeys(f'--exact "{exact.subject}"' for exact in refused))
        way = (
            "the dataset is closed, so nothing more of it becomes exact"
            if state.closed
            else f"leave it out of the spec, or declare it openly: spinewise ledger allow {state.name} {options}"
        )
        super().__init__(
            f"exact disclosures of the dataset {state.name!r}: the spec publishes {', '.join(subjects)} exactly, which "
            f"no budget covers and the ledger does not allow; {way}; refused, and nothing was charged or drawn"
        )


def amount_text(value: Fraction, *, up: bool = False) -> str:
    """A decimal of six digits and, where it is not the same and not too long, the exact fraction.

    >>> amount_text(Fraction(293764, 114921), up=True), amount_text(Fraction(5, 2))
    ('2.55623 (293764/114921)', '2.5')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    decimal = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    text = format(decimal, "f") if decimal == 0 or abs(decimal) >= Decimal("1e-6") else str(decimal).lower()
    if Fraction(decimal) == value or value.denominator.bit_length() > 100:
        return text
    return f"{text} ({value})"
