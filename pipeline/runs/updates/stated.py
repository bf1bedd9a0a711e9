"""The spec of a version that is made with answers, from the one before and the answers' manifests."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import InputError
from pipeline.published import PublishedRelease
from pipeline.publishing.answers import used_answers
from pipeline.questions.manifest import AnswerManifest
from pipeline.questions.released.added import added_section, refuse_drawn_twice
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.update.section import UpdateSection


def updated_spec(
    before: PublishedRelease, replaces: str, given: Sequence[tuple[AnswerManifest, str, str]]
) -> ReleaseSpec:
    """The spec of the next version of a release.

    Args:
        before: the version that it replaces.
        replaces: SHA-256 of its manifest.
        given: of each answer that is added its manifest, the hash of it, and what messages call it.

    Raises:
        InputError: an answer cannot be used with this release, or is used already.
    """
    if not given:
        raise InputError("no answer was given; name at least one with --with")
    earlier = before.spec.update
    refuse_drawn_twice([*used_answers(before.run, before.spec), *(manifest for manifest, _, _ in given)])
    sections = [] if earlier is None else list(earlier.answers)
    for manifest, sha256, path in given:
        if manifest.answer in {one.name for one in sections}:
            raise InputError(f"{path}: an answer called {manifest.answer!r} is used already; give it another --name")
        try:
            sections.append(added_section(manifest, sha256, before))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    section = UpdateSection(
        version=2 if earlier is None else earlier.version + 1,
        replaces=replaces,
        answers=tuple(sections),
    )
    return before.spec.updated(section)
