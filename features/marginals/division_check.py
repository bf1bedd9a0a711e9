"""Whether the universes of a spec are those of its cliques: a published one has them written out, and may be another's.

What was divided a moment ago is held against the same rules. Problems are noted where they are seen; those that later
rules build on are asked for first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from features.marginals.choice import ChoiceTerms, stated_terms, unlike_a_choice
from features.marginals.cliques import AttributeSizes, Clique, JunctionTree
from features.marginals.division import NOT_WITH, BudgetParts, note_untried_of_companion
from features.marginals.section import Bins, MarginalsSection
from features.marginals.tree import invariants_within, tree_of, universe_names
from features.marginals.zeros import are_carried
from geography.errors import InputError
from geography.spine import counted
from pipeline.model.query import terms_of
from pipeline.spec.fields import Misfit
from pipeline.spec.problems import Problems, dotted
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.sections import CompanionSection, UniverseSections


def note_division(stated: MarginalsSection, spec: ReleaseSpec, problems: Problems) -> None:
    """Note universes that are not those of the cliques, and what no release of marginals was tried with."""
    before = len(problems.lines)
    if spec.update is not None and spec.update.answers:
        problems.add("update", NOT_WITH)
    sections: list[UniverseSections] = [spec, *spec.companions.values()]
    sizes = _sizes(stated, sections, problems)
    _note_bins(stated, sections, problems)
    if len(problems.lines) > before:
        return
    levels = spec.geography.level_names
    try:
        tree, cliques = tree_of(stated, sizes, spec.invariants, levels)
        parts = BudgetParts.stated(stated, tree.domain, cliques, levels)
    except Misfit as misfit:
        for key, text in misfit.problems:
            problems.add(key, text)
        return
    names = ("", *spec.companions)
    if names != universe_names(tree):
        problems.add("marginals", f"the companions are {', '.join(names[1:])}, and not those of the cliques")
        return
    measured: list[list[Clique]] = []
    for one, bag, name in zip(sections, tree.bags, names, strict=True):
        own_problems = problems.at(f"companions.{name}") if name else problems
        if tuple(one.schema_section.attributes) != tree.domain.named(bag):
            own_problems.add("schema.attributes", f"these are not those of {tree.domain.text(bag)}")
        else:
            measured.append(_measured_in(one, tree.domain, own_problems))
        if isinstance(one, CompanionSection):
            _note_companion(one, spec, own_problems)
    if len(problems.lines) > before:
        return
    if sorted(clique for own in measured for clique in own) != sorted(cliques):
        problems.add("marginals.cliques", "these are not what is measured, each in one universe")
        return
    if parts.at:
        _note_parts(parts, tree.domain, spec, sections, problems)
    else:
        of_universes = [sum(parts.of[clique] for clique in own) for own in measured]
        _note_budgets(of_universes, spec, problems, even=stated.parts is None)
    _note_known(tree, spec, problems)
    _note_choice(stated, spec, sections, problems)


# -- attributes and records -------------------------------------------------------------------------------------------


def _sizes(stated: MarginalsSection, sections: Sequence[UniverseSections], problems: Problems) -> dict[str, int]:
    """Attribute -> number of its values, all attributes in the section's order; what does not fit is noted."""
    values: dict[str, tuple[str, ...]] = {}
    for one in sections:
        for name, own in one.schema_section.attributes.items():
            if values.setdefault(name, own) != own:
                problems.add("marginals", f"the attribute {name!r} has not the same values in all universes")
    if sorted(values) != sorted(stated.attributes or ()):
        problems.add("marginals.attributes", "these are not the attributes of the universes")
        return {}
    return {name: len(values[name]) for name in stated.attributes or ()}


def _note_bins(stated: MarginalsSection, sections: Sequence[UniverseSections], problems: Problems) -> None:
    """Note an amount that is no attribute of any universe, or has other values in one than its bins."""
    for name, texts in (stated.amounts or {}).items():
        values = {one.schema_section.attributes[name] for one in sections if name in one.schema_section.attributes}
        if values != {Bins.of(name, texts).values}:
            problems.add(dotted(["marginals", "amounts", name]), "these bins are not the values of the attribute")


def _note_companion(section: CompanionSection, spec: ReleaseSpec, problems: Problems) -> None:
    """Note what a companion has that no table of a tree was tried with, and records that are not the release's own."""
    note_untried_of_companion(section, problems)
    if _records_of(section) != _records_of(spec):
        problems.add("input", "the records are the release's own, so nothing but columns and values may differ")
    if section.privacy.dataset != spec.privacy.dataset:
        problems.add("privacy.dataset", "the records are the release's own, so one ledger counts both")
    if section.records_per_person != spec.records_per_person:
        problems.add("records_per_person", "the records are the release's own, so state the same number")


def _records_of(section: UniverseSections) -> dict[str, Any] | None:
    """Where the records of a universe are and how they are read, but for its attributes' columns and values."""
    return None if section.input is None else {**dict(section.input), "columns": None, "values": None}


# -- what is measured, and its parts of the budget --------------------------------------------------------------------


def _measured_in(sections: UniverseSections, domain: AttributeSizes, problems: Problems) -> list[Clique]:
    """The sets of attributes that are measured at some level."""
    levels = sections.strategy.levels.values()
    stated = [*(sections.strategy.queries or {}), *(query for level in levels for query in level.queries or {})]
    found: list[Clique] = []
    for text in dict.fromkeys(stated):
        try:
            clique = domain.clique([term.strip() for term in text.split("*")])
        except InputError:
            problems.add("strategy", f"found the query {text!r}; with [marginals] attributes joined by * are measured")
            continue
        if clique not in found:
            found.append(clique)
    return found


