"""The public inputs of a run, opened: from the files that its spec names, or from what a release has published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geography.spine import Spine
from pipeline.estimation.expectation import published_tables
from pipeline.execution.batches import Batches
from pipeline.execution.job import Job
from pipeline.execution.steps import Progress
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import left_out_remark, read_spine
from pipeline.inputs.public_input import InputScope, OpenedInputs
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.publishing.public_inputs import BOUNDS, input_identity, read_inputs, reread_inputs
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, write_bytes


@dataclass(frozen=True, eq=False)
class PublicSide:
    """What a run is computed from beside records and measurements; nothing confidential.

    Attributes:
        spec: the release spec.
        universes: what it resolves to, the release's own first.
        spine: the geography.
        inputs: what the public inputs hold.
        remarks: what the measurements do not determine, a sentence each; public.
    """

    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine
    inputs: OpenedInputs
    remarks: tuple[str, ...] = ()

    def job(self, run: RunDirectory, workers: Workers, progress: Progress, batches: Batches | None = None) -> Job:
        """What the steps of a run have in common."""
        return Job(
            run, self.spec, self.universes, self.spine, workers, progress, batches or Batches(), inputs=self.inputs
        )

    def keep_remarks(self, run: RunDirectory) -> None:
        """Keep the remarks for the end of the run, in place of those of a run before."""
        run.remarks.unlink(missing_ok=True)
        if self.remarks:
            text = "".join(f"{line}\n" for line in self.remarks)
            write_bytes(run.remarks, text.encode(), run.staging, private=True)

    def identity(self) -> dict[str, str]:
        """What makes it the same run, but for the key: hashes by the names that a refusal shows."""
        identity = {f"the spec's {part}": json_sha256(content) for part, content in self.spec.public_dict().items()}
        return identity | input_identity(self.spec, self.inputs)


def open_listed(spec: ReleaseSpec, universes: Sequence[Universe]) -> PublicSide:
    """The public side of a run, from the files that the spec names; without tables that nothing determines.

    Raises:
        InputError: a file cannot be read, or does not fit.
        SpineError: the areas are not a tree.
    """
    spine = read_spine(spec.geography)
    inputs = read_inputs(InputScope(spec, universes, spine))
    spec, kept, remarks = published_tables(spec, universes, spine, inputs.of(BOUNDS))
    if left_out := left_out_remark(spec.geography):
        remarks = (left_out, *remarks)
    return PublicSide(spec, kept, spine, inputs, remarks)


def open_published(release: PublishedRelease, universes: Sequence[Universe]) -> PublicSide:
    """The public side of a finished release, from its public files.

    Args:
        universes: the release's, with their records.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    inputs = reread_inputs(InputScope(release.spec, universes, release.spine), release)
    return PublicSide(release.spec, tuple(universes), release.spine, inputs)
