"""From the section [marginals] to a universe for each table of the junction tree, which the core measures as any other.

The release's own universe is the tree's first table; the others are companions, called after their attributes. Each has
its attributes, a part of the budget, its own noise, files and tables, and the release's own records. A published spec
has them written out, and all attributes in their order in `attributes` of `[marginals]`. Where pairs are yet to be
chosen there are universes of as many pairs that could be, which have the same noise; see `decided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field, ValidationError

from features.marginals.bins import Bins, with_amounts
from features.marginals.choice import unlike_a_choice
from features.marginals.cliques import JunctionTree, homes, junction_tree
from features.marginals.domain import Clique, Domain
from features.marginals.exact import chain_of, check_within, exact_tables, invariants_within
from features.marginals.guess import needed
from features.marginals.parts import Parts
from features.marginals.section import ChosenSection, MarginalsSection, Undivided
from features.marginals.terms import Terms
from features.marginals.zeros import Entry, are_carried, carried, stated_entries
from geography.codes import counted
from geography.errors import InputError
from pipeline.errors import SpecError
from pipeline.model.query import terms_of
from pipeline.model.schema import Attribute, Schema
from pipeline.release.layout import query_file_name
from pipeline.spec.fields import FilledTable, FilledValues, Misfit, Section, Sentences, Table, check_name
from pipeline.spec.input.section import InputSpec, check_input
from pipeline.spec.privacy_section import PrivacySection
from pipeline.spec.problems import Problems, dotted, note_validation_error, unknown
from pipeline.spec.resolve import StatesMeasure
from pipeline.spec.resolve_strategy import resolve_strategy
from pipeline.spec.sections import (
    CompanionSection,
    PostprocessSection,
    SchemaSection,
    StrategySection,
    UniverseSections,
)
from pipeline.spec.wording.resolve import note_unknown_labels

if TYPE_CHECKING:
    from pipeline.model.universe import Universe
    from pipeline.spec.release_spec import ReleaseSpec

#: Sections and keys that no release of marginals was tried with.
_UNTRIED: Final = (*("bounds", "select", "join", "household_tables", "questions", "collect", "series"),)
#: Keys of [strategy] besides `levels`, in specs without cliques.
_OF_STRATEGY: Final = ("preset", "queries", "derived_from")
#: What a spec says of all records: it is divided, too.
_KNOWN: Final = ("invariants", "structural_zeros", "impossible")
#: Tables of a spec that are read before anything is divided.
_READ: Final[tuple[tuple[str, type[BaseModel]], ...]] = (
    ("marginals", MarginalsSection),
    ("schema", SchemaSection),
    ("privacy", PrivacySection),
    ("input", InputSpec),
)


class _KnownSections(Section):
    """The keys of a spec that say what is known of all records, see `UniverseSections`."""

    invariants: Table[tuple[str, ...]] = Field(default={})
    structural_zeros: tuple[FilledTable[FilledValues], ...] = ()
    impossible: Sentences | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> _KnownSections:
        """Those that a spec's tables have."""
        return cls.model_validate({key: content[key] for key in _KNOWN if key in content})


