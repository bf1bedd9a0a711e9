"""From the section [marginals] to a universe for each table of the junction tree, which the core measures as any other.

A level has its share of the budget, and of that a clique its part of the sum of all parts there: with shares s and
parts p, clique c has s p / (sum of p) at a level, which over all cliques and levels is the whole, exactly.

The release's own universe is the tree's first table; the others are companions, called after their attributes. Each has
its attributes, a part of the budget, its own noise, files and tables, and the release's own records. A published spec
has them written out, and all attributes in their order in `attributes` of `[marginals]`. Where pairs are yet to be
chosen there are universes of as many pairs that could be, which have the same noise; see `decided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from features.marginals.choice import ChoiceTerms, stated_terms
from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, guessed, homes
from features.marginals.section import ChosenPairsSection, MarginalsSection, Undivided, with_amounts
from features.marginals.tree import invariants_within, tree_of, universe_names
from features.marginals.zeros import Entry, carried, stated_entries
from geography.errors import InputError
from pipeline.errors import SpecError
from pipeline.model.query import terms_of
from pipeline.model.schema import Attribute, Schema
from pipeline.release.layout import query_file_name
from pipeline.spec.fields import Misfit, Section, StructuralZeros, Table
from pipeline.spec.input_section import InputSpec, check_input
from pipeline.spec.privacy_section import PrivacySection
from pipeline.spec.problems import Problems, dotted, note_validation_error, unknown
from pipeline.spec.resolve_strategy import resolve_strategy
from pipeline.spec.sections import CompanionSection, PostprocessSection, SchemaSection, StrategySection
from pipeline.spec.wording.resolve import note_unknown_labels

NOT_WITH: Final = "not together with [marginals] yet; leave one of the two out"
#: Sections and keys of any universe.
_UNTRIED: Final = ("bounds", "select", "join", "household_tables", "questions", "collect", "series")


def note_untried_keys(content: Mapping[str, Any], problems: Problems) -> None:
    """Note those of a spec's tables, so far as tables are tables."""

    def of(section: str) -> Mapping[str, Any]:
        found = content.get(section)
        return found if isinstance(found, Mapping) else {}

    privacy, postprocess = of("privacy"), of("postprocess")
    found = [key for key in _UNTRIED if content.get(key)]
    found += [f"privacy.{key}" for key in ("unit", "at_most") if privacy.get(key)]
    found += [f"publish.{key}" for key in ("unbiased", "draws") if of("publish").get(key)]
    found += ["geography.bypass"] if of("geography").get("bypass") else []
    found += ["schema.recodes"] if of("schema").get("recodes") else []
    found += ["postprocess.shares"] if postprocess.get("shares") else []
    found += ["postprocess.passes"] if postprocess.get("passes", ["total"]) not in (["total"], ("total",)) else []
    for key in ("estimator", "solver", "complete"):
        default = PostprocessSection.model_fields[key].default
        found += [f"postprocess.{key}"] if postprocess.get(key, default) != default else []
    found += ["privacy.framework"] if privacy.get("framework") == "local" else []
    for key in found:
        problems.add(key, NOT_WITH)


def note_untried_of_companion(section: CompanionSection, problems: Problems) -> None:
    """Note those of a companion, as `problems` of it."""
    found = [key for key in _UNTRIED if getattr(section, key, None)]
    found += [part.named_by for part in section.parts if part.named_by]
    found += ["schema.recodes"] if section.schema_section.recodes else []
    found += ["passes"] if tuple(section.passes) != ("total",) else []
    found += ["privacy.unit"] if section.privacy.unit is not None else []
    for key in found:
        problems.add(key, NOT_WITH)


@dataclass(frozen=True)
class Portion:
    """What some cliques have of the budget of all.

    Attributes:
        budget: as a part of the whole.
        levels: level -> its share of that, and of each clique that is measured there, its share of the level's.
    """

    budget: Fraction
    levels: Mapping[str, tuple[Fraction, Mapping[Clique, Fraction]]]


