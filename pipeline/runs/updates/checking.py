"""Whether a version is what its public files make it: the answers, the version before, and nothing else taken over."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.errors import SpinewiseError
from pipeline.execution.job import Job
from pipeline.published import PublishedRelease
from pipeline.publishing.answers import used_answers
from pipeline.publishing.files import input_files, replaced_files
from pipeline.questions.manifest import MANIFEST, AnswerManifest
from pipeline.release.manifest import Manifest, read_manifest
from pipeline.runs.questions.public_files import answer_problems
from pipeline.runs.updates.stated import updated_spec
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import sha256_file

__all__ = ["update_problems"]

#: What a version states as the one before does: it has the same noise, of the same records, charged once.
_KEPT = ("release", "status", "public_seed", "key_salt", "key_commitment", "input_fingerprints", "charging", "receipts")


def update_problems(job: Job, manifest: Manifest) -> list[str]:
    """What is wrong with a version that was made with answers, a sentence each; empty for a first release.

    Args:
        job: a run with the version's public inputs.
        manifest: of the version.
    """
    if job.spec.update is None:
        return []
    try:
        return list(_problems(job, manifest))
    except SpinewiseError as error:
        return [f"the version that it replaces, or an answer, cannot be read: {error}"]


def _problems(job: Job, manifest: Manifest) -> Iterator[str]:
    update = job.spec.update
    assert update is not None
    path = job.run.before(job.run.manifest)
    before = read_manifest(path)
    if sha256_file(path) != update.replaces:
        yield f"public/{job.run.name_of(path)} is not the manifest of the version that the spec says it replaces"
        return
    replaced = set(replaced_files(job))
    for file in input_files(job):
        name = job.run.name_of(file)
        of = name.removeprefix("replaced/") if file in replaced else name
        if of == "manifest.json" or (of.startswith("answers/") and of not in before.files):
            continue
        if of not in before.files or before.files[of].sha256 != manifest.files[name].sha256:
            yield f"public/{name} is not that of the version before"
    for name in (*_KEPT, "beacon"):
        if getattr(before, name) != getattr(manifest, name):
            yield f"public/manifest.json: {name} is not that of the version before"
    used = used_answers(job.run, job.spec)
    for one, stated in zip(used, update.answers, strict=True):
        yield from _answer_problems(job, stated.name, one)
    yield from _spec_problems(job, before, used)


def _answer_problems(job: Job, name: str, manifest: AnswerManifest) -> Iterator[str]:
    for problem in answer_problems(job.run.answer(name), manifest, of_release=True):
        yield f"public/answers/{name}: {problem}"


def _spec_problems(job: Job, before: Manifest, used: tuple[AnswerManifest, ...]) -> Iterator[str]:
    """Whether the spec is that of the version before, and states just what the answers are."""
    update = job.spec.update
    assert update is not None
    spec = ReleaseSpec.from_public_dict(before.spec, "the manifest of the version before")
    known = 0 if spec.update is None else len(spec.update.answers)
    opened = PublishedRelease(job.run, before, spec, spec.universes(), job.spine)
    new = [
        (one, sha256_file(job.run.answer(stated.name) / MANIFEST), f"public/answers/{stated.name}")
        for one, stated in zip(used[known:], update.answers[known:], strict=True)
    ]
    if updated_spec(opened, update.replaces, new).public_dict() != job.spec.public_dict():
        yield "public/manifest.json: the spec is not that of the version before with these answers"