def divided(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """A spec's tables with a universe for each table of the tree; those of a published spec as they are.

    A spec whose tables are wrong by themselves is left as it is, and is refused when it is read.

    Raises:
        Misfit: cliques that do not fit, or what was not tried with them.
    """
    if any(not isinstance(content.get(key, {}), Mapping) for key, _ in _READ):
        return content
    problems = Problems("")
    _note_untried_keys(content, problems)
    stated = content["marginals"]
    if isinstance(stated, _Divided):
        return content
    if stated.get("attributes") is None and (own := [key for key in _OF_RUNS if key in stated]):
        problems.add(f"marginals.{own[0]}", "is stated by a run, in what it publishes; leave it out")
    if stated.get("attributes") is not None and isinstance(content.get("schema", {}).get("attributes"), Mapping):
        # In a published spec tables in order are lists of pairs, which any other spec is refused for when it is read.
        problems.add("marginals.attributes", "is stated by a run, in what it publishes; leave it out")
    elif stated.get("attributes") is None:
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
            problems.add("companions", f"{_NOT_WITH}; each table of the tree is a companion")
        _raise(problems)
        return _Division.of(content).content()
    _raise(problems)
    return content


class _Divided(dict[str, Any]):
    """The table [marginals] of a spec that is divided already."""


def decided(section: MarginalsSection, cliques: Sequence[Sequence[str]], chosen: ChosenSection) -> dict[str, Any]:
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


#: Keys of [marginals] that stand in what a run publishes alone.
_OF_RUNS: Final = ("chosen", "budget")
_NOT_WITH: Final = "not together with [marginals] yet; leave one of the two out"


def _raise(problems: Problems) -> None:
    if problems.lines:
        raise Misfit(*(tuple(line.split(": ", 1)) for line in problems.lines))  # type: ignore[arg-type]


def _note_untried_keys(content: Mapping[str, Any], problems: Problems) -> None:
    """Note what no release of marginals was tried with, so far as tables are tables."""

    def of(section: str) -> Mapping[str, Any]:
        found = content.get(section)
        return found if isinstance(found, Mapping) else {}

    found = [key for key in _UNTRIED if content.get(key)]
    found += [f"privacy.{key}" for key in ("unit", "at_most") if of("privacy").get(key)]
    found += [f"publish.{key}" for key in ("unbiased", "draws") if of("publish").get(key)]
    found += ["geography.bypass"] if of("geography").get("bypass") else []
    found += ["schema.recodes"] if of("schema").get("recodes") else []
    found += ["postprocess.shares"] if of("postprocess").get("shares") else []
    if of("postprocess").get("passes", ["total"]) not in (["total"], ("total",)):
        found.append("postprocess.passes")
    for key in ("estimator", "solver", "complete"):
        default = PostprocessSection.model_fields[key].default
        found += [f"postprocess.{key}"] if of("postprocess").get(key, default) != default else []
    if of("privacy").get("framework") == "local":
        found.append("privacy.framework")
    for key in found:
        problems.add(key, _NOT_WITH)


@dataclass(frozen=True)
class _Division:
    """A spec that is divided.

    Attributes:
        content: its tables.
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
    parts: Parts
    known: _KnownSections
    levels: tuple[str, ...]
    terms: Terms | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any], cliques: Sequence[Sequence[str]] | None = None) -> _Division:
        """Of a spec's tables; `cliques` are those that were chosen, where it leaves them to a choice."""
        stated = MarginalsSection.model_validate(content["marginals"])
        attributes = SchemaSection.model_validate(content["schema"]).attributes
        terms = None if stated.choose is None else _terms_of_tables(stated, content, attributes)
        if terms is not None:
            domain = terms.domain
            names = cliques or [[domain.names[a] for a in clique] for clique in terms.provisional]
            stated = stated.model_copy(update={"cliques": tuple(map(tuple, names))})
        known, levels = _KnownSections.of(content), _level_names(content)
        sizes = {name: len(values) for name, values in attributes.items()}
        tree, found = tree_of(stated, sizes, known.invariants if levels else {}, levels)
        parts = Parts.stated(stated, tree.domain, found, levels or tuple(stated.parts_at or ()))
        return cls(content, stated, attributes, tree, found, parts, known, levels, terms)

    def content(self) -> dict[str, Any]:
        """The tables of the spec with a universe for each bag."""
        problems = Problems("")
        self._note(problems)
        _raise(problems)
        self._note_once(problems)
        homes = dict(self._tables_at_home(problems))
        zeros = self._zeros(problems)
        _raise(problems)
        names = universe_names(self.tree)
        parts = [self._universe(number, homes, zeros[number]) for number in range(len(self.tree.bags))]
        privacy = {**self.whole["privacy"], **parts[0]["privacy"]}
        marginals: dict[str, Any] = {**self.whole["marginals"], "attributes": list(self.attributes)}
        if self.terms is not None:
            marginals |= {"cliques": [list(names) for names in self.stated.cliques or ()]}
            marginals = Undivided(marginals | {"budget": str(self.terms.budget)}, self.whole)
        companions = dict(zip(names[1:], parts[1:], strict=True))
        whole = {key: value for key, value in self.whole.items() if key not in _KNOWN}
        divided = {**whole, **parts[0], "privacy": privacy, "companions": companions, "marginals": marginals}
        if isinstance(provenance := self.whole.get("provenance"), Mapping):
            divided["provenance"] = _of_all_universes(provenance, parts[0]["schema"], names[1:])
        return divided

    def _note(self, problems: Problems) -> None:
        """Note what the tables of the spec have that cannot be divided."""
        strategy = self.whole.get("strategy")
        levels = strategy.get("levels") if isinstance(strategy, Mapping) else None
        extra = [key for key in _OF_STRATEGY if isinstance(strategy, Mapping) and strategy.get(key) is not None]
        if not isinstance(levels, Mapping) or extra:
            problems.add("strategy", "with [marginals] it has the share of each level and nothing else, levels = {...}")
        elif wrong := [
            level for level, share in levels.items() if isinstance(share, Mapping) and set(share) != {"share"}
        ]:
            problems.add(dotted(["strategy", "levels", wrong[0]]), "with [marginals], the cliques are what is measured")
        if self._budget is None:
            problems.add(f"privacy.{self._budget_key}", "missing; the whole budget, of which each clique has a part")
        given = self.whole.get("input")
        if isinstance(given, Mapping) and given.get("form") != "microdata":
            problems.add(
                "input.form", f'found {given.get("form")!r}; with [marginals] records are "microdata", a row each'
            )
        if self.terms is not None:
            self._note_unknown_tables(problems)
        if self.known.invariants and self.stated.choose is not None:
            problems.add("invariants", "not together with [marginals.choose] yet; leave one of the two out")
        elif self.known.invariants and self.whole["privacy"].get("neighbours") == "add-remove":
            problems.add(
                "invariants",
                'with neighbours = "add-remove", inputs that differ in whether a record is there never agree on an '
                'invariant, which counts every record; leave them out, or let privacy.neighbours be "change-one"',
            )
        shares = self._shares if isinstance(levels, Mapping) and self.parts.at else {}
        if shares and (unused := self.parts.unused(self.tree.domain, shares)):
            problems.add(f"marginals.{unused[0]}", unused[1])
        for bag in self.tree.bags:
            if not self._measured(bag):
                text = self.tree.domain.text(bag)
                problems.add("marginals.cliques", f"nothing would be measured of {text} alone; declare it as a clique")

    def _note_unknown_tables(self, problems: Problems) -> None:
        """Note tables that may cross cliques which are not chosen yet, and labels of tables that may not be there."""
        tables, schema = self.whole.get("tables"), self.whole["schema"]
        for name, table in tables.items() if isinstance(tables, Mapping) else ():
            terms = terms_of(str(table.get("query") if isinstance(table, Mapping) else table))
            if len(terms) > 1:
                problems.add(
                    dotted(["tables", name]),
                    f"found {' * '.join(terms)!r}; which pairs are measured is chosen in the run: name tables of one "
                    "attribute, or leave [tables] out and have one of each pair",
                )
        labels = schema.get("labels")
        if isinstance(labels, Mapping) and labels.get("tables") and not isinstance(tables, Mapping):
            problems.add("schema.labels.tables", "which tables there are is chosen in the run; leave it out")

    def _note_once(self, problems: Problems) -> None:
        """Note what is wrong in every universe, such as shares of levels, or is of none, such as labels of nothing."""
        if not (levels := self.levels):
            return  # which is said where it stands
        try:
            schema = Schema(tuple(Attribute(name, tuple(values)) for name, values in self.attributes.items()))
            shares = self.whole["strategy"]["levels"]
            stated = StrategySection.model_validate({"levels": shares, "queries": {"total": "1"}})
        except SpecError as error:
            problems.add("", str(error))
        except ValidationError as error:
            note_validation_error(error, StrategySection, problems.at("strategy"))
        else:
            resolve_strategy(stated, None, schema, list(levels), problems.at("strategy"))
            if "input" in self.whole:
                check_input(InputSpec.model_validate(self.whole["input"]), schema, problems)
            if labels := SchemaSection.model_validate(self.whole["schema"]).labels:
                note_unknown_labels(labels, schema, self._all_tables, problems.at("schema.labels"))

    def _tables_at_home(self, problems: Problems) -> Iterator[tuple[str, int]]:
        """The bag of each published table."""
        tables = self.whole.get("tables")
        for name, table in tables.items() if isinstance(tables, Mapping) else ():
            text = table.get("query") if isinstance(table, Mapping) else table
            key = dotted(["tables", name])
            terms = terms_of(str(text))
            if strange := [term for term in terms if term not in self.attributes]:
                problems.add(key, unknown("attribute", strange[0], list(self.attributes)))
                continue
            clique = self.tree.domain.clique(terms) if terms else ()
            if (home := self.tree.bag_of(clique)) is None:
                lacking = needed(self.tree, clique)
                problems.add(key, lacking.text if lacking is not None else "crosses cliques")
            else:
                yield name, home

    def _zeros(self, problems: Problems) -> list[list[Entry]]:
        """The combinations that cannot occur in each bag."""
        chosen = self.stated.choose is not None
        stated = self.known.structural_zeros, self.known.impossible or ()
        entries = stated_entries(*stated, self.attributes, self.tree, problems, chosen=chosen)
        try:
            return [] if problems.lines else carried(self.tree, self.attributes, entries)
        except InputError as error:
            problems.add(
                "structural_zeros" if self.known.structural_zeros else "impossible", str(error).partition(": ")[2]
            )
            return []

    @property
    def _shares(self) -> dict[str, Fraction]:
        """Level -> its share of the budget; none where what is stated is wrong by itself."""
        stated = {"levels": self.whole["strategy"]["levels"], "queries": {"total": "1"}}
        try:
            levels = StrategySection.model_validate(stated).levels
        except ValidationError:
            return {}
        return {
            level: share
            for level in self.levels
            if (share := levels[level].share if level in levels else None) is not None
        }

    @property
    def _budget_key(self) -> str:
        return "epsilon" if self.whole.get("privacy", {}).get("framework") == "pure" else "rho"

    @property
    def _budget(self) -> Fraction | None:
        """Of the cliques."""
        return self._declared if self.terms is None else self.terms.rest

    @property
    def _declared(self) -> Fraction | None:
        section = PrivacySection.model_validate(self.whole.get("privacy", {}))
        return section.epsilon if self._budget_key == "epsilon" else section.rho

    def _measured(self, bag: Clique) -> list[Clique]:
        """The declared cliques that are measured in a bag, see `cliques.homes`."""
        number, found = self.tree.bags.index(bag), homes(self.tree.bags, self.cliques)
        home = self.tree.bag_of if found is None else found.get
        return [clique for clique in self.cliques if home(clique) == number]

    def _queries(self, number: int) -> list[str]:
        """What is measured in a universe, as queries."""
        names = self.tree.domain.names
        return [" * ".join(names[a] for a in clique) for clique in self._measured(self.tree.bags[number])]

    @property
    def _all_tables(self) -> list[str]:
        """The names of all tables."""
        if isinstance(stated := self.whole.get("tables"), Mapping):
            return list(stated)
        return [query_file_name(text) for number in range(len(self.tree.bags)) for text in self._queries(number)]

    def _tables_of(self, number: int, homes: Mapping[str, int]) -> list[str]:
        """The names of the tables of a universe: by default, one of each query that is measured."""
        if isinstance(stated := self.whole.get("tables"), Mapping):
            return [name for name in stated if homes[name] == number]
        return [query_file_name(text) for text in self._queries(number)]

    def _universe(self, number: int, homes: Mapping[str, int], zeros: Sequence[Entry]) -> dict[str, Any]:
        """The sections of one universe."""
        bag = self.tree.bags[number]
        own = [self.tree.domain.names[a] for a in bag]
        parts = [self.parts.of[clique] for clique in self._measured(bag)]
        queries = {
            text: str(Fraction(part, sum(parts))) for text, part in zip(self._queries(number), parts, strict=True)
        }
        budget = (self._budget or 0) * Fraction(sum(parts), sum(self.parts.of.values()))
        schema, strategy = self.whole["schema"], self.whole["strategy"]
        tables = self._tables_of(number, homes)
        part: dict[str, Any] = {
            "schema": {"attributes": {name: schema["attributes"][name] for name in own}},
            # Keys that no strategy has are left to the release's own universe, which is refused for them.
            "strategy": {**({} if number else strategy), "queries": queries, "levels": strategy["levels"]},
            "privacy": {self._budget_key: str(budget)},
        }
        if self.parts.at and (shares := self._shares):
            division = self.parts.divided(self._measured(bag), shares)
            part["privacy"] = {self._budget_key: str((self._budget or 0) * division.budget)}
            names = self.tree.domain.names
            part["strategy"] = {
                **({} if number else {key: value for key, value in strategy.items() if key != "levels"}),
                "levels": {
                    level: {"share": str(share)}
                    | (
                        {"queries": {" * ".join(names[a] for a in one): str(of) for one, of in own.items()}}
                        if own
                        else {}
                    )
                    for level, (share, own) in division.levels.items()
                },
            }
        stated_tables = self.whole.get("tables")
        if isinstance(stated_tables, Mapping):
            part["tables"] = {name: stated_tables[name] for name in tables}
        if self.known.invariants:
            part["invariants"] = invariants_within(self.tree.domain, self.known.invariants, self.levels, bag)
        if zeros:
            part["structural_zeros"] = [{name: list(values) for name, values in entry.items()} for entry in zeros]
        if isinstance(labels := schema.get("labels"), Mapping):
            part["schema"]["labels"] = _of_attributes(
                _of_attributes(labels, own, ("attributes", "values")), tables, ("tables",)
            )
        if isinstance(given := self.whole.get("input"), Mapping):
            part["input"] = _of_attributes(given, own, ("columns", "values"))
        if number:
            part |= {key: self.whole[key] for key in ("records_per_person",) if key in self.whole}
            if dataset := self.whole["privacy"].get("dataset"):
                part["privacy"]["dataset"] = dataset
        return part


def _level_names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The levels of a spec's tables, top first; none where these are wrong by themselves."""
    geography = content.get("geography")
    levels = geography.get("levels") if isinstance(geography, Mapping) else None
    if not isinstance(levels, Mapping | list | tuple) or not all(isinstance(level, str) for level in levels):
        return ()
    return tuple(levels)


def _of_attributes(table: Mapping[str, Any], names: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
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


def _terms_of_tables(
    stated: MarginalsSection, content: Mapping[str, Any], attributes: Mapping[str, Sequence[str]]
) -> Terms | None:
    """On which terms pairs are chosen, of a spec's tables; None where these are wrong by themselves.

    Raises:
        Misfit: the section does not fit the attributes or the budget.
    """
    privacy = PrivacySection.model_validate(content.get("privacy", {}))
    budget = privacy.epsilon if privacy.framework == "pure" else privacy.rho
    geography, strategy, records = (content.get(key) for key in ("geography", "strategy", "records_per_person"))
    levels = geography.get("levels") if isinstance(geography, Mapping) else None
    shares = strategy.get("levels") if isinstance(strategy, Mapping) else None
    if budget is None or not isinstance(levels, Mapping | list | tuple) or not isinstance(shares, Mapping):
        return None
    try:
        sections = StrategySection.model_validate({"levels": shares, "queries": {"total": "1"}}).levels
    except ValidationError:
        return None
    per_person = records if isinstance(records, int) and records > 0 else 1
    stated_shares = [sections[level].share for level in levels if level in sections]
    top_share = next((share for share in stated_shares if share), None)
    if top_share is None:
        return None
    privacy_terms = privacy.framework, privacy.neighbours, per_person
    return _terms(stated, attributes, privacy_terms, budget, str(next(iter(levels))), top_share)


def _terms(
    stated: MarginalsSection,
    attributes: Mapping[str, Sequence[str]],
    privacy: tuple[Any, Any, int],
    budget: Fraction,
    top: str,
    top_share: Fraction,
) -> Terms:
    """The terms; Misfit with the key of what does not fit. `privacy`: framework, neighbours, records of a person."""
    assert stated.choose is not None
    try:
        return Terms(stated.choose, attributes, *privacy, budget, top, top_share)
    except InputError as error:
        key, _, text = str(error).partition(": ")
        if key.split(".")[0] not in ("choose", "workload"):
            key, text = "choose", str(error)
        raise Misfit((f"marginals.{key.replace('workload', 'choose.weights')}", text)) from None


def choice_terms(stated: MarginalsSection, universes: Sequence[Universe]) -> Terms | None:
    """The terms of a spec that is divided; None where its cliques are declared. Errors as `tree_of`."""
    own = universes[0]
    if stated.choose is None or stated.budget is None:
        return None
    found = {one.name: one.values for universe in universes for one in universe.schema.attributes}
    attributes = {name: found[name] for name in stated.attributes or ()}
    top_share = next(level.share for level in own.strategy.levels if level.share)
    privacy = own.framework, own.neighbours, own.unit.records
    return _terms(stated, attributes, privacy, stated.budget, own.level_names[0], top_share)


def stated_cliques(
    stated: MarginalsSection | None, universes: Sequence[Universe]
) -> tuple[tuple[Attribute, ...], tuple[Clique, ...] | None]:
    """All attributes of a spec that is divided, and its cliques; None where they are yet to be chosen."""
    assert stated is not None
    found = {one.name: one for universe in universes for one in universe.schema.attributes}
    attributes = tuple(found[name] for name in stated.attributes or ())
    if stated.undivided is not None:
        return attributes, None
    return attributes, tree_of_universes(stated, attributes, universes[0])[1]


def tree_of_universes(
    stated: MarginalsSection, attributes: Sequence[Attribute], own: Universe
) -> tuple[JunctionTree, tuple[Clique, ...]]:
    """The same as `tree_of` of a spec that is divided; `own` is the release's own universe."""
    exact: dict[str, list[str]] = {}
    for level, query in own.invariants:
        exact.setdefault(level, []).append(query.name)
    return tree_of(stated, {one.name: len(one.values) for one in attributes}, exact, own.level_names)


def tree_of(
    stated: MarginalsSection,
    sizes: Mapping[str, int],
    invariants: Mapping[str, Sequence[str]],
    levels: Sequence[str],
) -> tuple[JunctionTree, tuple[Clique, ...]]:
    """The junction tree of a section, and its cliques.

    Args:
        stated: the section.
        sizes: attribute -> number of its values, all attributes in their order.
        invariants: level -> queries that are exact, which the first bag has.
        levels: of the spine.

    Raises:
        Misfit: the cliques do not fit the attributes, or form no tree, or what is exact is no table of it.
    """
    domain = Domain(tuple(sizes), tuple(sizes.values()))
    try:
        cliques = tuple(domain.clique(names) for names in stated.cliques or ())
        if twice := [clique for number, clique in enumerate(cliques) if clique in cliques[:number]]:
            raise InputError(f"cliques: found {domain.text(twice[0])} twice; each is measured once")
        if missing := [name for number, name in enumerate(domain.names) if not any(number in one for one in cliques)]:
            raise InputError(
                f"cliques: none has the attribute {missing[0]!r}; each attribute is measured in one at least"
            )
        fill = stated.fill or (stated.choose is not None and stated.choose.further is not None)
        tree = junction_tree(domain, cliques, fill=fill)
        tables = exact_tables(domain, invariants, levels)
        check_within(tree, tables, levels)
        if exact := chain_of(tables):
            tree = junction_tree(domain, cliques, fill=fill, first=exact[0], chain=exact[1:])
        return tree, cliques
    except InputError as error:
        key, _, text = str(error).partition(": ")
        raise Misfit((f"marginals.{key}", text)) from None


def universe_names(tree: JunctionTree) -> tuple[str, ...]:
    """The name of the universe of each bag: "" of the first one, the others after their attributes."""
    names = [""]
    for number, bag in enumerate(tree.bags[1:], start=1):
        name = "-".join(tree.domain.names[a] for a in bag)
        try:
            check_name(name)
        except ValueError:
            name = f"clique-{number}"
        names.append(f"clique-{number}" if name.casefold() in [one.casefold() for one in names] else name)
    return tuple(names)


def note_untried(stated: MarginalsSection, spec: ReleaseSpec, problems: Problems) -> None:
    """Note universes that are not those of the cliques, and what no release of marginals was tried with."""
    before = len(problems.lines)
    if spec.update is not None and spec.update.answers:
        problems.add("update", _NOT_WITH)
    sections: list[UniverseSections] = [spec, *spec.companions.values()]
    sizes = _sizes(stated, sections, problems)
    _note_bins(stated, sections, problems)
    if len(problems.lines) > before:
        return
    try:
        tree, cliques = tree_of(stated, sizes, spec.invariants, spec.geography.level_names)
        of_budget = Parts.stated(stated, tree.domain, cliques, spec.geography.level_names)
    except Misfit as misfit:
        for key, text in misfit.problems:
            problems.add(key, text)
        return
    names = ("", *spec.companions)
    if names != universe_names(tree):
        problems.add("marginals", f"the companions are {', '.join(names[1:])}, and not those of the cliques")
        return
    measured: list[Clique] = []
    parts: list[int] = []
    for one, bag, name in zip(sections, tree.bags, names, strict=True):
        own_problems = problems.at(f"companions.{name}") if name else problems
        before_own = len(measured)
        if tuple(one.schema_section.attributes) != tuple(tree.domain.names[a] for a in bag):
            own_problems.add("schema.attributes", f"these are not those of {tree.domain.text(bag)}")
        else:
            measured += _measured_in(one, tree.domain, own_problems)
        parts.append(sum(of_budget.of.get(clique, 1) for clique in measured[before_own:]))
        if isinstance(one, CompanionSection):
            _note_companion(one, spec, own_problems)
    if len(problems.lines) > before:
        return
    if sorted(measured) != sorted(cliques):
        problems.add("marginals.cliques", "these are not what is measured, each in one universe")
        return
    if of_budget.at:
        _note_parts(of_budget, tree.domain, spec, sections, problems)
    else:
        _note_budgets(parts, spec, problems, even=stated.parts is None)
    _note_known(tree, spec, problems)
    _note_choice(stated, spec, sections, problems)


def _note_known(tree: JunctionTree, spec: ReleaseSpec, problems: Problems) -> None:
    """Note exact numbers and impossible cells of one universe that another one has not, where it must."""
    sections: list[UniverseSections] = [spec, *spec.companions.values()]
    for name, one, bag in zip(spec.companions, sections[1:], tree.bags[1:], strict=True):
        within = invariants_within(tree.domain, spec.invariants, spec.geography.level_names, bag)
        if {level: list(queries) for level, queries in one.invariants.items()} != within:
            problems.add(
                f"companions.{name}.invariants", "these are not those of the release's own universe, as sums of them"
            )
    attributes = {key: values for one in sections for key, values in one.schema_section.attributes.items()}
    if not are_carried(tree, attributes, [one.structural_zeros for one in sections]):
        problems.add("structural_zeros", "these leave cells of another universe empty that it does not name")


def _note_choice(
    stated: MarginalsSection, spec: ReleaseSpec, sections: Sequence[UniverseSections], problems: Problems
) -> None:
    """Note what does not go with cliques that are chosen, or not together with those that are declared."""
    if (stated.choose is None) != (stated.budget is None) or (stated.choose is None and stated.chosen is not None):
        problems.add("marginals.choose", "what is chosen has a budget, and what is not chosen has none")
    elif stated.choose is not None and spec.privacy.beacon is not None:
        problems.add("privacy.beacon", "not together with [marginals.choose] yet; leave one of the two out")
    elif stated.choose is not None and stated.budget is not None:
        values = {name: own for one in sections for name, own in one.schema_section.attributes.items()}
        attributes = {name: values[name] for name in stated.attributes or ()}
        top_share = next((level.share for level in spec.strategy.levels.values() if level.share), Fraction(1))
        promise = spec.privacy.framework, spec.privacy.neighbours, spec.records_per_person
        terms = _terms(stated, attributes, promise, stated.budget, spec.geography.level_names[0], top_share)
        key = "epsilon" if spec.privacy.framework == "pure" else "rho"
        privacies = [spec.privacy, *(one.privacy for one in spec.companions.values())]
        if sum((getattr(one, key) or Fraction(0) for one in privacies), Fraction(0)) != terms.rest:
            problems.add(
                "marginals.budget", f"the cliques have another {key} than the choice leaves of {stated.budget}"
            )
        elif stated.chosen is not None:
            _note_outcome(stated, terms, problems)


def _note_outcome(stated: MarginalsSection, terms: Terms, problems: Problems) -> None:
    """Note chosen cliques that the choice cannot have made: pairs in an order, then the attributes that are in none."""
    cliques = [terms.domain.clique(names) for names in stated.cliques or ()]
    pairs = [clique for clique in cliques if len(clique) > 1]
    if cliques != [*terms.pairs.cliques(pairs)]:
        problems.add("marginals.cliques", "these are not pairs, and then the attributes that are in none of them")
    elif wrong := unlike_a_choice(terms.pairs, pairs):
        problems.add("marginals.cliques", wrong)


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


def _measured_in(sections: UniverseSections, domain: Domain, problems: Problems) -> list[Clique]:
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


def _note_parts(
    parts: Parts, domain: Domain, spec: ReleaseSpec, sections: Sequence[UniverseSections], problems: Problems
) -> None:
    """Note a level at which a clique has another part of what all have there than is stated."""
    key = "epsilon" if spec.privacy.framework == "pure" else "rho"
    privacies = [spec.privacy, *(one.privacy for one in spec.companions.values())]
    for level in spec.geography.level_names:
        spent: dict[Clique, Fraction] = {}
        for one, privacy in zip(sections, privacies, strict=True):
            own = one.strategy.levels[level]
            queries = own.queries if own.queries is not None else one.strategy.queries
            share = (getattr(privacy, key) or Fraction(0)) * (own.share or Fraction(0))
            for text, of in (queries or {}).items() if share else ():
                spent[domain.clique(terms_of(text))] = share * of
        whole = sum(spent.values(), Fraction(0))
        for clique in parts.of:
            if spent.get(clique, Fraction(0)) * parts.whole(level) != parts.part(clique, level) * whole:
                problems.add(
                    dotted(["marginals", "parts_at", level]),
                    f"{domain.text(clique)} has another part of the {key} at {level} than is stated",
                )
                return


def _note_budgets(parts: Sequence[int], spec: ReleaseSpec, problems: Problems, *, even: bool) -> None:
    """Note budgets of companions that are not as the parts measured in them, of the release's own universe first."""
    for (name, companion), part in zip(spec.companions.items(), parts[1:], strict=True):
        _note_budget(companion, part, spec, parts[0], problems.at(f"companions.{name}"), even=even)


def _note_budget(
    section: CompanionSection, measured: int, spec: ReleaseSpec, first: int, problems: Problems, *, even: bool
) -> None:
    """Note a budget of which the cliques have not the same part as those of the release's own universe.

    Args:
        section: of a companion.
        measured: parts of the budget of the cliques that are measured in it: one each, unless others are stated.
        spec: of the release.
        first: the same of the release's own universe.
        problems: of the companion.
        even: whether no parts are stated.
    """
    key = "epsilon" if spec.privacy.framework == "pure" else "rho"
    found, own = getattr(section.privacy, key), getattr(spec.privacy, key)
    if found is None or own is None or found * first != own * measured:
        unit, right = ("clique", "each has the same part of the budget") if even else ("part", "see marginals.parts")
        problems.add(
            f"privacy.{key}",
            f"found {found}, for {counted(measured, unit)}, and {own} of the release's own universe, for "
            f"{counted(first, unit)}; {right}",
        )


def _note_companion(section: CompanionSection, spec: ReleaseSpec, problems: Problems) -> None:
    """Note what a companion has that no table of a tree was tried with."""
    untried = [key for key in _UNTRIED if getattr(section, key, None)]
    untried += [part.named_by for part in section.parts if isinstance(part, StatesMeasure) and part.named_by]
    untried += ["schema.recodes"] if section.schema_section.recodes else []
    untried += ["passes"] if tuple(section.passes) != ("total",) else []
    untried += ["privacy.unit"] if section.privacy.unit is not None else []
    for key in untried:
        problems.add(key, _NOT_WITH)
    if _records_of(section) != _records_of(spec):
        problems.add("input", "the records are the release's own, so nothing but columns and values may differ")
    if section.privacy.dataset != spec.privacy.dataset:
        problems.add("privacy.dataset", "the records are the release's own, so one ledger counts both")
    if section.records_per_person != spec.records_per_person:
        problems.add("records_per_person", "the records are the release's own, so state the same number")


def _records_of(section: UniverseSections) -> dict[str, Any] | None:
    """Where the records of a universe are and how they are read, but for its attributes' columns and values."""
    return None if section.input is None else {**dict(section.input), "columns": None, "values": None}