@dataclass(frozen=True)
class BudgetParts:
    """Parts of the budget of all cliques.

    Attributes:
        of: of each clique at every level that `at` does not name.
        at: level -> clique -> its part there, 0 where it is not measured.
    """

    of: Mapping[Clique, int]
    at: Mapping[str, Mapping[Clique, int]]

    @classmethod
    def stated(
        cls, section: MarginalsSection, domain: AttributeSizes, cliques: Sequence[Clique], levels: Sequence[str]
    ) -> BudgetParts:
        """Those of a section, 1 where none is stated; Misfit for what is no clique or level, or leaves one nothing."""
        of = {**dict.fromkeys(cliques, 1), **_of_cliques(section.parts or {}, ["parts"], domain, cliques)}
        at: dict[str, Mapping[Clique, int]] = {}
        for level, stated in (section.parts_at or {}).items():
            key = ["parts_at", level]
            if level not in levels:
                raise Misfit((dotted(["marginals", *key]), unknown("level", level, levels, are="the levels are")))
            at[level] = {**of, **_of_cliques(stated, key, domain, cliques)}
            if not any(at[level].values()):
                raise Misfit(
                    (dotted(["marginals", *key]), "no clique has a part at this level; one at least needs one")
                )
        return cls(of, at)

    def part(self, clique: Clique, level: str) -> int:
        """Of a clique at a level."""
        return self.at[level][clique] if level in self.at else self.of[clique]

    def whole(self, level: str) -> int:
        """The sum of all parts at a level."""
        return sum(self.at.get(level, self.of).values())

    def unused(self, domain: AttributeSizes, shares: Mapping[str, Fraction]) -> tuple[str, str] | None:
        """The key of `[marginals]` of parts that nothing can come of, and why; None where there are none."""
        if empty := [level for level in self.at if not shares.get(level)]:
            return dotted(
                ["parts_at", empty[0]]
            ), "this level has no share of the budget, so there is nothing to divide"
        measured = [level for level, share in shares.items() if share]
        if never := [one for one in self.of if not any(self.part(one, level) for level in measured)]:
            return "parts_at", f"{domain.text(never[0])} would be measured at no level; at one at least it needs a part"
        return None

    def portion(self, cliques: Sequence[Clique], shares: Mapping[str, Fraction]) -> Portion:
        """What some cliques have, where each level has its share of the budget of all."""
        own = {level: sum(self.part(clique, level) for clique in cliques) for level in shares}
        spent = {level: share * Fraction(own[level], self.whole(level)) for level, share in shares.items()}
        budget = sum(spent.values(), Fraction(0))
        found: dict[str, tuple[Fraction, Mapping[Clique, Fraction]]] = {}
        for level in shares:
            parts = {one: self.part(one, level) for one in cliques if self.part(one, level) and shares[level]}
            found[level] = (
                spent[level] / budget if budget else Fraction(0),
                {clique: Fraction(part, own[level]) for clique, part in parts.items()},
            )
        return Portion(budget, found)


def _of_cliques(
    stated: Mapping[str, int], place: Sequence[str], domain: AttributeSizes, cliques: Sequence[Clique]
) -> dict[Clique, int]:
    parts: dict[Clique, int] = {}
    for text, part in stated.items():
        key = dotted(["marginals", *place, text])
        try:
            clique = domain.table(terms_of(text))
        except InputError as error:
            raise Misfit((key, str(error).partition(": ")[2])) from None
        if clique not in cliques:
            known = ", ".join(map(domain.query, cliques))
            raise Misfit((key, f"found {text!r}, which is no clique; allowed are {known}"))
        if clique in parts:
            raise Misfit((key, f"found a part of {domain.text(clique)} twice; each clique has one"))
        parts[clique] = part
    return parts


