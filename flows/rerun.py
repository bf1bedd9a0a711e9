"""Rerun a release from its records and its key, compare every public file, and say where the first difference is."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from flows.differences import Difference, compare_public
from flows.inputs import read_public_facilities, read_public_spine
from flows.job import Job
from flows.manifests import manifest_of
from flows.refusals import RefusedError
from flows.request import with_data
from flows.stages import Records, perform_steps, public_steps
from flows.steps import Perform, Progress, perform_here
from flows.verify import version_differences
from flows.workers import Workers
from pipeline.errors import InputError, ReleaseError
from pipeline.files import make_folder, make_restricted
from pipeline.layout import RunDirectory
from pipeline.manifest import Manifest, read_manifest, status, write_manifest
from pipeline.privacy.keys import MasterKey
from pipeline.report.polygons import read_public_areas
from pipeline.spec import ReleaseSpec, load_spec
from pipeline.spec_input import InputSpec
from pipeline.universe import Universe


@dataclass(frozen=True)
class Rerun:
    """What a rerun found.

    Attributes:
        files: how many public files were compared, the manifest among them.
        differences: in the order in which a run writes the files; empty if all are the same to the last byte.
        remarks: what a reader of the differences has to know, such as other versions.
    """

    files: int
    differences: tuple[Difference, ...]
    remarks: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not self.differences


def rerun_release(
    run: RunDirectory,
    universes: Sequence[Universe],
    key: MasterKey,
    workers: int,
    progress: Progress,
    perform: Perform = perform_here,
) -> Rerun:
    """Compute all of public/ again in a temporary folder, closed to others, and compare it with the release.

    It draws the noise that was drawn before and costs no budget. The folder, which holds true counts, is removed.

    Args:
        universes: with their records; see `universes_to_rerun`.
        key: the release's; see `flows.custody.key_of_release`.

    Raises:
        RefusedError: the records cannot be read; why is in a file that only its owner can read.
        SpinewiseError: the release cannot be computed again.
    """
    manifest = read_manifest(run.manifest)
    with (
        tempfile.TemporaryDirectory(prefix="spinewise-rerun-") as folder,
        Workers(workers) as pool,
        threadpool_limits(1),
    ):
        again = RunDirectory(Path(folder) / "release")
        with _keeping_refusal():
            computed = _compute(run, again, manifest, universes, key, pool, progress, perform)
        differences = compare_public(run, again, [level.name for level in computed.spine.levels])
        files = len(read_manifest(again.manifest).files) + 1
        remarks = list(version_differences(manifest))
        changed = [
            name or manifest.release
            for name, fingerprint in read_manifest(again.manifest).input_fingerprints.items()
            if manifest.input_fingerprints.get(name) != fingerprint
        ]
    if changed:
        remarks.insert(0, f"the records are not those that the release was made from: {', '.join(changed)}")
    return Rerun(files, tuple(differences), tuple(remarks))


def _compute(
    run: RunDirectory,
    again: RunDirectory,
    manifest: Manifest,
    universes: Sequence[Universe],
    key: MasterKey,
    pool: Workers,
    progress: Progress,
    perform: Perform,
) -> Job:
    spec = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    spine = read_public_spine(run.spine, spec.geography.level_names)
    make_restricted(again.root)
    make_folder(again.public)
    make_restricted(again.restricted)
    make_restricted(again.staging)
    job = Job(again, spec, tuple(universes), spine, pool, progress, status(insecure_key=key.insecure))
    facilities = {
        one.name: [
            read_public_facilities(
                run.universe(one.name).constraint(number), bound, spine.levels[spine.index_of(bound.level)].geocodes
            )
            for number, bound in enumerate(one.bounds)
        ]
        for one in universes
    }
    polygons = {level: read_public_areas(run.polygons(level)) for level in spec.report.polygons}
    records = Records(job, key, facilities, polygons)
    # Not charged: noise that is drawn again is the noise that was charged for.
    confidential = [*records.before_measuring(), *records.measuring()]
    publishing = public_steps(job)
    progress.begin((*confidential, *publishing))
    perform_steps(job, confidential, perform)
    told = perform_steps(job, publishing, perform)
    computed = manifest_of(
        job,
        told,
        status=job.status,
        key_commitment=key.commitment(),
        input_fingerprints=records.fingerprints,
    )
    write_manifest(again, computed)
    return job


@contextmanager
def _keeping_refusal() -> Iterator[None]:
    """Why the records were refused outlives the temporary folder, in one of its own that only its owner can enter."""
    try:
        yield
    except RefusedError as error:
        kept = Path(tempfile.mkdtemp(prefix="spinewise-refused-")) / error.details.name
        shutil.copy(error.details, kept)
        stage = str(error).split(":")[0]
        raise RefusedError(stage, kept, error.exit_status) from None


def universes_to_rerun(run: RunDirectory, data: Path | None, spec: Path | None) -> tuple[Universe, ...]:
    """The release's universes with their records.

    How the records are read is not public, so it is taken from the spec file where one is given, and from what the run
    kept in restricted/ otherwise.

    Args:
        data: records instead of those that the spec or the run name: a file, or a folder with files of the same names.

    Raises:
        InputError: the spec is of another release, or there is nothing that says how the records are read.
    """
    manifest = read_manifest(run.manifest)
    public = ReleaseSpec.from_public_dict(manifest.spec, str(run.manifest))
    if spec is None:
        sections = _kept_inputs(run)
        universes: tuple[Universe, ...] = tuple(
            replace(one, input=sections.get(one.name)) for one in public.universes()
        )
    else:
        given = load_spec(spec)
        found, wanted = json.loads(json.dumps(given.public_dict())), manifest.spec
        differing = sorted(part for part in found.keys() | wanted.keys() if found.get(part) != wanted.get(part))
        if differing:
            raise InputError(
                f"--spec {spec}: is not the spec of {run.root}: it differs in {', '.join(differing)}; the spec that "
                "the release was made with is needed"
            )
        universes = given.universes()
    for universe in universes:
        universe.require_input()
    return with_data(universes, data)


def inputs_to_keep(universes: Sequence[Universe]) -> dict[str, object]:
    """The [input] sections as JSON, for restricted/: universe -> section."""
    kept: dict[str, object] = {}
    for universe in universes:
        section = universe.require_input()
        kept[universe.name] = {**section.model_dump(mode="json"), "file": str(section.file.resolve())}
    return kept


def _kept_inputs(run: RunDirectory) -> Mapping[str, InputSpec]:
    try:
        content = json.loads(run.input.read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{run.root}: nothing here says how the records are read, since that is not public; give the spec that the "
            "release was made with, --spec SPEC"
        ) from None
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{run.input} cannot be read: {error}") from None
    try:
        return {name: InputSpec.model_validate(section) for name, section in content.items()}
    except (ValueError, AttributeError):
        raise ReleaseError(f"{run.input} is damaged; give the spec with --spec SPEC") from None
