"""What a release guarantees about one universe: the statement that the manifest holds, as figures and as text."""

from __future__ import annotations

from fractions import Fraction

from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.model.promise import MechanismUse
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.conversion import CONVERSION
from pipeline.privacy.accounting.local import local_promise
from pipeline.privacy.accounting.neighbours import change_in_words, record_change, vacuous
from pipeline.privacy.budget import BUDGET_NAMES, Framework, Neighbours
from pipeline.release.stated import Stated

_BYPASS = (
    " An area without siblings is not measured by itself: its parent is measured with the budgets of both levels, and "
    "so with less noise than stated here. On every path from the top to a leaf the budgets add up to the whole."
)
_SELECT = (
    " How detailed a table is in each area was chosen in some tables (select) by the exponential mechanism; these "
    "choices, and the noise on what was chosen, are part of the guarantee."
)
_MADE_ELSEWHERE = (
    " The noise was not drawn by this program: the measurements were made elsewhere. This statement holds if they "
    "were made as the spec states; only their stated variances were compared with it, and nothing else was tested."
)


class PrivacyStatement(Stated):
    """What is guaranteed about one universe ("" is the release's own, others are its companions).

    Of reports beside the counts of a central release, the figures are of one report and that release together.

    Attributes:
        framework: "local" of reports alone; of reports beside a central release, that of the release.
        budget: rho (zcdp) or epsilon (pure), as an exact fraction.
        delta: "0" in the pure framework, and of reports.
        conversion: how the bound on epsilon follows from the budget that the account calls `zcdp`.
        words: the guarantee as text.
    """

    universe: str
    framework: Framework
    neighbours: Neighbours
    budget: str
    delta: str
    conversion: str
    words: str


def privacy_statement(universe: Universe, *, made_elsewhere: bool = False) -> PrivacyStatement:
    """The guarantee of one universe; the noise is computed from the budget and the strategy, as measuring does.

    With bypass, the noise stated is that of geounits that stand for one level.

    Args:
        universe: what was measured.
        made_elsewhere: another program drew the noise, which the statement then mentions.

    Raises:
        InputError: there is no noise for this budget; see `budget.noise_for`.
    """
    if universe.framework == "local":
        return _of_reports(universe)
    zcdp = universe.framework == "zcdp"
    delta = universe.delta if zcdp else Fraction(0)
    return PrivacyStatement(
        universe=universe.name,
        framework=universe.framework,
        neighbours=universe.neighbours,
        budget=str(universe.budget),
        delta=decimal_text(delta),
        conversion=CONVERSION if zcdp else "none: the budget is epsilon",
        words=_in_words(universe, delta)
        + (_SELECT if universe.selections else "")
        + (_BYPASS if universe.bypass else "")
        + ("" if universe.earlier is None else f" {universe.earlier.words}")
        + _together(universe)
        + _added(universe)
        + _series(universe)
        + (_MADE_ELSEWHERE if made_elsewhere else ""),
    )


def _together(universe: Universe) -> str:
    """What is said of universes that are estimated together, once."""
    words = "" if universe.together is None or universe.name else universe.together.words
    return words and f" {words}"


def _added(universe: Universe) -> str:
    """What is said of answers that were added to the measurements."""
    if not universe.added:
        return ""
    cost = decimal_text(sum((answer.cost for answer in universe.added), Fraction(0)))
    name = BUDGET_NAMES[universe.framework]
    which = ", ".join(answer.query.name for answer in universe.added)
    return (
        f" Answers to questions on the same records are among them ({which}), with {name} = {cost} of it: they were "
        "charged when they were asked, and this version of the release cost nothing more."
    )


def _series(universe: Universe) -> str:
    """What is said of a release in a series: what its budget is for, and what people lose by their spells."""
    if (series := universe.series) is None:
        return ""
    lost = "".join(
        f"; with {number}, {'' if loss.exact else 'at most '}{decimal_text(loss.part, 3)} of it"
        for number, loss in sorted(series.terms.losses.items())
        if number != series.terms.spells
    )
    spell = (
        "A spell is a time in which one is in the same answer without a break: whoever moves, or has another value, "
        "begins one."
        if series.terms.counted == "spell"
        else "A person has one record in each release that it is in."
    )
    return (
        f" This is the release of {series.period} in the series {series.name}, {series.horizon}. The budget is that of "
        f"all {len(series.periods)} releases of the series together, and is spent when it is opened. {spell} A person "
        f"with {series.terms.spells} {series.terms.counted}s or fewer loses no more than the budget{lost}."
    )


def _of_reports(universe: Universe) -> PrivacyStatement:
    """The guarantee of reports that were randomised by their senders; nothing else is drawn."""
    stated = {"universe": universe.name, "neighbours": universe.neighbours}
    return PrivacyStatement.model_validate(stated | local_promise(universe))


def drawn_of(universe: Universe) -> tuple[MechanismUse, ...]:
    """Every query, private choices and what they choose, then what was drawn before."""
    return (*universe.uses, *(() if universe.earlier is None else universe.earlier.uses))


def _in_words(universe: Universe, delta: Fraction) -> str:
    change = record_change(universe)
    if change is None:
        return f"Nothing is promised: {vacuous(universe)}. The noise has its cost all the same."
    # Of the change that the words are about: of one person, or of two records that swap.
    budget = universe.budget if change.records == 1 else change.records * universe.record_budget
    if universe.framework == "zcdp":
        guarantee = (
            f"zero-concentrated differential privacy with rho = {decimal_text(budget)}, and so (epsilon, "
            "delta)-differential privacy for every delta; the account states epsilon at delta = "
            f"{decimal_text(delta)}"
        )
    else:
        guarantee = f"pure differential privacy with epsilon = {epsilon_text(budget)}"
    subject = change_in_words(universe, change)
    if universe.unit.records > 1 and change.records == 1:
        subject = (
            f"a change of one person's data, at most {universe.unit.records} records ({subject} is protected better)"
        )
    sentences = (
        f"Taken together, all noisy measurements of this universe satisfy {guarantee}; neighbouring inputs differ by "
        f"{subject}. Everything else published about it is computed from these measurements and from public inputs, "
        f"at no further cost to privacy{_chosen(universe)}."
    )
    if universe.invariants:
        sentences += (
            " The invariants are published exactly and are not protected: the guarantee compares only inputs that "
            "agree on them."
        )
    return sentences


def _chosen(universe: Universe) -> str:
    """What costs something all the same: the end of an amount that a question chose before."""
    if (end := universe.measure.chosen) is None:
        return ""
    return (
        f', except for the upper end {end.high}: it was chosen by the question "{end.question}" (answer '
        f"{end.answer}), whose cost is in the ledger and not in this promise"
    )
