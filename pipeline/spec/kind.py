"""What a feature states of a release: one class of all that the core asks a feature, each with an answer by default.

Keys of a spec (`pipeline.spec.slots.FeatureKeys`) and what every release has (`features.registry.Feature.pages`) are
kinds. Whoever makes a release asks all of `ReleaseSpec.of_features` alike, and none of them what it is; a feature
answers what is its own. In the order of a run: what the spec means, public inputs, files, memory; what is decided
before records are measured; steps; the page; and what commands ask before and after.

What two universes have in common is a `pipeline.model.link.Link`, which answers in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pipeline.model.measure import COUNTS, Measure

if TYPE_CHECKING:
    from geography.spine import Spine
    from pipeline.model.about import Period
    from pipeline.model.link import StatedLinks
    from pipeline.model.query import Query
    from pipeline.model.record_source import RecordSource
    from pipeline.model.schema import Schema
    from pipeline.model.source import Source
    from pipeline.model.together import Together
    from pipeline.model.universe import PublicFact, TableFact, Universe
    from pipeline.release.layout import RunDirectory

# Nouns of modules above this one, which cannot be imported here; whoever asks has their types.
ReleaseSpec: TypeAlias = Any  #: of `pipeline.spec.release_spec`
Problems: TypeAlias = Any  #: of `pipeline.spec.problems`
UniverseSections: TypeAlias = Any  #: of `pipeline.spec.sections`
ChosenSection: TypeAlias = Any  #: of `pipeline.spec.update`
UniverseResolver: TypeAlias = Any  #: of `pipeline.spec.resolve`
PublicInput: TypeAlias = Any  #: of `pipeline.inputs.public_input`
Product: TypeAlias = Any  #: of `pipeline.metadata.products`
ReleaseScope: TypeAlias = Any  #: of `pipeline.metadata.products`
ReleaseFacts: TypeAlias = Any  #: of `pipeline.pages.templates`
Job: TypeAlias = Any  #: of `pipeline.execution.job`
Step: TypeAlias = Any  #: of `pipeline.execution.steps`
Expectation: TypeAlias = Any  #: of `pipeline.estimation.expectation`
Promises: TypeAlias = Any  #: of `pipeline.publishing.promises`
MarginSource: TypeAlias = Any  #: of `pipeline.publishing.tables`
Question: TypeAlias = Any  #: of `pipeline.confidential.parts`


class Kind:
    """What a feature states of a release; nothing, but for what a kind says otherwise.

    Attributes:
        states_source: whether the noisy numbers of the release's own universe are not noise that the run draws.
        receives: whether others published all numbers of the release, which has no promise then, and no records.
        states_links: whether some universes are released before others, which are known by them.
        states_together: whether the universes of a release are estimated together.
        section: of a kind with a section of its own on the report: the package and the name of a template with the
            macros `contents()`, the entry in the list of contents, and `section(view, level_title, level_titles)`;
            these say what one level, and several, are called.
    """

    states_source: ClassVar[bool] = False
    receives: ClassVar[bool] = False
    states_links: ClassVar[bool] = False
    states_together: ClassVar[bool] = False
    section: ClassVar[tuple[str, str]] = ("", "")

    # -- what the spec means ------------------------------------------------------------------------------------------

    @property
    def named_by(self) -> str:
        """The key of the release or a companion that says what each record adds to its cell; "" where it counts one."""
        return ""

    def measure(self) -> Measure:
        """What each record adds."""
        return COUNTS

    def measured(self, schema: Schema, scope: UniverseResolver) -> Schema:
        """The schema as records are read by it; whatever of it does not go with the measure is noted."""
        return schema

    def records(self, scope: UniverseResolver) -> RecordSource | None:
        """The records, as they are read; whatever else of the universe does not go with the measure is noted.

        None where the spec does not name them.
        """
        return None

    def source(self, scope: UniverseResolver) -> Source | None:
        """Where noisy numbers are from that the run does not draw; None where problems were noted."""
        return None

    def facts(self, schema: Schema, level_names: Sequence[str], problems: Problems) -> tuple[PublicFact, ...]:
        """What public numbers say of the release's own universe.

        Args:
            schema: of the universe.
            level_names: of the spine, top first.
            problems: of the slot that the keys are in; whatever does not fit is noted.
        """
        return ()

    def of_table(self, query: Query, schema: Schema, problems: Problems) -> TableFact | None:
        """What keys in a published table say of it; None where they say nothing, or problems were noted.

        Args:
            query: of the table.
            schema: of its universe.
            problems: of the table; whatever does not fit is noted.
        """
        return None

    def placed(self, universe: Universe, sections: UniverseSections, problems: Problems) -> Universe:
        """The release's own universe as one of its kind, such as a period of a series.

        Args:
            universe: as all other keys state it.
            sections: of the release.
            problems: of the slot that the keys are in; whatever does not fit is noted.
        """
        return universe

    def note_apart(self, spec: ReleaseSpec, problems: Problems) -> None:
        """Note what of a release outside of its own universe may not go with the keys."""

    def stated_links(self, spec: ReleaseSpec, universes: Sequence[Universe], problems: Problems) -> StatedLinks | None:
        """What is stated of links between the universes that could be resolved; what does not fit is noted."""
        return None

    def together(self, universes: Sequence[Universe]) -> Together | None:
        """What is stated of all universes, the release's own first; None where nothing is."""
        return None

    def chosen_end(self) -> ChosenSection | None:
        """The answer to a question that chose one of the keys of a companion; None where it is stated."""
        return None

    def counted_in(self) -> Period | None:
        """The period that the release counts; None where the spec does not say, or is that of several."""
        return None

    def published(self, spec: ReleaseSpec) -> Mapping[str, Any] | None:
        """The keys as the spec of a release has them, in the form of `public_dict`; None where that is as stated."""
        return None

    # -- one of several releases --------------------------------------------------------------------------------------

    def at(self, spec: ReleaseSpec, period: str | None, out: Path) -> ReleaseSpec:
        """The spec of one of the releases that a spec is of.

        Args:
            spec: of all.
            period: which one; None where only the spec may say it.
            out: the folder with the releases so far.

        Raises:
            InputError: there is none such, it is not its turn, or those before it are not of the same.
        """
        return spec

    def releases(self, spec: ReleaseSpec) -> Mapping[str, str]:
        """The periods of a spec of several releases, in order, each with the name of its release; none of most."""
        return {}

    # -- public inputs, files and memory ------------------------------------------------------------------------------

    def public_inputs(self) -> Sequence[PublicInput]:
        """The public inputs that a spec has with the keys."""
        return ()

    @classmethod
    def products(cls) -> Sequence[Product]:
        """The published files that a release has with the feature."""
        return ()

    def memory(self, spec: ReleaseSpec, spine: Spine) -> tuple[float, float]:
        """Bytes that a process holds for it while other steps are done, and those that one holds after them."""
        return 0.0, 0.0

    def check_statement(self, scope: ReleaseScope, promises: Promises) -> object:
        """What is said of every release, from its spec alone; InputError where it cannot be said."""
        return None

    # -- what is decided from the records before they are measured ----------------------------------------------------

    def undecided(
        self,
        spec: ReleaseSpec,
        universes: tuple[Universe, ...],
        spine: Spine,
        run: RunDirectory,
    ) -> Question | None:
        """What is asked of the records; None where nothing is left to be decided.

        Args:
            spec: that states the keys.
            universes: of the spec, with their records.
            spine: the geography.
            run: the directory of the release, whose key the answer follows from.

        Raises:
            InputError: it cannot be asked of these records.
        """
        return None

    def decided(self, spec: ReleaseSpec, answer: Mapping[str, object]) -> ReleaseSpec:
        """The spec with what the process has answered."""
        return spec

    def redrawn(
        self,
        spec: ReleaseSpec,
        universes: tuple[Universe, ...],
        spine: Spine,
        run: RunDirectory,
        again: RunDirectory,
    ) -> tuple[Question, Mapping[str, object]] | None:
        """Of a release: what was asked, to be drawn again, and what it must answer; None where nothing was.

        Args:
            spec, universes, spine: of the release.
            run: the folder of the rerun.
            again: the release.
        """
        return None

    # -- steps --------------------------------------------------------------------------------------------------------

    def begin_areas(self, job: Job) -> None:
        """Begin in other processes what follows from the areas alone, once the public inputs are written."""

    def table_steps(self, job: Job, universe: Universe, level: int, margins: MarginSource) -> Sequence[Step]:
        """The steps that write files beside the tables of a universe at a level, once these are written.

        Args:
            job: the run.
            universe: whose tables they are.
            level: index of the level, 0 at the top.
            margins: of error, of all that is `Universe.tabulated`.
        """
        return ()

    def begin_tables(self, job: Job) -> None:
        """Begin what follows from the published tables, which are all written."""

    def last_steps(self, job: Job) -> Sequence[Step]:
        """The steps that write what is made of all other public files, besides the manifest."""
        return ()

    # -- pages and commands -------------------------------------------------------------------------------------------

    def shown(self, facts: ReleaseFacts) -> object | None:
        """What its `section` is given; None where there is none. ReleaseError where a file is damaged."""
        return None

    def problems(self, spec: ReleaseSpec) -> Sequence[str]:
        """What of a published spec does not follow from other keys though it must, a sentence each; for `verify`."""
        return ()

    def joined_words(self) -> tuple[str, ...]:
        """What each join of persons and households says, for the people who plan a release."""
        return ()

    def joined_rows(self, spec: ReleaseSpec, expectations: Sequence[Expectation]) -> Sequence[Mapping[str, Any]]:
        """The fields of `features.plan.kinds.JoinedRow`, of each companion that is joined by size, at every level.

        Args:
            spec: with the joins.
            expectations: of its universes, its own first.
        """
        return ()

    @classmethod
    def randomiser_trials(cls, seed: int) -> Iterable[Mapping[str, Any]]:
        """Test each of its randomisers, with noise of a public test key; the same seed gives the same results.

        Returns:
            Of each test the arguments of a finding of `features.audit`, but for its group.
        """
        return ()

    @classmethod
    def tried_questions(cls) -> Any:
        """What an audit asks questions by, see `features.audit.questions_asked`; None where it asks none."""
        return None
