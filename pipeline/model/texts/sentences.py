"""Sentences that accounts and statements make in English, said in the language of a page.

What is promised is worded once, where it is computed, and stands so in the manifest, where `verify` compares it, and on
the command line. Pages recognise each sentence by the templates below, and say it in their language, which the
catalogue has like other texts; what a template has in braces may be a sentence itself. A test asserts that all
sentences of all kinds of statements are recognised; one that is not would stay as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from pipeline.model.texts.catalogue import Texts
from pipeline.model.texts.message import all_marked, marked

#: Of the statements: the first that fits a sentence is the one. Of two that fit, the more special one comes first.
TEMPLATES = all_marked(
    "nothing is promised: {why}",
    "Nothing is promised: {why}. The noise has its cost all the same.",
    (
        'with neighbours = "add-remove", inputs that differ in whether a record is there never agree on an invariant, '
        "which counts every record: the guarantee would compare nothing"
    ),
    (
        "no record can change, and no two can swap places or values, without moving an invariant: the guarantee would "
        "compare nothing"
    ),
    (
        "the effect of changing one household of at most {members} members, with their records and its "
        "own record of {companion}, on everything measured"
    ),
    (
        "the effect of adding or removing one household of at most {members} members, with their records "
        "and its own record of {companion}, on everything measured"
    ),
    "the effect of {who}, at most {records} each, on everything measured",
    "the effect of {who}, at most {records}, on everything measured",
    "{said} (of a unit of whose records none is left out)",
    "the effect of {change}",
    "changing one person's data",
    "adding or removing one person",
    "two people swapping places or values (one alone cannot change without changing an invariant)",
    "1 record of the release itself",
    "{n} records of the release itself",
    "1 record of {universe}",
    "the total of {universe}",
    "{n} records of {universe}",
    "changing one record within {limits}",
    "changing all records of one unit within {limits}",
    "changing all records of one unit",
    "adding or removing all records of one unit",
    "changing one record",
    "adding or removing one record",
    "two records swapping places or values ({limits})",
    "no record can change alone without changing an invariant",
    "what can be learnt about {n} records together, such as a household",
    (
        "what can be learnt about which of two records of {same} has which {attribute} by someone who "
        "knows everything else about them"
    ),
    (
        "what can be learnt about which of two records has which {attribute} by someone who knows "
        "everything else about them"
    ),
    "what can be learnt about one record's {attribute} by someone who knows the rest of the record ({limits})",
    "what can be learnt about one record's {attribute} by someone who knows the rest of the record",
    (
        "what can be learnt about which of two records of {same} is in which {lowest} by someone who "
        "knows their {level} and both places"
    ),
    (
        "what can be learnt about which of two records is in which {lowest} by someone who knows their "
        "{level} and both places"
    ),
    "what can be learnt about a record's {lowest} by someone who knows its {level}",
    "only between values that no invariant tells apart: {groups} and {n} more groups",
    "only between values that no invariant tells apart: {groups}",
    "the same group of {attribute} that the invariants show",
    "the same {attribute}",
    (
        "Taken together, all noisy measurements of this universe satisfy {guarantee}; neighbouring "
        "inputs differ by {change}. Everything else published about it is computed from these "
        "measurements and from public inputs, at no further cost to privacy."
    ),
    (
        "Taken together, all noisy measurements of this universe satisfy {guarantee}; neighbouring "
        "inputs differ by {change}. Everything else published about it is computed from these "
        "measurements and from public inputs, at no further cost to privacy, except for the upper end "
        '{high}: it was chosen by the question "{question}" (answer {answer}), whose cost is in the '
        "ledger and not in this promise."
    ),
    (
        "zero-concentrated differential privacy with rho = {rho}, and so (epsilon, delta)-differential privacy for "
        "every delta; the account states epsilon at delta = {delta}"
    ),
    "pure differential privacy with epsilon = {epsilon}",
    "a change of one person's data, at most {n} records ({change} is protected better)",
    (
        "The invariants are published exactly and are not protected: the guarantee compares only inputs that agree on "
        "them."
    ),
    (
        "How detailed a table is in each area was chosen in some tables (select) by the exponential mechanism; these "
        "choices, and the noise on what was chosen, are part of the guarantee."
    ),
    (
        "An area without siblings is not measured by itself: its parent is measured with the budgets of "
        "both levels, and so with less noise than stated here. On every path from the top to a leaf the "
        "budgets add up to the whole."
    ),
    (
        "Answers to questions on the same records are among them ({answers}), with {cost} of it: they were charged "
        "when they were asked, and this version of the release cost nothing more."
    ),
    (
        "The noise was not drawn by this program: the measurements were made elsewhere. This statement holds if they "
        "were made as the spec states; only their stated variances were compared with it, and nothing else was tested."
    ),
    (
        "Every respondent randomised the answer before it was sent, by {mechanism} ({stated}): whatever the answer is, "
        "no report is more than {ratio} times as likely as it would be with another answer, which is local "
        "differential privacy with epsilon = {epsilon}."
    ),
    (
        "It holds against everybody who sees the report, the publisher included, and so for everything that is "
        "published here."
    ),
    "It holds against everybody who sees the report, the publisher included.",
    (
        "At the levels {levels}, counts of the release {release} are used too, which were measured of the true answers "
        "of the same persons: who made it has them."
    ),
    ("Its manifest, of which central.json has the hash, states that all that it publishes satisfies {guarantee}."),
    "zero-concentrated differential privacy with rho = {rho}",
    "Nothing is charged here: each report spent its own epsilon when it was sent.",
    (
        "Both together: one report of each respondent and that release satisfy {guarantee}, with respect to the change "
        "of one person's answer."
    ),
    ("Nobody has the true answers, and no ledger is charged: each report spent its own epsilon when it was sent."),
    (
        "Over time: each report is drawn anew, so that the epsilons of all reports of a respondent add up, those to "
        "other collections among them."
    ),
    (
        "Over time: a device draws one response to an answer and repeats it for ever, so that any number of reports on "
        "the same answer has epsilon = {epsilon} together."
    ),
    (
        "Over time: each report is drawn from one permanent response to an answer, so that any number of reports on "
        "the same answer has epsilon = {epsilon} together."
    ),
    "That an answer has changed is not protected.",
    "Not protected: that somebody took part, and in which area.",
    "The number of reports of each area is published exactly.",
    "one respondent's having another answer, which was sent in one report",
    "one respondent's having another answer, which was sent in any number of reports that repeat one response",
    "one respondent's having another answer, which is in the central release and in one report",
    (
        "one respondent's having another answer, which is in the central release and in any number of reports that "
        "repeat one response"
    ),
    "what can be learnt about one respondent from one report alone",
    "what can be learnt about one respondent from any number of reports that repeat one response alone",
    "what can be learnt about one respondent from the central release and {n} reports, each drawn anew",
    "what can be learnt about one respondent from {n} reports, each drawn anew",
    "what can be learnt about one respondent from {n} reports, each drawn from one permanent response",
    ("what can be learnt about one respondent from any number of reports, each drawn from one permanent response"),
    "rho of the central release and epsilon^2 / 2 of one report, added up; then {conversion}",
    "none: the epsilons of the central release and of one report, added up",
    "epsilon is the logarithm of the largest ratio of two probabilities of a report, rounded up",
    "Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), proposition 12 and corollary 13; rounded up",
    "none: the budget is epsilon",
    (
        "privacy.delta: found {found}; it must be less than 1 / {population}, the population: a release that shows a "
        "record drawn at random would satisfy it"
    ),
    "{key}: found {found} over all universes; at most {usual} is usual",
    "{key}: found {found} with one report; at most {usual} is usual",
    "{key}: found {found}; at most {usual} is usual",
    "invariants: {reason}",
    "companions.{name}.invariants: {reason}",
    "not charged: budgets of repeated runs add up and nobody counts them",
    "NOT FOR RELEASE: insecure test key",
    "estimated from measurements that were made elsewhere",
    "estimated from numbers that others published; no promise of privacy is made here",
    "EXAMPLE: made-up data, about nobody",
    "official",
    "official, but public inputs were made from the records",
)
AND, MORE = marked("{first} and {rest}"), marked("{n} more")
#: Values that are lists, whose parts are sentences themselves.
_LISTS = ("records", "noticed", "shares")
#: Values that are whole numbers.
_COUNTS = ("n", "m")
_FIELD = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"[0-9]{1,3}(,[0-9]{3})+|[0-9]+(\.[0-9]+)?")
_MORE = re.compile(r"(?<=\| )([0-9]+) more")


def sentence(texts: Texts, words: str, templates: Sequence[str] = TEMPLATES) -> str:
    """What a statement or account says, without its ": epsilon = ..." at the end, in the language of the page.

    Args:
        texts: of the page.
        words: in English.
        templates: that are recognised, the more special of two that fit before the other.
    """
    return _said(texts, words.rsplit(": epsilon = ", 1)[0], tuple(templates))


def _said(texts: Texts, words: str, templates: tuple[str, ...]) -> str:
    if _NUMBER.fullmatch(words):
        return texts.numerals.digits(words.replace(",", ""))
    if len(same := words.split(" and the same ")) > 1 and words.startswith("the same "):
        rest = " and ".join(f"the same {one}" for one in same[1:])
        return texts(AND, first=_said(texts, same[0], templates), rest=_said(texts, rest, templates))
    sentences = re.split(r"(?<=[.?]) (?=[A-Z])", words)
    for end in range(len(sentences), 0, -1):
        if (found := _whole(texts, " ".join(sentences[:end]), templates)) is not None:
            more = [_said(texts, " ".join(sentences[end:]), templates)] if end < len(sentences) else []
            return " ".join([found, *more])
    return _MORE.sub(lambda found: texts(MORE, n=int(found[1])), words)


def _whole(texts: Texts, words: str, templates: tuple[str, ...]) -> str | None:
    """What the first template that fits says; None where none fits."""
    for template in templates:
        if found := _pattern(template).fullmatch(words):
            values = {
                name: ", ".join(
                    _said(texts, one, templates) for one in (value.split(", ") if name in _LISTS else [value])
                )
                for name, value in found.groupdict().items()
            }
            return texts(template, **values)
    return None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    pieces = _FIELD.split(template)
    return re.compile(
        "".join(
            f"(?P<{one}>{'[0-9,]+' if one in _COUNTS else '.+?'})" if n % 2 else re.escape(one)
            for n, one in enumerate(pieces)
        ),
        re.S,
    )
