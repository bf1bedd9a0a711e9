"""The releases of a series in a folder: found, compared with one another, and the next one placed after them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from features.years.design import LONGEST
from features.years.section import SeriesPart, SeriesSection, TermsSection
from features.years.series import problems
from geography.errors import InputError
from geography.spine import Spine
from pipeline.inputs.public_input import InputScope, PublicInput
from pipeline.model.content import content_sha256
from pipeline.model.series import FIRST, SeriesPeriod, SeriesTerms
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.neighbours import record_change
from pipeline.privacy.budget import Neighbours
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.measurements import open_measurement
from pipeline.release.published_files import PublishedFiles
from pipeline.release.spine import read_public_spine
from pipeline.spec.problems import Problems
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.sections import UniverseSections


def series_of(section: SeriesSection, neighbours: Neighbours) -> SeriesPeriod:
    """The place of a release; of a spec without a period, that of the first one."""
    series = section.series
    number = 0 if section.period is None else series.number(section.period)
    predecessor = section.predecessor or FIRST
    return SeriesPeriod(series.name, series.periods, number, predecessor, section.terms_for(neighbours))


def refuse_untried(section: SeriesSection, universe: Universe, sections: UniverseSections, problems: Problems) -> None:
    """Note what a spec has that no series was tried with."""
    spec = sections if isinstance(sections, ReleaseSpec) else None
    change = record_change(universe)
    untried = {
        f'framework "{universe.framework}": only "zcdp" has a budget over time': universe.framework != "zcdp",
        "[select]: the detail of tables cannot be chosen in a series": bool(universe.stated_selections),
        "geography.bypass: every geounit is measured in a series": universe.bypass,
        "companions: a series is of one histogram": spec is not None and bool(spec.companions),
        "[privacy] unit, records_per_person: a person has one record in each period": universe.unit.records > 1,
        "numbers that others published: a series has a budget over time": not universe.promises,
        "answers: a release of a series is not made again with them": bool(universe.added),
        "invariants that let no record change alone": change is None or change.records != 1,
    }
    for text, found in untried.items():
        if found:
            problems.add("", f"not with {text}")
    if section.spells is not None and len(section.series.periods) > LONGEST:
        problems.add("to", f"found {len(section.series.periods)} periods; at most {LONGEST} can be mixed")


def stated_problems(section: SeriesSection, neighbours: Neighbours) -> list[str]:
    """What a published section states and its design does not give, a sentence each."""
    if section.period is None or (section.series.number(section.period) == 0) != (section.predecessor == FIRST):
        return ["series: states no period, or a predecessor that the period cannot have"]
    if section.spells is None:
        return [] if section.terms is None else ["series: states a design, and its periods are independent"]
    if section.terms is None:
        return ["series: states no design"]
    return [f"series: {one}" for one in problems(section.terms.stated(section.spells), neighbours)]


@dataclass(frozen=True, eq=False)
class InSeries(PublishedFiles):
    """A finished release of a series.

    Attributes:
        section: what it states of its place.
    """

    spec: ReleaseSpec
    section: SeriesSection

    @cached_property
    def hash(self) -> str:
        """By which the next one names it: SHA-256, hexadecimal, over what that one's numbers are bound to.

        That is its name and place, its key and records as it publishes them, and every number that it has measured,
        whatever the form of its files.

        Raises:
            ReleaseError: a file of measurements is damaged, or not the one that its manifest lists.
        """
        manifest, (universe,) = self.manifest, self.spec.universes()
        measured = [
            [draw.level, draw.query.name, self._numbers(self.run.main.measurement(draw.level, draw.query.name))]
            for draw in sorted(universe.draws(), key=lambda draw: (draw.level, draw.query.name))
        ]
        published = [manifest.key_salt, manifest.key_commitment, sorted(manifest.input_fingerprints.items())]
        content = ["release of a series", self.spec.name, universe.privacy_fingerprint(), *published, measured]
        return content_sha256(content)

    @property
    def base(self) -> str:
        """What the names of all releases of its series begin with."""
        return base_of(self.spec.name, self.section)

    def _numbers(self, path: Path) -> str:
        """SHA-256 over geocodes and numbers of a measurement file, in the order of its rows."""
        codes, numbers = hashlib.sha256(), hashlib.sha256()
        with open_measurement(self.unchanged(path)) as file:
            for part in file.parts(0, len(file)):
                codes.update("".join(f"{code}\n" for code in part.geocodes.tolist()).encode())
                numbers.update(part.values.astype("<i8").tobytes())
        return codes.hexdigest() + numbers.hexdigest()


def section_of(spec: ReleaseSpec) -> SeriesSection | None:
    """The section [series] of a spec, if it has one."""
    part = spec.part(SeriesPart)
    return None if part is None else part.series


def name_at(base: str, period: str) -> str:
    """The name of the release of a period."""
    return f"{base}-{period}"


def base_of(name: str, section: SeriesSection) -> str:
    """What the names of all releases of a series begin with, by the name of one; see `name_at`."""
    return name.removesuffix(f"-{section.period}")


def released(run: RunDirectory) -> InSeries:
    """A finished release of a series.

    Raises:
        InputError: it is not finished, or of no series.
        ReleaseError: its manifest is damaged.
    """
    if not run.manifest.is_file():
        raise InputError(f"{run.root}: no finished release is here; {run.manifest} is missing")
    manifest = read_manifest(run.manifest)
    spec = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    section = section_of(spec)
    if section is None or section.period is None:
        raise InputError(f"{run.root}: a release that is of no series")
    return InSeries(run, manifest, spec, section)


def predecessors(folder: Path, base: str, section: SeriesSection) -> tuple[InSeries, ...]:
    """The releases of all periods before that of the section, first to last, each the one that the next one names.

    Args:
        folder: with the releases of the series, each called BASE-PERIOD.
        base: what the name of each begins with.
        section: of the release that is to follow; where it names no predecessor, it takes the one that is there.

    Raises:
        InputError: one is missing, is of another series, or not the one that the next one names.
    """
    series = section.series
    number = series.number(section.period or series.first)
    found = list(_found(folder, base, section, number))
    due = section.predecessor
    for one in reversed(found):
        if due is not None and one.hash != due:
            raise InputError(
                f"{one.run.root}: not the release that the one after it in the series {series.name!r} follows, or "
                "changed since"
            )
        due = one.section.predecessor
    if number and due != FIRST:
        raise InputError(f"{found[0].run.root}: follows a release, and is to be the first of {series.name!r}")
    return tuple(found)


def _found(folder: Path, base: str, section: SeriesSection, number: int) -> Iterator[InSeries]:
    series = section.series
    for period in series.periods[:number]:
        run = RunDirectory(folder / name_at(base, period))
        if not run.manifest.is_file():
            raise InputError(
                f"period {section.period} of series {series.name!r}: {period} is not released in {folder}, and none is "
                f"left out; {run.manifest} is missing"
            )
        one = released(run)
        if (one.section.period, one.section.series) != (period, series):
            raise InputError(
                f"{run.root}: is of period {one.section.period} of series {one.section.name!r}, {one.section.first} to "
                f"{one.section.last}; period {period} of {series.name!r}, {series.first} to {series.last} is needed"
            )
        if one.section.spells != section.spells:
            stated = (
                "independent" if spells is None else f"{spells} spells"
                for spells in (one.section.spells, section.spells)
            )
            raise InputError(f"{run.root}: the noise of its series is for {' and not for '.join(stated)}")
        yield one


def placed_after(spec: ReleaseSpec, part: SeriesPart, period: str | None, out: Path) -> ReleaseSpec:
    """The spec of one period, called NAME-PERIOD, after the releases before it; see `Kind.at`."""
    stated = part.series
    if stated is None:
        return spec
    series = stated.series
    if period is None:
        raise InputError(
            f"{spec.source}: a series of {len(series.periods)} releases, {series.first} to {series.last}; name one of "
            f"them, such as --period {series.first}; `deploy` with --wait-for releases each when its records are there"
        )
    number = series.number(period)
    section = stated.model_copy(update={"period": period, "predecessor": None if number else FIRST})
    before = predecessors(out, spec.name, section)
    if before:
        section = section.model_copy(update={"predecessor": before[-1].hash, "terms": before[0].section.terms})
        _check_terms(spec, section, before[0])
    elif section.spells is not None:
        section = section.model_copy(update={"terms": _written(section.terms_for(spec.privacy.neighbours))})
    placed = spec.with_part(part.in_folder(section, out), name_at(spec.name, period))
    for one in before:
        _check_same(placed, one)
        if section.spells is not None:
            _check_kept(one)
    return placed


def _written(terms: SeriesTerms) -> TermsSection:
    """Terms as a spec states them."""
    losses = tuple((spells, str(loss.part), loss.exact) for spells, loss in sorted(terms.losses.items()))
    return TermsSection(design=terms.design, distance=str(terms.distance), losses=losses)


def _check_terms(spec: ReleaseSpec, section: SeriesSection, first: InSeries) -> None:
    """InputError where the first release states terms that do not follow from its design: the noise depends on them."""
    if found := stated_problems(section, spec.privacy.neighbours):
        raise InputError(f"{first.run.root}: {found[0]}; nothing was drawn")


def _check_same(placed: ReleaseSpec, one: InSeries) -> None:
    """InputError where a release before has another budget, strategy, design, records, zeros, invariants or dataset."""
    own, other = placed.universes()[0], one.spec.universes()[0]
    if own.series_fingerprint != other.series_fingerprint:
        raise InputError(
            f"{placed.source}: budget, neighbours, attributes, strategy, spells or horizon differ from those of "
            f"{one.run.root}; all releases of a series have the same; what is different is another series"
        )
    section = section_of(placed)
    if section is not None and section.records != one.section.records:
        stated = ("none" if found is None else str(found) for found in (section.records, one.section.records))
        raise InputError(
            f"{placed.source}: series.records: found {' and '.join(stated)} in {one.run.root}; all releases of a "
            "series have the same: each states by it what people lose"
        )
    check_exact(own, other, placed.source, one.run)
    if own.dataset != other.dataset:
        stated = (repr(name) if name else "none" for name in (own.dataset, other.dataset))
        raise InputError(
            f"{placed.source}: privacy.dataset: found {' and '.join(stated)} in {one.run.root}; one ledger counts all "
            "releases of a series, so that each period is drawn once; nothing was drawn"
        )


def check_exact(own: Universe, other: Universe, source: str, run: RunDirectory) -> None:
    """InputError where something else is exact in another release of a series: a history has one list of it.

    Args:
        own, other: of two releases with the same attributes.
        source: what messages call the first.
        run: of the second.
    """
    if len(differ := np.flatnonzero(own.structural_zeros != other.structural_zeros)):
        cell = own.schema.cell_labels()[differ[0]]
        found = "impossible" if own.structural_zeros[differ[0]] else "possible"
        raise InputError(
            f"{source}: structural_zeros: {cell!r} is {found} here and not in {run.root}; all releases of a series "
            "have the same: a history has the same cells in every period"
        )
    exact = [sorted({(level, query.name) for level, query in each.invariants}) for each in (own, other)]
    if exact[0] != exact[1]:
        stated = (", ".join(f"{query} of {level}" for level, query in each) or "none" for each in exact)
        raise InputError(
            f"{source}: invariants: found {' and '.join(stated)} in {run.root}; all releases of a series "
            "have the same: what is promised of the whole series depends on what is exact of any of them"
        )
    sums = {(level, query.name): query.cell_answer for level, query in other.invariants}
    for level, query in own.invariants:
        if not np.array_equal(query.cell_answer, sums[level, query.name]):
            raise InputError(
                f"{source}: invariants: {query.name} of {level} sums other values than in {run.root}; all releases "
                "of a series have the same: what is promised of the whole depends on what is exact of any of them"
            )


def _check_kept(one: InSeries) -> None:
    """InputError where the true counts of a release before are gone, which the next one's numbers are mixed with."""
    for level in one.spec.geography.level_names:
        path = one.run.main.true_histogram(level)
        if not path.is_file():
            raise InputError(
                f"{one.run.root}: {path} is missing; the numbers of later periods are mixed with its true counts, so "
                "that restricted/ has to be kept until the series ends"
            )


