"""Counts of a central release as a public input of a release from reports: read, checked, published, described."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from features.local.survey import Survey
from geography.spine import Spine, first_few
from pipeline.errors import InputError, ReleaseError, SpinewiseError
from pipeline.inputs.public_input import InputScope, PublicInput, sha256_of_numbers
from pipeline.metadata.contents import Contents, ProductFile
from pipeline.metadata.datapackage import measured
from pipeline.metadata.products import Description, Product, ReleaseScope, drawn_files
from pipeline.model.strategy import Central
from pipeline.model.universe import Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.published import PublishedRelease, open_finished
from pipeline.publishing.public_inputs import write_counts
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest
from pipeline.release.measurements import read_measurement
from pipeline.release.provenance import CentralRelease, read_central_release
from pipeline.release.published_files import PublishedFiles
from pipeline.release.receipts import charging
from pipeline.release.status import EXAMPLE
from pipeline.storage.files import json_sha256, sha256_file, write_json
from pipeline.storage.paths import Readable, unchecked
from postprocess.arrays import IntArray

#: Noisy counts of a central release by level, and which release that is; nothing without one.
CentralCounts = tuple[dict[str, IntArray], CentralRelease | None]


def read_central(universe: Universe, spine: Spine, *, example: bool) -> CentralCounts:
    """The noisy counts of the cells `(n_geounits, n_cells)` of each level that a central release has measured.

    Args:
        universe: of the reports; without central counts there are none.
        spine: of the reports.
        example: whether the release is about made-up data, and its central counts may be as well.

    Raises:
        InputError: the release is not there or damaged; it is not charged; its measurements, attributes or areas are
            not those that the spec states; it publishes more of the true answers than its budget says.
    """
    if not universe.source.releases:
        return {}, None
    (central,) = universe.source.releases
    where = f"collect.central.release: {central.release}"
    try:
        release = open_finished(central.release, check_hashes=True)
    except SpinewiseError as error:
        raise InputError(f"collect.central.release: {error}") from None
    manifest = release.manifest
    if manifest.release != central.release.name:
        raise InputError(f"{where}: its manifest calls it {manifest.release!r}; let its directory have this name")
    _check_same(universe, central, release, where)
    _check_all_is_noisy(release, where)
    if not (example and manifest.status == EXAMPLE):
        _check_charged(central, manifest, where)
    counts = {level: _counts(universe, central, release, spine, level, where) for level in central.shares}
    sha256 = sha256_file(release.run.manifest)
    return counts, CentralRelease(release=manifest.release, status=manifest.status, manifest_sha256=sha256)


def _check_charged(central: Central, manifest: Manifest, where: str) -> None:
    """Refuse a release that no ledger has counted as it says; nothing is known of its ledger here but the receipts."""
    if manifest.status != "official":
        raise InputError(f"{where}: its status is {manifest.status!r}; a release that is charged to a ledger is needed")
    if not manifest.receipts or manifest.charging != charging(manifest.receipts, local=False):
        raise InputError(f"{where}: its status is 'official', and its manifest has no receipt of a ledger")
    unit = BUDGET_NAMES[central.framework]
    if any((one.unit, Fraction(one.cost)) != (unit, central.budget) for one in manifest.receipts):
        raise InputError(f"{where}: its receipts are not of {unit} = {central.budget}, its whole budget")


def _check_all_is_noisy(release: PublishedRelease, where: str) -> None:
    """Refuse a release whose main budget is not all that it costs a person to have another answer.

    Exact totals are of who answered, and stay when an answer is another. All else that is exact, and the histograms of
    companions, would tell more of the answers than the budget says.
    """
    main, *companions = release.universes
    if companions:
        names = ", ".join(one.name for one in companions)
        raise InputError(f"{where}: it has companions ({names}), which cost more than its budget; none may be there")
    for level, query in main.invariants:
        if query.terms:
            raise InputError(
                f"{where}: it publishes {query.name!r} of each {level} exactly, which no budget covers; only totals "
                "may be exact, which are of who answered"
            )
    if main.bounds or main.structural_zeros.any():
        raise InputError(f"{where}: its bounds or impossible combinations are exact, which no budget covers")


def _check_same(universe: Universe, central: Central, release: PublishedRelease, where: str) -> None:
    """Refuse a release of other attributes, or with another promise."""
    main = release.universes[0]
    stated = (central.framework, central.budget)
    if (main.framework, main.budget) != stated:
        raise InputError(
            f"{where}: its framework and budget are {main.framework}, {main.budget}; the spec says "
            f"{central.framework}, {central.budget}"
        )
    if main.neighbours != "change-one" or not main.measure.counts or main.unit.records > 1:
        raise InputError(
            f'{where}: a release is needed in which every person is one record and neighbours are "change-one", as '
            "with reports"
        )
    own, other = ([(a.name, *a.values) for a in one.schema.attributes] for one in (universe, main))
    if own != other:
        raise InputError(f"{where}: its attributes and values are not those of the reports, in this order")


def _counts(
    universe: Universe, central: Central, release: PublishedRelease, spine: Spine, level: str, where: str
) -> IntArray:
    """The noisy counts of one level, in the order of the spine."""
    (measured,) = universe.strategy.levels[-1].queries
    main, level_of = release.universes[0], {one.level: one for one in release.universes[0].strategy.levels}
    at_level = level_of[level].queries if level in level_of else ()
    named = [one.query.name for one in at_level if one.query.terms == measured.query.terms]
    if not named:
        raise InputError(f"{where}: it does not measure {measured.query.name!r} at the level {level!r}")
    found = read_measurement(release.unchanged(release.run.universe(main.name).measurement(level, named[0])))
    noise, header = central.noise(level), found.header
    if (header.mechanism, header.scale) != (noise.mechanism, noise.scale) or header.others:
        raise InputError(
            f"{where}: its noise at the level {level!r} is {header.mechanism} of scale {header.scale}; by the budget "
            f"and share in the spec it is {noise.mechanism} of scale {noise.scale}"
        )
    wanted = spine.level(level).geocodes.tolist()
    places = {code: place for place, code in enumerate(found.geocodes.tolist())}
    if missing := [code for code in wanted if code not in places]:
        raise InputError(f"{where}: {len(missing):,} areas of the level {level!r} are not in it: {first_few(missing)}")
    return found.values[[places[code] for code in wanted]]


def read_public_central(run: RunDirectory, readable: Callable[[Path], Readable], universe: Universe) -> CentralCounts:
    """The same as a release from reports has published them; ReleaseError where a file is damaged or missing.

    Args:
        readable: gives a file to be read, see `UniverseFiles`.
    """
    if not universe.source.releases:
        return {}, None
    counts = {
        draw.level: read_measurement(readable(run.main.measurement(draw.level, draw.query.name))).values
        for draw in universe.draws()
        if draw.copied
    }
    return counts, read_central_release(readable(run.central))


# -- files -------------------------------------------------------------------------------------------------------------


def _central_counts(of: ReleaseScope) -> Iterator[ProductFile]:
    return drawn_files(of, lambda draw: draw.copied)


def _central(of: ReleaseScope) -> Iterator[ProductFile]:
    if any(_central_counts(of)):
        yield ProductFile(of.run.central)


CENTRAL_RELEASE: Final = Product(
    "central.json",
    "in a mixed design: name, status and manifest's SHA-256 of the central release",
    "input",
    _central,
    after="constraints/bound-N.parquet",
)
CENTRAL_COUNTS: Final = Product(
    "measurements/LEVEL/QUERY.parquet",
    "",
    "input",
    _central_counts,
    Description((6, 1), Contents.measurement, measured),
    after="measurements/LEVEL/QUERY.parquet",
)


# -- the public input --------------------------------------------------------------------------------------------------


class CentralInput(PublicInput[CentralCounts]):
    """Noisy counts that another release has published, used beside reports; central.json says where they are from."""

    key = "central"
    part = "central"
    products = (CENTRAL_COUNTS, CENTRAL_RELEASE)
    after = "bounds"
    for_measuring = True

    def read(self, scope: InputScope) -> CentralCounts:
        """See `read_central`."""
        found: list[CentralCounts] = [({}, None)]
        with scope.noted():
            found.append(read_central(scope.universes[0], scope.spine, example=scope.spec.purpose == "example"))
        return found[-1]

    def again(self, scope: InputScope, files: PublishedFiles) -> CentralCounts:
        """See `PublicInput.again`."""
        return read_public_central(files.run, files.unchanged, scope.universes[0])

    def write(self, scope: InputScope, run: RunDirectory, found: CentralCounts) -> None:
        """Publish the counts in the form of measurements, which they are, and which release they are of."""
        counts, release = found
        copied = (draw for draw in scope.universes[0].draws(scope.spine) if draw.copied)
        write_counts(scope, run, ((draw, counts[draw.level]) for draw in copied))
        if release is not None:
            write_json(run.central, release.model_dump(mode="json"), run.staging)

    def identity(self, found: CentralCounts) -> Mapping[str, str]:
        """See `PublicInput.identity`."""
        counts, release = found
        hashes = {}
        if counts:
            hashes["the central counts"] = json_sha256(
                [[level, sha256_of_numbers(one)] for level, one in counts.items()]
            )
        if release is not None:
            hashes["the central release"] = json_sha256(release.model_dump(mode="json"))
        return hashes

    def problems(self, scope: InputScope, run: RunDirectory, *, official: bool) -> list[str]:
        """Whether the release names the one of its spec, with a status that goes with its own."""
        names = [central.release.name for central in scope.universes[0].source.releases]
        if not names:
            return []
        try:
            stated = read_central_release(unchecked(run.central))
        except ReleaseError as error:
            return [str(error)]
        if [stated.release] == names and stated.status in (("official",) if official else ("official", EXAMPLE)):
            return []
        return ["public/central.json: it does not name the central release of the spec, or one that is charged"]

    def differences(self, scope: InputScope, run: RunDirectory, origin: Path, status: str) -> list[str]:
        """See `PublicInput.differences`.

        The central release is checked as it was before the run, its manifest is compared by its hash, and every count
        of the levels that are used with the copy.
        """
        universe = scope.universes[0]
        survey = universe.source
        if not isinstance(survey, Survey) or survey.central is None:
            raise InputError(f"--central: {run.root} uses no central release")
        here = replace(universe, source=replace(survey, central=replace(survey.central, release=origin.resolve())))
        try:
            found, which = read_central(here, scope.spine, example=status == EXAMPLE)
            copied, stated = read_public_central(run, unchecked, universe)
        except SpinewiseError as error:
            return [str(error)]
        assert which is not None
        assert stated is not None
        problems = []
        if which.manifest_sha256 != stated.manifest_sha256:
            problems.append(
                f"{origin}: its manifest is not the one that was used; public/central.json states the SHA-256 "
                f"{stated.manifest_sha256}, and it has {which.manifest_sha256}"
            )
        for draw in universe.draws():
            if draw.copied and (wrong := int((found[draw.level] != copied[draw.level]).any(axis=1).sum())):
                name = run.main.measurement(draw.level, draw.query.name).relative_to(run.root).as_posix()
                of = len(found[draw.level])
                problems.append(f"{name}: {wrong:,} areas of {of:,} have other counts than {origin}")
        return problems


CENTRAL: Final = CentralInput()