#: Keys of [strategy] besides `levels`, in specs without cliques.
_OF_STRATEGY: Final = ("preset", "queries")
#: What a spec says of all records: it is divided, too.
_KNOWN: Final = ("invariants", "structural_zeros")
#: Tables of a spec that are read before anything is divided.
_READ: Final[tuple[tuple[str, type[BaseModel]], ...]] = (
    ("marginals", MarginalsSection),
    ("schema", SchemaSection),
    ("privacy", PrivacySection),
    ("input", InputSpec),
)
#: Keys of [marginals] that stand in what a run publishes alone.
_OF_RUNS: Final = ("chosen", "budget")
_BY_A_RUN: Final = "is stated by a run, in what it publishes; leave it out"


class _KnownSections(Section):
    """The keys of a spec that say what is known of all records, see `UniverseSections`."""

    invariants: Table[tuple[str, ...]] = Field(default={})
    structural_zeros: StructuralZeros = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> _KnownSections:
        """Those that a spec's tables have."""
        return cls.model_validate({key: content[key] for key in _KNOWN if key in content})


class _Divided(dict[str, Any]):
    """The table [marginals] of a spec that is divided already."""


def divided(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """A spec's tables with a universe for each table of the tree; those of a published spec as they are.

    A spec whose tables are wrong by themselves is left as it is, and is refused when it is read.

    Raises:
        Misfit: cliques that do not fit, or what was not tried with them.
    """
    if any(not isinstance(content.get(key, {}), Mapping) for key, _ in _READ):
        return content
    stated = content["marginals"]
    if isinstance(stated, _Divided):
        return content
    problems = Problems("")
    note_untried_keys(content, problems)
    if stated.get("attributes") is not None:
        if isinstance(content.get("schema", {}).get("attributes"), Mapping):
            # In a published spec tables in order are lists of pairs; any other is refused for these when it is read.
            problems.add("marginals.attributes", _BY_A_RUN)
        _raise(problems)
        return content
    if own := [key for key in _OF_RUNS if key in stated]:
        problems.add(f"marginals.{own[0]}", _BY_A_RUN)
    try:
        for key, model in _READ:
            if key in content or key == "schema":
                model.model_validate(content.get(key, {}))
        _KnownSections.of(content)
    except ValidationError:
        return content
    if amounts := MarginalsSection.model_validate(stated).amounts:
        content = with_amounts(content, amounts, problems)
        _raise(problems)
    if not content["schema"]["attributes"]:
        problems.add("schema.attributes", "found none; the cliques are of these")
    if content.get("companions"):
        problems.add("companions", f"{NOT_WITH}; each table of the tree is a companion")
    _raise(problems)
    return _Division.of(content).content()


def decided(section: MarginalsSection, cliques: Sequence[Sequence[str]], chosen: ChosenPairsSection) -> dict[str, Any]:
    """The tables of a spec whose cliques were to be chosen, divided by those that were.

    Args:
        section: of the spec, undivided.
        cliques: pairs in the order in which they were chosen, then attributes that are in none.
        chosen: where they are from.
    """
    assert section.undivided is not None
    content, _ = section.undivided
    stated = {"cliques": [list(names) for names in cliques], "chosen": chosen.model_dump()}
    divided = _Division.of(content, cliques).content()
    return {**divided, "marginals": _Divided({**divided["marginals"], **stated})}


def _raise(problems: Problems) -> None:
    if problems.lines:
        raise Misfit(*(tuple(line.split(": ", 1)) for line in problems.lines))  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Division:
    """A spec that is divided: what it states, what that means, and what of it cannot be divided.

    Attributes:
        whole: its tables.
        stated: its section.
        attributes: all, with their values.
        tree: of the cliques.
        cliques: as declared, in ascending order of attributes.
        parts: of the budget, of each.
        known: what the spec says of all records.
        levels: of the spine; none where what is stated is wrong by itself.
        terms: on which they are chosen; None where they are declared.
    """

    whole: Mapping[str, Any]
    stated: MarginalsSection
    attributes: Mapping[str, Sequence[str]]
    tree: JunctionTree
    cliques: tuple[Clique, ...]
    parts: BudgetParts
    known: _KnownSections
    levels: tuple[str, ...]
    terms: ChoiceTerms | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any], cliques: Sequence[Sequence[str]] | None = None) -> _Division:
        """Of a spec's tables; `cliques` are those that were chosen, where it leaves them to a choice."""
        stated = MarginalsSection.model_validate(content["marginals"])
        attributes = SchemaSection.model_validate(content["schema"]).attributes
        terms = None if stated.choose is None else _terms(stated, content, attributes)
        if stated.choose is not None:
            # Without terms something is wrong by itself, which is seen of any cliques: here, each attribute alone.
            alone = [(name,) for name in attributes]
            names = cliques or (alone if terms is None else list(map(terms.domain.named, terms.provisional)))
            stated = stated.model_copy(update={"cliques": tuple(map(tuple, names))})
        known, levels = _KnownSections.of(content), _level_names(content)
        sizes = {name: len(values) for name, values in attributes.items()}
        tree, found = tree_of(stated, sizes, known.invariants if levels else {}, levels)
        parts = BudgetParts.stated(stated, tree.domain, found, levels or tuple(stated.parts_at or ()))
        return cls(content, stated, attributes, tree, found, parts, known, levels, terms)

    def content(self) -> dict[str, Any]:
        """The tables of the spec with a universe for each bag.

        Raises:
            Misfit: with all that cannot be divided.
        """
        problems = Problems("")
        self._note(problems)
        _raise(problems)
        self._note_once(problems)
        tables = dict(self._tables_at_home(problems))
        zeros = self._zeros(problems)
        _raise(problems)
        names = universe_names(self.tree)
        own, *others = (self._universe(number, tables, zeros[number]) for number in range(len(names)))
        marginals: dict[str, Any] = {**self.whole["marginals"], "attributes": list(self.attributes)}
        if self.terms is not None:
            marginals |= {"cliques": [list(one) for one in self.stated.cliques or ()]}
            marginals = Undivided(marginals | {"budget": str(self.terms.budget)}, self.whole)
        divided = {
            **{key: value for key, value in self.whole.items() if key not in _KNOWN},
            **own,
            "privacy": {**self.whole["privacy"], **own["privacy"]},
            "companions": dict(zip(names[1:], others, strict=True)),
            "marginals": marginals,
        }
        if isinstance(provenance := self.whole.get("provenance"), Mapping):
            divided["provenance"] = _of_all_universes(provenance, own["schema"], names[1:])
        return divided

    # -- what it states -----------------------------------------------------------------------------------------------

    @property
    def budget_key(self) -> str:
        """The key of the budget in [privacy]."""
        return "epsilon" if self.whole.get("privacy", {}).get("framework") == "pure" else "rho"

    @cached_property
    def budget(self) -> Fraction | None:
        """Of the cliques; None where none is stated."""
        return _budget_of(self.whole) if self.terms is None else self.terms.rest

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """Level -> its share of the budget; none where what is stated is wrong by itself."""
        return _shares(self.whole, self.levels)

    @property
    def tables(self) -> Mapping[str, Any] | None:
        """The published tables; None where by default there is one of each query that is measured."""
        tables = self.whole.get("tables")
        return tables if isinstance(tables, Mapping) else None

    @cached_property
    def measured(self) -> tuple[tuple[Clique, ...], ...]:
        """The declared cliques that are measured in each bag, see `cliques.homes`."""
        found = homes(self.tree.bags, self.cliques)
        home = self.tree.bag_of if found is None else found.get
        return tuple(
            tuple(clique for clique in self.cliques if home(clique) == number) for number in range(len(self.tree.bags))
        )

    # -- what of it cannot be divided ---------------------------------------------------------------------------------

    def _note(self, problems: Problems) -> None:
        """Note what is wrong of the spec as a whole."""
        strategy = self.whole.get("strategy")
        levels = strategy.get("levels") if isinstance(strategy, Mapping) else None
        extra = [key for key in _OF_STRATEGY if isinstance(strategy, Mapping) and strategy.get(key) is not None]
        if not isinstance(levels, Mapping) or extra:
            problems.add("strategy", "with [marginals] it has the share of each level and nothing else, levels = {...}")
        elif wrong := [
            level for level, share in levels.items() if isinstance(share, Mapping) and set(share) != {"share"}
        ]:
            problems.add(dotted(["strategy", "levels", wrong[0]]), "with [marginals], the cliques are what is measured")
        if self.budget is None:
            problems.add(f"privacy.{self.budget_key}", "missing; the whole budget, of which each clique has a part")
        given = self.whole.get("input")
        if isinstance(given, Mapping) and given.get("form") != "microdata":
            problems.add(
                "input.form", f'found {given.get("form")!r}; with [marginals] records are "microdata", a row each'
            )
        if self.stated.choose is not None:
            self._note_unknown_tables(problems)
        if self.known.invariants and self.stated.choose is not None:
            problems.add("invariants", "not together with [marginals.choose] yet; leave one of the two out")
        elif self.known.invariants and self.whole["privacy"].get("neighbours") == "add-remove":
            problems.add(
                "invariants",
                'with neighbours = "add-remove", inputs that differ in whether a record is there never agree on an '
                'invariant, which counts every record; leave them out, or let privacy.neighbours be "change-one"',
            )
        if self.parts.at and self.shares and (unused := self.parts.unused(self.tree.domain, self.shares)):
            problems.add(f"marginals.{unused[0]}", unused[1])
        for bag, cliques in zip(self.tree.bags, self.measured, strict=True):
            if not cliques:
                text = self.tree.domain.text(bag)
                problems.add("marginals.cliques", f"nothing would be measured of {text} alone; declare it as a clique")

    def _note_unknown_tables(self, problems: Problems) -> None:
        """Note tables that may cross cliques which are not chosen yet, and labels of tables that may not be there."""
        for name, table in (self.tables or {}).items():
            terms = terms_of(_query_of_table(table))
            if len(terms) > 1:
                problems.add(
                    dotted(["tables", name]),
                    f"found {' * '.join(terms)!r}; which pairs are measured is chosen in the run: name tables of one "
                    "attribute, or leave [tables] out and have one of each pair",
                )
        labels = self.whole["schema"].get("labels")
        if isinstance(labels, Mapping) and labels.get("tables") and self.tables is None:
            problems.add("schema.labels.tables", "which tables there are is chosen in the run; leave it out")

    def _note_once(self, problems: Problems) -> None:
        """Note what is wrong in every universe, such as shares of levels, or is of none, such as labels of nothing."""
        if not (levels := self.levels):
            return  # which is said where it stands
        try:
            schema = Schema(tuple(Attribute(name, tuple(values)) for name, values in self.attributes.items()))
            stated = _strategy_of_levels(self.whole["strategy"]["levels"])
        except SpecError as error:
            problems.add("", str(error))
        except ValidationError as error:
            note_validation_error(error, StrategySection, problems.at("strategy"))
        else:
            resolve_strategy(stated, None, schema, list(levels), problems.at("strategy"))
            if "input" in self.whole:
                check_input(InputSpec.model_validate(self.whole["input"]), schema, problems)
            if labels := SchemaSection.model_validate(self.whole["schema"]).labels:
                measured = [query_file_name(self.tree.domain.query(clique)) for own in self.measured for clique in own]
                tables = measured if self.tables is None else list(self.tables)
                note_unknown_labels(labels, schema, tables, problems.at("schema.labels"))

    def _tables_at_home(self, problems: Problems) -> Iterator[tuple[str, int]]:
        """The number of the bag of each published table that is stated."""
        for name, table in (self.tables or {}).items():
            key, terms = dotted(["tables", name]), terms_of(_query_of_table(table))
            if strange := [term for term in terms if term not in self.attributes]:
                problems.add(key, unknown("attribute", strange[0], list(self.attributes)))
                continue
            clique = self.tree.domain.table(terms)
            if (home := self.tree.bag_of(clique)) is None:
                problems.add(key, guessed(self.tree, clique))
            else:
                yield name, home

    def _zeros(self, problems: Problems) -> list[list[Entry]]:
        """The combinations that cannot occur in each bag."""
        chosen = self.stated.choose is not None
        stated = self.known.structural_zeros
        entries = stated_entries(stated, self.attributes, self.tree, problems, chosen=chosen)
        try:
            return [] if problems.lines else carried(self.tree, self.attributes, entries)
        except InputError as error:
            problems.add("structural_zeros", str(error).partition(": ")[2])
            return []

    # -- its universes ------------------------------------------------------------------------------------------------

    def _universe(self, number: int, homes: Mapping[str, int], zeros: Sequence[Entry]) -> dict[str, Any]:
        """The sections of the universe of a bag.

        Args:
            number: of the bag.
            homes: published table -> the number of its bag, where tables are stated.
            zeros: the combinations that cannot occur in it.
        """
        bag, schema = self.tree.bags[number], self.whole["schema"]
        own = self.tree.domain.named(bag)
        part_of_budget, strategy = self._strategy(number)
        universe: dict[str, Any] = {
            "schema": {"attributes": {name: schema["attributes"][name] for name in own}},
            "strategy": strategy,
            "privacy": {self.budget_key: str((self.budget or 0) * part_of_budget)},
        }
        if self.tables is None:
            tables = [query_file_name(self.tree.domain.query(clique)) for clique in self.measured[number]]
        else:
            tables = [name for name in self.tables if homes[name] == number]
            universe["tables"] = {name: self.tables[name] for name in tables}
        if self.known.invariants:
            universe["invariants"] = invariants_within(self.tree.domain, self.known.invariants, self.levels, bag)
        if zeros:
            universe["structural_zeros"] = [{name: list(values) for name, values in entry.items()} for entry in zeros]
        if isinstance(labels := schema.get("labels"), Mapping):
            of_own = _of_names(labels, own, ("attributes", "values"))
            universe["schema"]["labels"] = _of_names(of_own, tables, ("tables",))
        if isinstance(given := self.whole.get("input"), Mapping):
            universe["input"] = _of_names(given, own, ("columns", "values"))
        if number:
            universe |= {key: self.whole[key] for key in ("records_per_person",) if key in self.whole}
            if dataset := self.whole["privacy"].get("dataset"):
                universe["privacy"]["dataset"] = dataset
        return universe

    def _strategy(self, number: int) -> tuple[Fraction, dict[str, Any]]:
        """The part of the cliques' budget that the universe of a bag has, and its section [strategy]."""
        cliques, stated = self.measured[number], self.whole["strategy"]
        # Keys that no strategy has are left to the release's own universe, which is refused for them.
        others = {} if number else stated
        if self.parts.at and self.shares:
            portion = self.parts.portion(cliques, self.shares)
            levels = {
                level: {"share": str(share)} | ({"queries": self._shares_of(own)} if own else {})
                for level, (share, own) in portion.levels.items()
            }
            return portion.budget, {**others, "levels": levels}
        parts = {clique: self.parts.of[clique] for clique in cliques}
        whole = sum(parts.values())
        queries = self._shares_of({clique: Fraction(part, whole) for clique, part in parts.items()})
        of_all = Fraction(whole, sum(self.parts.of.values()))
        return of_all, {**others, "queries": queries, "levels": stated["levels"]}

    def _shares_of(self, cliques: Mapping[Clique, Fraction]) -> dict[str, str]:
        """The queries of cliques, with their shares."""
        return {self.tree.domain.query(clique): str(share) for clique, share in cliques.items()}


