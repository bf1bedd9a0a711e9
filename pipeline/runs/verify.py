"""Verify a release from its public files: recompute public/ from its measurements, and compare every byte.

What is recomputed are the files of `metadata.products` with the role "computed", by the steps of a run
(`publishing.steps`). The manifest is compared field by field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

from pipeline.errors import InputError, ReleaseError, SpinewiseError
from pipeline.execution.batches import Batches
from pipeline.execution.job import Job
from pipeline.execution.steps import Progress, listener_of
from pipeline.execution.workers import Workers
from pipeline.inputs.public_input import InputScope
from pipeline.model.universe import Universe, promised
from pipeline.plan import plan_of
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.published import open_finished, refuse_unwritten
from pipeline.publishing.files import input_files, output_files
from pipeline.publishing.promises import charging_of, promises_of
from pipeline.publishing.provenance import provenance_of
from pipeline.publishing.public_inputs import inputs_of
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, check_public_files, read_manifest, version_differences
from pipeline.release.measurements import read_selected
from pipeline.release.run_directory import make_run_folders
from pipeline.release.status import MADE_ELSEWHERE, RECEIVED
from pipeline.run import DrawSource, ReleaseRun
from pipeline.runs.receipts import exact_of
from pipeline.runs.updates import update_problems
from pipeline.storage.durable import make_folder
from pipeline.storage.files import sha256_file, temporary_folder

#: Fields of a manifest that no public file implies, so that their form is all that is compared; all but the last are
#: compared by an audit with the key and the ledger.
FORM_ALONE: Final = (
    "key_salt", "key_commitment", "input_fingerprints", "receipts (ledger, number, hash)", "software",
)  # fmt: skip


def verify_release(run: RunDirectory, workers: int, progress: Progress, central: Path | None = None) -> list[str]:
    """What is wrong with a release, one sentence each; empty if nothing is.

    First every file is compared with its hash in the manifest. Then all of public/ except inputs and measurements
    (`publishing.files.input_files`) is recomputed in a temporary folder and compared byte for byte.
    Nothing under restricted/ is read.

    Args:
        run: the release.
        workers: number of processes.
        progress: receives how far it is.
        central: the directory of the central release whose counts are used, to compare them with it too.

    Raises:
        InputError: the release uses no central one, or a file of it is of a feature that is not installed.
    """
    if problems := check_public_files(run):
        return problems
    manifest = read_manifest(run.manifest)
    refuse_unwritten(run, manifest)
    try:
        with _recomputed(run, manifest, workers, progress) as job:
            problems = _compare(job, manifest)
            scope = InputScope(job.spec, job.universes, job.spine)
    except SpinewiseError as error:
        problems = [f"public/ cannot be recomputed: {error}"]
    else:
        if central is not None:
            problems += _differences_from(central, scope, run, manifest.status)
    return problems + version_differences(manifest) if problems else []


def _differences_from(origin: Path, scope: InputScope, run: RunDirectory, status: str) -> list[str]:
    """What differs between another release and what was taken from it; InputError where nothing was."""
    found = [one.differences(scope, run, origin, status) for one in inputs_of(scope.spec)]
    taken = [problems for problems in found if problems is not None]
    if not taken:
        raise InputError(f"--central: {run.root} uses no central release")
    return [problem for problems in taken for problem in problems]


@contextmanager
def _recomputed(run: RunDirectory, manifest: Manifest, workers: int, progress: Progress) -> Iterator[Job]:
    """A temporary run whose public/ has the inputs of `run`, and everything else recomputed from them."""
    release = open_finished(run.root, check_hashes=False)
    with (
        temporary_folder("verify") as folder,
        Workers(workers, told=listener_of(progress)) as pool,
        threadpool_limits(1),
    ):
        again = RunDirectory(folder / "release")
        make_run_folders(again)
        batches = Batches(again, about="verify")
        job = Job(
            again,
            release.spec,
            release.universes,
            release.spine,
            pool,
            progress,
            batches,
            status=manifest.status,
            receipts=list(manifest.receipts),
        )
        for path in input_files(job):
            _link(path, run.public / path.relative_to(again.public))
        ReleaseRun(job, DrawSource()).perform()
        yield job


def _link(target: Path, source: Path) -> None:
    make_folder(target.parent)
    target.symlink_to(source)


def _compare(job: Job, manifest: Manifest) -> list[str]:
    """What differs between the release and what was recomputed."""
    problems = []
    inputs = {_name(job, path) for path in input_files(job)}
    computed = {_name(job, path): path for path in job.run.public.rglob("*") if path.is_file()}
    due = {_name(job, path) for path in output_files(job)}
    for name in sorted(manifest.files.keys() | computed.keys() | due):
        if name not in computed and name not in due:
            problems.append(f"public/{name} does not follow from the spec; no such file is part of the release")
        elif name not in manifest.files:
            problems.append(f"public/{name} is missing; the spec says that it is published")
        elif name not in inputs and (
            name not in computed or sha256_file(computed[name]) != manifest.files[name].sha256
        ):
            problems.append(f"public/{name} is not what its measurements give")
    problems += selected_problems(job)
    problems += [
        f"public/manifest.json: spec: {problem}" for part in job.spec.of_features for problem in part.problems(job.spec)
    ]
    problems += manifest_problems(job, manifest) + update_problems(job, manifest)
    scope, official = InputScope(job.spec, job.universes, job.spine), manifest.status == "official"
    problems += [problem for one in inputs_of(job.spec) for problem in one.problems(scope, job.run, official=official)]
    elsewhere = manifest.status == MADE_ELSEWHERE
    promises, counted = promises_of(job), promised(job.universes)
    fingerprinted = set() if elsewhere else {universe.name for universe in counted}
    local, receipts = job.spec.privacy.framework == "local", bool(manifest.receipts)
    stated = {
        "release": manifest.release == job.spec.name,
        "draws": manifest.draws == plan_of(job).draws,
        "privacy": manifest.privacy == (promises.made_elsewhere if elsewhere else promises.statements),
        "charging": manifest.charging in ("", charging_of(job, manifest.receipts)) and not (local and receipts),
        "status": (receipts or local or not manifest.charging or manifest.status != "official")
        and (manifest.status == RECEIVED) == (not counted),
        "accounts": manifest.accounts == promises.accounts,
        "beyond_limits": manifest.beyond_limits == promises.beyond_limits,
        "joint": manifest.joint == promises.joint,
        "households": manifest.households == promises.households,
        "provenance": manifest.provenance == provenance_of(job),
        "input_fingerprints": manifest.input_fingerprints.keys() == fingerprinted,
    }
    problems += [
        f"public/manifest.json: {key} is not what the spec gives" for key, holds in stated.items() if not holds
    ]
    return problems


def _name(job: Job, path: Path) -> str:
    return path.relative_to(job.run.public).as_posix()


def manifest_problems(job: Job, manifest: Manifest) -> list[str]:
    """What is wrong with spec, solver and receipts in the manifest, one sentence each.

    Args:
        job: a run whose public steps were performed again, with their notes.
        manifest: of the release.
    """
    recomputed = {
        "spec": job.spec.public_dict() == manifest.spec,
        "solver": dict(job.notes) == manifest.solver,
    }
    problems = [
        f"public/manifest.json: {field} is not what the public files give"
        for field, same in recomputed.items()
        if not same
    ]
    return problems + receipt_problems(job.universes, manifest)


def receipt_problems(universes: Sequence[Universe], manifest: Manifest) -> list[str]:
    """Whether the receipts of a release state the cost of what it has measured, without the ledger that has them."""
    spent: dict[str, Fraction] = {}
    for universe in universes:
        if universe.dataset:
            spent[universe.dataset] = spent.get(universe.dataset, Fraction(0)) + universe.charged
    unit = BUDGET_NAMES[universes[0].framework]
    wanted = {dataset: (unit, str(cost)) for dataset, cost in spent.items()}
    exact = {one for universe in universes for one in exact_of(universe, manifest)}
    named = [(one.universe, one.what) for receipt in manifest.receipts for one in receipt.exact]
    strange = [
        f"public/manifest.json: receipts: {what[:60]!r} is stated as exact, and not published so, or twice"
        for number, (name, what) in enumerate(named)
        if (name, what) not in exact or (name, what) in named[:number]
    ]
    return strange + [
        f"public/manifest.json: receipts: {one.dataset!r} was charged {one.unit} = {one.cost}, and what is measured "
        f"costs {' = '.join(wanted.get(one.dataset, ('nothing', '0')))}"
        for one in manifest.receipts
        if wanted.get(one.dataset) != (one.unit, one.cost)
    ]


def selected_problems(job: Job) -> list[str]:
    """A sentence for each public file of a selection that is not as the spec says."""
    problems = []
    for universe in job.universes:
        for selection in universe.selections:
            path = job.folder(universe).selected(selection.name, selection.level)
            name = f"public/{path.relative_to(job.run.public).as_posix()}"
            geocodes = job.spine.level(selection.level).geocodes
            try:
                for _ in read_selected(job.readable(path), selection, geocodes):
                    pass
            except ReleaseError as error:
                problems.append(str(error).replace(str(path), name))
    return problems