def check_areas(one: InSeries, spine: Spine, source: str) -> None:
    """InputError where a release before is of other areas: a series has one list of them.

    Args:
        one: the release before.
        spine: the areas of the next one.
        source: the spec that names these, for the message.
    """
    before = read_public_spine(one.unchanged(one.run.spine), one.spec.geography.level_names)
    if before.fingerprint() == spine.fingerprint():
        return
    found = "areas have other parents"
    for level, other in zip(spine.levels, before.levels, strict=False):
        codes, known = set(level.geocodes.tolist()), set(other.geocodes.tolist())
        if codes != known:
            one_more = codes - known
            there = "not an area" if one_more else "an area only"
            found = f"{level.name} {min(one_more or known - codes)!r} is {there} of the release before"
            break
    raise InputError(
        f"{source}: geography.file: {found}, which is {one.run.root}; all releases of a series have the same areas; "
        "nothing was charged or drawn"
    )


class PredecessorsInput(PublicInput[Path | None]):
    """The folder with the releases before, which are of the same areas.

    What a release needs of them is in its spec, by their hash, and in its own numbers; so they are not published again.
    """

    key = "predecessors"
    after = "bounds"
    for_measuring = True

    def read(self, scope: InputScope) -> Path | None:
        """The folder that the run was given; InputError where the releases there are of other areas."""
        part = scope.spec.part(SeriesPart)
        if part is None or part.series is None or part.folder is None:
            return None
        for one in predecessors(part.folder, base_of(scope.spec.name, part.series), part.series)[-1:]:
            check_areas(one, scope.spine, scope.spec.source)
        return part.folder

    def again(self, scope: InputScope, files: PublishedFiles) -> Path | None:
        """The folder that the release is in."""
        return files.run.root.parent

    def write(self, scope: InputScope, run: RunDirectory, found: Path | None) -> None:
        """There is nothing to write."""

    def identity(self, found: Path | None) -> Mapping[str, str]:
        """That of the spec, which has the hash of the release before."""
        return {}


PREDECESSORS = PredecessorsInput()
