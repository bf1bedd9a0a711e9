"""A question as a user asks it, checked as far as it can be without records and without writing anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from features.questions.section import QuestionsPart
from features.questions.work import QuestionWork
from geography.spine import Spine
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError, SpecError
from pipeline.inputs.geography import read_spine
from pipeline.model.exact import parse_exact
from pipeline.model.promise import Promise
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import AmountAttribute, Attribute, Schema
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.privacy.limits import LARGEST_EPSILON, LARGEST_RHO
from pipeline.publishing.provenance import check_provenance, from_records
from pipeline.questions.domain import Domain
from pipeline.questions.plan import QuestionPlan
from pipeline.questions.quantiles import CLIP
from pipeline.questions.resolve import resolve
from pipeline.questions.resolved import EVERYWHERE, Resolved, records_of_unit
from pipeline.questions.stated_domain import DomainStated, stated_domain
from pipeline.questions.text import Asked, parse
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import check_datasets, with_data
from pipeline.spec.fields import check_name
from pipeline.spec.release_spec import ReleaseSpec, as_spec

#: Numbers that one answer may have.
MOST_NUMBERS: Final = 5_000_000
#: Steps of the amount, in all of its groups, that quantiles of one answer may be chosen among.
MOST_CANDIDATES: Final = 2_000_000


@dataclass(frozen=True)
class QuestionRequest:
    """A question to be explained or answered.

    Attributes:
        spec: the release spec, or its file.
        text: of the question.
        rho, epsilon: the budget, exact text; the one of the spec's framework.
        between, unit: the grid of the amount, where the spec declares none or another.
        out: the folder of answers.
        name: of the answer; by default made from the question and its budget.
        data: records instead of the spec's.
        key: where the master key is; nowhere if the answer is to have its own.
    """

    spec: Path | ReleaseSpec
    text: str
    rho: str | None = None
    epsilon: str | None = None
    between: Sequence[str] | None = None
    unit: str | None = None
    out: Path = Path("answers")
    name: str | None = None
    data: Path | None = None
    key: KeySource = field(default_factory=KeySource)


@dataclass(frozen=True, eq=False)
class CheckedQuestion:
    """A question that can be asked, if the ledger allows it.

    Attributes:
        domain: what the words of the question stand for, as its answer states it.
        work: what the measuring process is asked for.
    """

    request: QuestionRequest
    spec: ReleaseSpec
    domain: DomainStated
    work: QuestionWork

    @property
    def plan(self) -> QuestionPlan:
        """What is drawn."""
        return self.work.plan

    @property
    def question(self) -> Resolved:
        """What is asked."""
        return self.plan.question

    @property
    def unit(self) -> str:
        """What the budget is measured in."""
        return BUDGET_NAMES[self.plan.promise.framework]


def check_question(request: QuestionRequest) -> CheckedQuestion:
    """Read spec and public areas, and look everything up; no record is read.

    Raises:
        InputError: something is wrong; one sentence that names it and says what is allowed.
    """
    spec = as_spec(request.spec)
    _refuse_of_records(spec)
    universe = with_data(spec.universes()[:1], request.data)[0]
    if reason := universe.source.refusal("question"):
        raise SpecError(f"{spec.source}: {reason}")
    if not universe.dataset:
        raise SpecError(
            f"{spec.source}: privacy.dataset: missing; a question is charged to the budget of a dataset, and is not "
            "answered without one: open it with `spinewise ledger open` and name it in the spec"
        )
    check_datasets([universe], insecure_key=spec.privacy.key is not None)
    budget = _budget(universe, request)
    asked = parse(request.text)
    domain = _domain(spec, universe, asked, request)
    records = universe.require_input()
    # By some of the columns several rows are the same cell; whether a cell stands twice is seen by all of them.
    whole = records.form == "wide" or (records.form == "long" and records.repeated is None)
    question = resolve(asked, domain, whole=whole)
    if question.level == EVERYWHERE:
        raise InputError(f"question: a level called {EVERYWHERE!r} cannot be asked by; an answer calls all areas so")
    source = source_for(records, question, domain)
    if not isinstance(source.file, Path):
        raise InputError("questions need records in a file; the spec's are a table in memory")
    spine = read_spine(spec.geography)
    n_places = 1 if question.level is None else len(spine.level(question.level))
    _check_size(question, spine, n_places)
    promise = Promise(universe.framework, universe.neighbours, budget, universe.unit.records)
    plan = QuestionPlan(question, universe.dataset, promise, question.numbers_of_unit(n_places))
    work = QuestionWork(RunDirectory(request.out), "", plan, source, spine)
    _ = plan.parts  # InputError where the budget buys nothing
    try:
        name = _default_name(asked, work) if request.name is None else check_name(request.name)
    except ValueError as error:
        raise InputError(f"--name: {error}") from None
    work = replace(work, run=RunDirectory(request.out / name), name=name)
    return CheckedQuestion(request, spec, stated_domain(asked, question, domain), work)


def _refuse_of_records(spec: ReleaseSpec) -> None:
    """Places and values of an answer stand in it without noise: also those that a release may have by name."""
    check_provenance(spec)
    if made := [name for name in from_records(spec) if name in ("geography", "regroup", "schema")]:
        raise SpecError(
            f"{spec.source}: provenance.inputs.{made[0]}: made from the records; a question needs areas and values "
            "that are public, also where a release accepts others"
        )


def _budget(universe: Universe, request: QuestionRequest) -> Fraction:
    unit, other = ("rho", "epsilon") if universe.framework == "zcdp" else ("epsilon", "rho")
    text = request.rho if unit == "rho" else request.epsilon
    if (request.epsilon if unit == "rho" else request.rho) is not None or text is None:
        found = "none" if text is None and getattr(request, other) is None else f"--{other}"
        raise InputError(f"budget: found {found}; the framework {universe.framework!r} of the spec needs --{unit}")
    try:
        budget = parse_exact(text)
    except ValueError as error:
        raise InputError(f"--{unit}: {error}") from None
    largest = LARGEST_RHO if unit == "rho" else LARGEST_EPSILON
    if not 0 < budget <= largest:
        raise InputError(f"--{unit}: found {text}; it must be above 0 and at most {largest}")
    return budget


def _domain(spec: ReleaseSpec, universe: Universe, asked: Asked, request: QuestionRequest) -> Domain:
    domain = domain_of(spec, universe.schema)
    if request.between is None and request.unit is None:
        return domain
    if asked.amount is None or asked.statistic in ("most common", CLIP):
        raise InputError(
            f"--between and --unit are for sum, mean, median, quantile, max and min; found {asked.statistic}"
        )
    name, before = asked.amount.text, domain.attribute(asked.amount.text)
    taken = {*universe.schema.terms, *domain.levels}
    if name in taken or not (before is None or isinstance(before, AmountAttribute)):
        raise domain.unknown(asked.amount, "it is no amount, so that --between cannot be given for it", levels=False)
    if request.between is None or request.unit is None:
        raise InputError("--between LOW HIGH and --unit UNIT are needed together")
    if len(request.between) != 2 or not name.isidentifier():
        raise InputError(
            f"--between: found {len(request.between)} ends for {name!r}; two ends of a named column are needed"
        )
    try:
        low, high, unit = (parse_exact(text) for text in (*request.between, request.unit))
    except ValueError as error:
        raise InputError(f"--between and --unit: {error}") from None
    return domain.with_amount(name, low, high, unit)


def _check_size(question: Resolved, spine: Spine, n_places: int) -> None:
    if n_places * question.size > MOST_NUMBERS:
        raise InputError(
            f"question: it has {n_places * question.size:,} numbers in each part; at most {MOST_NUMBERS:,} are allowed"
        )
    if (found := n_places * question.size * len(question.candidates)) > MOST_CANDIDATES and question.rank:
        raise InputError(
            f"question: its groups have {found:,} steps of the amount to choose among; at most {MOST_CANDIDATES:,} are "
            "allowed: take a larger unit, or fewer groups"
        )
    n_cells = 1
    for axis in question.axes:
        n_cells *= len(axis.attribute.values)
    if spine.n_leaves * n_cells >= 2**62:
        raise InputError("question: its attributes have too many combinations; name fewer, or take a larger unit")


def _default_name(asked: Asked, work: QuestionWork) -> str:
    """The same for the same question, budget and dataset: asked again, it finds its own key and its own answer."""
    number = [] if asked.number is None else [str(asked.number)]
    words = [
        asked.statistic,
        *number,
        *([] if asked.amount is None else [asked.amount.text]),
        *(word.text for word in asked.by),
    ]
    slug = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:60].strip("-")
    return f"{slug}-{work.privacy_fingerprint()[:8]}"


def domain_of(spec: ReleaseSpec, schema: Schema) -> Domain:
    """What questions on the records of a release may name.

    Args:
        spec: its spec.
        schema: of its own universe.

    Raises:
        SpecError: a column of [questions] is called as an attribute, a recode or a level.
    """
    columns: dict[str, Attribute] = {}
    files: dict[str, str] = {}
    texts: dict[str, dict[str, str]] = {}
    keys = spec.part(QuestionsPart)
    stated = {} if keys is None or keys.questions is None else keys.questions
    taken = {*schema.terms, *spec.geography.level_names}
    for name, section in stated.items():
        if name in taken:
            raise SpecError(
                f"{spec.source}: questions.{name}: found the name of an attribute, a recode or a level; a "
                "further column needs a name of its own"
            )
        if section.ends == "total" and spec.privacy.unit is None:
            raise SpecError(
                f"{spec.source}: questions.{name}.ends: found 'total', and no units: say in [privacy] which "
                "column has them (unit), and how many records of each are counted (at_most)"
            )
        if section.values is None:
            columns[name] = section.amount(name)
        else:
            columns[name] = Attribute(name, section.values)
            if section.missing is not None:
                texts[name] = {"": section.missing}
        if section.column is not None:
            files[name] = section.column
    at_most = spec.privacy.at_most
    units = None if at_most is None else records_of_unit(at_most)
    return Domain(spec.geography.level_names, schema, columns, files, texts, units)


def source_for(records: RecordSource, question: Resolved, domain: Domain) -> RecordSource:
    """How the records are read for a question.

    Raises:
        SpecError: the records are of the wide form, which has no further columns.
    """
    further = {name: column for name in question.read.names if (column := domain.further(name)) is not None}
    if records.form == "wide" and further:
        raise SpecError(
            f'question: found {next(iter(further.values()))!r} and records of the form "wide"; a column beyond the '
            'schema needs the form "microdata" or "long"'
        )
    return replace(
        records,
        columns={**records.columns, **{name: domain.files.get(column, column) for name, column in further.items()}},
        values={**records.values, **{name: domain.texts[name] for name in further if name in domain.texts}},
        further=tuple(further),
    )
