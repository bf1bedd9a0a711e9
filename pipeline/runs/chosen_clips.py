"""Ends of amounts that a question has chosen: whether the answers that a spec names are whole, before it is run."""

from __future__ import annotations

from pipeline.errors import SpecError
from pipeline.model.universe import Universe
from pipeline.questions.manifest import read_answer
from pipeline.questions.released.added import promises
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import answer_problems
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import sha256_file


def check_chosen(spec: ReleaseSpec, release: Universe) -> None:
    """Verify the answers that upper ends are from; a published spec has only their names, and they were verified.

    Args:
        spec: with the companions.
        release: its own universe, with which its companions of amounts share the records.

    Raises:
        SpecError: an answer does not verify, was changed since the spec was read, or has another promise.
        ReleaseError: its manifest cannot be read.
    """
    for name, chosen in spec.chosen_ends.items():
        if not chosen.answer.is_absolute():
            continue
        run = RunDirectory(chosen.answer)
        manifest = read_answer(run)
        problems = answer_problems(run.public, manifest)
        if sha256_file(run.public / "answer.json") != chosen.sha256:
            problems.append("answer.json: was changed since the spec was read")
        if problems:
            raise SpecError(
                f"{spec.source}: companions.{name}.between: the answer {chosen.answer} does not verify: {problems[0]}"
            )
        for what, (own, theirs) in promises(manifest, release).items():
            if own != theirs:
                raise SpecError(
                    f"{spec.source}: companions.{name}.between: the answer {chosen.answer} has another promise: "
                    f"{what}: found {own}, and {theirs} of the release; ask for the clip with the release's own "
                    "[privacy]"
                )
