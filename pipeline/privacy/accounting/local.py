"""What is promised where every report was randomised by its sender: of one report, and of several.

A mechanism M is epsilon-locally private if P(M(v) = r) <= e^epsilon P(M(w) = r) for all values v, w and reports r
(Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011, definition 2.2). Independent reports of one sender multiply
these ratios. One response that is drawn once and repeated has the ratio of one report; reports of a value that changes
show that it has changed, which has no bound. Reports that are each drawn from one permanent response multiply the
ratios of single reports until that of the response itself is reached (Erlingsson, Pihur and Korolova 2014).

Where counts of a central release are used too (a mixed design), statements are about both. A report is epsilon-private,
which is epsilon^2 / 2 zero-concentrated, and budgets of independent mechanisms add up (Bun and Steinke 2016,
proposition 1.4 and lemma 1.7). At a delta, the epsilon of the release and that of the report add up too: the lesser sum
is stated.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.privacy.accounting.conversion import CONVERSION, zcdp_epsilon
from pipeline.privacy.accounting.statement_models import About, PrivacyAccount, Statement, statement_of

if TYPE_CHECKING:
    from pipeline.model.source import Randomiser
    from pipeline.model.strategy import Central
    from pipeline.model.universe import Universe


#: Numbers of reports of one respondent that are stated.
REPORTS = (2, 3, 4, 5)
#: Of a report and a central release.
_ADDED = "rho of the central release and epsilon^2 / 2 of one report, added up; then "
_SUM = "none: the epsilons of the central release and of one report, added up"
_NOBODY = (
    " It holds against everybody who sees the report, the publisher included, and so for everything that is published "
    "here. Nobody has the true answers, and no ledger is charged: each report spent its own epsilon when it was sent."
)


def budget_of_both(central: Central, epsilon: Fraction, reports: int = 1) -> Fraction:
    """What a central release and reports of one person promise together: rho or epsilon, as the release has it."""
    return central.budget + reports * (epsilon**2 / 2 if central.framework == "zcdp" else epsilon)


def local_account(universe: Universe) -> PrivacyAccount:
    """All statements about the respondents of one universe."""
    mechanism = _mechanism_of(universe)
    ever = mechanism.for_ever
    memoised = ever is not None and ever.ratio == mechanism.bound.ratio
    one = "one respondent's having another answer, which was sent in one report"
    if memoised:
        one = "one respondent's having another answer, which was sent in any number of reports that repeat one response"
    record = _statement("record", "", universe.budget, 1, f"the effect of {one}")
    groups = () if memoised else _several(universe.budget, mechanism)
    for central in universe.source.releases:
        record, *groups_of_both = _of_both_together(universe, central, memoised)
        groups = tuple(groups_of_both)
    return PrivacyAccount(
        universe=universe.name,
        record=record,
        attributes=(),
        places=(),
        groups=groups,
        comparison=None,
    )


def _mechanism_of(universe: Universe) -> Randomiser:
    """By which the reports were randomised; only such a universe has the framework "local"."""
    mechanism = universe.source.mechanism
    assert mechanism is not None
    return mechanism


def local_promise(universe: Universe) -> dict[str, str]:
    """The figures and words of the statement about one universe, by the names of `PrivacyStatement`."""
    mechanism, epsilon = _mechanism_of(universe), epsilon_text(universe.budget)
    stated = ", ".join(f"{name} = {value}" for name, value in mechanism.parameters().items())
    words = (
        f"Every respondent randomised the answer before it was sent, by {mechanism.name} ({stated}): whatever the "
        f"answer is, no report is more than {decimal_text(mechanism.ratio)} times as likely as it would be with "
        f"another answer, which is local differential privacy with epsilon = {epsilon}."
    )
    words += "".join(_of_both(universe, central) for central in universe.source.releases) or _NOBODY
    ever = mechanism.for_ever
    if ever is not None and ever.ratio > mechanism.ratio:
        words += (
            " Over time: each report is drawn from one permanent response to an answer, so that any number of reports "
            f"on the same answer has epsilon = {epsilon_text(Fraction(ever.epsilon))} together. That an answer has "
            "changed is not protected."
        )
    elif ever is not None:
        words += (
            " Over time: a device draws one response to an answer and repeats it for ever, so that any number of "
            f"reports on the same answer has epsilon = {epsilon} together. That an answer has changed is not protected."
        )
    else:
        words += (
            " Over time: each report is drawn anew, so that the epsilons of all reports of a respondent add up, those "
            "to other collections among them."
        )
    words += (
        " Not protected: that somebody took part, and in which area. The number of reports of each area is published "
        "exactly, and how many could not be used, by reason. One report of a person is meant: where it is not kept who "
        "sent which, nothing keeps several out, and their epsilons add up."
    )
    promise = {
        "framework": "local",
        "budget": str(universe.budget),
        "delta": "0",
        "conversion": "epsilon is the logarithm of the largest ratio of two probabilities of a report, rounded up",
        "words": words,
    }
    for central in universe.source.releases:
        promise |= _figures(universe, central)
    return promise


def _figures(universe: Universe, central: Central) -> dict[str, str]:
    """Those of a statement about one report and a central release together."""
    both = budget_of_both(central, universe.budget)
    zcdp = central.framework == "zcdp"
    return {
        "framework": central.framework,
        "budget": str(both),
        "delta": decimal_text(universe.delta),
        "conversion": _ADDED + CONVERSION if zcdp else _SUM,
    }


def _of_both(universe: Universe, central: Central) -> str:
    """What holds where counts of a central release are used, of it and of both together."""
    zcdp, at = central.framework == "zcdp", ""
    alone, both = (
        decimal_text(budget) if zcdp else epsilon_text(budget)
        for budget in (central.budget, budget_of_both(central, universe.budget))
    )
    if zcdp:
        promise = "zero-concentrated differential privacy with rho"
        at = (
            ", and so (epsilon, delta)-differential privacy for every delta; the account states epsilon at delta = "
            f"{decimal_text(universe.delta)}"
        )
    else:
        promise = "pure differential privacy with epsilon"
    return (
        " It holds against everybody who sees the report, the publisher included. At the levels "
        f"{', '.join(central.shares)}, counts of the release {central.release.name} are used too, which were measured "
        "of the true answers of the same persons: who made it has them. Its manifest, of which central.json has the "
        f"hash, states that all that it publishes satisfies {promise} = {alone}. Nothing is "
        "charged here: each report spent its own epsilon when it was sent. Both together: one report of each "
        f"respondent and that release satisfy {promise} = {both}{at}, with respect to the change of one person's "
        "answer."
    )


def _several(budget: Fraction, mechanism: Randomiser) -> tuple[Statement, ...]:
    """Of several reports of a respondent, where each tells something new."""
    words = "what can be learnt about one respondent from {} reports, each drawn "
    if (ever := mechanism.for_ever) is None:
        return tuple(_statement("group", str(n), n * budget, n, words.format(n) + "anew") for n in REPORTS)
    words += "from one permanent response"
    bounds = [(n, min(n * budget, Fraction(mechanism.bound_of(n).epsilon))) for n in REPORTS]
    return (
        *(_statement("group", str(n), bound, n, words.format(n)) for n, bound in bounds),
        _statement("group", "any", Fraction(ever.epsilon), max(REPORTS), words.format("any number of")),
    )


def _of_both_together(universe: Universe, central: Central, memoised: bool) -> list[Statement]:
    """The statements where a central release has the true answers of the respondents: of one of them, of several."""
    sent = "any number of reports that repeat one response" if memoised else "one report"
    changed = "the effect of one respondent's having another answer, which is in the central release and in"

    def stated(about: About, of: str, reports: int, words: str) -> Statement:
        budget = budget_of_both(central, universe.budget, reports)
        if central.framework != "zcdp":
            return _statement(about, of, budget, max(1, reports), words)
        zcdp = Fraction(zcdp_epsilon(budget, universe.delta))
        added = Fraction(zcdp_epsilon(central.budget, universe.delta)) + reports * universe.budget
        found = _statement(about, of, min(zcdp, added), max(1, reports), words)
        at = f" at delta = {decimal_text(universe.delta)}"
        changes = {"budget": str(budget), "zcdp": epsilon_text(zcdp), "words": found.words + at}
        return found.model_copy(update=changes)

    several = "what can be learnt about one respondent from the central release and {} reports, each drawn anew"
    return [
        stated("record", "", 1, f"{changed} {sent}"),
        _statement("group", "1", universe.budget, 1, f"what can be learnt about one respondent from {sent} alone"),
        *(stated("group", str(n), n, several.format(n)) for n in REPORTS if not memoised),
    ]


def _statement(about: About, of: str, budget: Fraction, records: int, words: str) -> Statement:
    return statement_of(about, of, "local", budget, Fraction(0), words, records)