def _budgets(spec: ReleaseSpec) -> tuple[str, list[Fraction | None]]:
    """The key of the budget, and that of each universe, the release's own first."""
    key = "epsilon" if spec.privacy.framework == "pure" else "rho"
    privacies = [spec.privacy, *(one.privacy for one in spec.companions.values())]
    return key, [getattr(one, key) for one in privacies]


def _note_parts(
    parts: BudgetParts,
    domain: AttributeSizes,
    spec: ReleaseSpec,
    sections: Sequence[UniverseSections],
    problems: Problems,
) -> None:
    """Note a level at which a clique has another part of what all have there than is stated."""
    key, budgets = _budgets(spec)
    for level in spec.geography.level_names:
        spent: dict[Clique, Fraction] = {}
        for one, budget in zip(sections, budgets, strict=True):
            own = one.strategy.levels[level]
            queries = own.queries if own.queries is not None else one.strategy.queries
            share = (budget or Fraction(0)) * (own.share or Fraction(0))
            for text, of in (queries or {}).items() if share else ():
                spent[domain.clique(terms_of(text))] = share * of.share
        whole = sum(spent.values(), Fraction(0))
        for clique in parts.of:
            if spent.get(clique, Fraction(0)) * parts.whole(level) != parts.part(clique, level) * whole:
                problems.add(
                    dotted(["marginals", "parts_at", level]),
                    f"{domain.text(clique)} has another part of the {key} at {level} than is stated",
                )
                return


def _note_budgets(parts: Sequence[int], spec: ReleaseSpec, problems: Problems, *, even: bool) -> None:
    """Note budgets of companions of which the cliques have not the same part as those of the release's own universe.

    Args:
        parts: of the budget, of the cliques that are measured in each universe: one each, unless others are stated.
        spec: of the release.
        problems: takes what does not fit.
        even: whether no parts are stated.
    """
    key, (own, *others) = _budgets(spec)
    unit, right = ("clique", "each has the same part of the budget") if even else ("part", "see marginals.parts")
    for name, budget, part in zip(spec.companions, others, parts[1:], strict=True):
        if budget is None or own is None or budget * parts[0] != own * part:
            problems.add(
                f"companions.{name}.privacy.{key}",
                f"found {budget}, for {counted(part, unit)}, and {own} of the release's own universe, for "
                f"{counted(parts[0], unit)}; {right}",
            )


# -- what is known, and what was chosen -------------------------------------------------------------------------------


def _note_known(tree: JunctionTree, spec: ReleaseSpec, problems: Problems) -> None:
    """Note exact numbers and impossible cells of one universe that another one has not, where it must."""
    sections: list[UniverseSections] = [spec, *spec.companions.values()]
    for name, one, bag in zip(spec.companions, sections[1:], tree.bags[1:], strict=True):
        within = invariants_within(tree.domain, spec.invariants, spec.geography.level_names, bag)
        if {level: list(queries) for level, queries in one.invariants.items()} != within:
            problems.add(
                f"companions.{name}.invariants", "these are not those of the release's own universe, as sums of them"
            )
    if not are_carried(tree, _values(sections), [one.structural_zeros for one in sections]):
        problems.add("structural_zeros", "these leave cells of another universe empty that it does not name")


def _values(sections: Sequence[UniverseSections]) -> Mapping[str, Sequence[str]]:
    """Attribute -> its values, of all universes."""
    return {name: values for one in sections for name, values in one.schema_section.attributes.items()}


def _note_choice(
    stated: MarginalsSection, spec: ReleaseSpec, sections: Sequence[UniverseSections], problems: Problems
) -> None:
    """Note what does not go with cliques that are chosen, or not together with those that are declared."""
    if (stated.choose is None) != (stated.budget is None) or (stated.choose is None and stated.chosen is not None):
        problems.add("marginals.choose", "what is chosen has a budget, and what is not chosen has none")
    elif stated.choose is not None and stated.budget is not None:
        values = _values(sections)
        terms = stated_terms(
            stated,
            {name: values[name] for name in stated.attributes or ()},
            (spec.privacy.framework, spec.privacy.neighbours, spec.records_per_person),
            stated.budget,
            spec.geography.level_names[0],
            next((level.share for level in spec.strategy.levels.values() if level.share), Fraction(1)),
        )
        key, budgets = _budgets(spec)
        if sum((budget or Fraction(0) for budget in budgets), Fraction(0)) != terms.rest:
            problems.add(
                "marginals.budget", f"the cliques have another {key} than the choice leaves of {stated.budget}"
            )
        elif stated.chosen is not None:
            _note_outcome(stated, terms, problems)


def _note_outcome(stated: MarginalsSection, terms: ChoiceTerms, problems: Problems) -> None:
    """Note chosen cliques that the choice cannot have made: pairs in an order, then the attributes that are in none."""
    cliques = [terms.domain.clique(names) for names in stated.cliques or ()]
    pairs = [clique for clique in cliques if len(clique) > 1]
    if cliques != [*terms.pairs.cliques(pairs)]:
        problems.add("marginals.cliques", "these are not pairs, and then the attributes that are in none of them")
    elif wrong := unlike_a_choice(terms.pairs, pairs):
        problems.add("marginals.cliques", wrong)