# -- what a spec's tables state, so far as they are right by themselves -----------------------------------------------


def _level_names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The levels, top first; none where these are wrong by themselves."""
    levels = _stated_levels(content)
    return tuple(levels) if all(isinstance(level, str) for level in levels) else ()


def _stated_levels(content: Mapping[str, Any]) -> Sequence[Any]:
    geography = content.get("geography")
    levels = geography.get("levels") if isinstance(geography, Mapping) else None
    return list(levels) if isinstance(levels, Mapping | list | tuple) else []


def _strategy_of_levels(levels: Mapping[str, Any]) -> StrategySection:
    """The section of shares of levels alone; ValidationError where these are wrong."""
    return StrategySection.model_validate({"levels": levels, "queries": {"total": "1"}})


def _shares(content: Mapping[str, Any], levels: Sequence[str]) -> dict[str, Fraction]:
    """Level -> its share of the budget; none where what is stated is wrong by itself."""
    strategy = content.get("strategy")
    stated = strategy.get("levels") if isinstance(strategy, Mapping) else None
    if not isinstance(stated, Mapping):
        return {}
    try:
        found = _strategy_of_levels(stated).levels
    except ValidationError:
        return {}
    return {level: share for level in levels if level in found and (share := found[level].share) is not None}


def _budget_of(content: Mapping[str, Any]) -> Fraction | None:
    """The declared budget; None where none is stated."""
    privacy = PrivacySection.model_validate(content.get("privacy", {}))
    return privacy.epsilon if privacy.framework == "pure" else privacy.rho


def _terms(
    stated: MarginalsSection, content: Mapping[str, Any], attributes: Mapping[str, Sequence[str]]
) -> ChoiceTerms | None:
    """On which terms pairs are chosen; None where what these need is wrong by itself.

    Raises:
        Misfit: the section does not fit the attributes or the budget.
    """
    privacy, budget = PrivacySection.model_validate(content.get("privacy", {})), _budget_of(content)
    levels, records = _stated_levels(content), content.get("records_per_person")
    shares = _shares(content, [level for level in levels if isinstance(level, str)])
    top_share = next((share for share in shares.values() if share), None)
    if budget is None or top_share is None:
        return None
    per_person = records if isinstance(records, int) and records > 0 else 1
    promise = privacy.framework, privacy.neighbours, per_person
    return stated_terms(stated, attributes, promise, budget, str(levels[0]), top_share)


def _query_of_table(table: Any) -> str:
    """What a published table is of, as stated."""
    return str(table.get("query") if isinstance(table, Mapping) else table)


# -- parts of tables --------------------------------------------------------------------------------------------------


def _of_names(table: Mapping[str, Any], names: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
    """A table in which the tables `keys`, by attribute or by another name, have some of the names."""
    within = {
        key: {name: value for name, value in table[key].items() if name in names}
        for key in keys
        if isinstance(table.get(key), Mapping)
    }
    return {**table, **within}


def _of_all_universes(
    provenance: Mapping[str, Any], schema: Mapping[str, Any], others: Sequence[str]
) -> dict[str, Any]:
    """Where inputs come from: attributes and labels of other universes from where those of the whole table are from.

    Args:
        provenance: of the whole table.
        schema: of the release's own universe.
        others: names of the other universes.
    """
    found, inputs, accept = dict(provenance), provenance.get("inputs"), provenance.get("accept")
    shared = ["schema", *(["labels"] if "labels" in schema else [])]
    names = {key: [f"companions.{name}.{key}" for name in others] for key in shared}
    if isinstance(inputs, Mapping):
        copied = {name: inputs[key] for key in shared if isinstance(inputs.get(key), Mapping) for name in names[key]}
        found["inputs"] = {**copied, **inputs}
    if isinstance(accept, list | tuple):
        accepted = [name for key in shared if key in accept for name in names[key]]
        found["accept"] = [*accept, *(name for name in accepted if name not in accept)]
    return found
