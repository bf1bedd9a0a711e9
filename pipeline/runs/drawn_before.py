"""Whether what a rerun would recompute is what was run: the public side of it, see `pipeline.confidential.repeat`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import recorded_identity
from pipeline.runs.open_public import PublicSide, open_listed
from pipeline.spec.release_spec import ReleaseSpec

_NOTHING = "nothing was drawn, since its noise was never charged"
_KEY = "the key"  # in the identity; it is compared with the manifest's commitment


def refuse_other_run(run: RunDirectory, public: PublicSide) -> None:
    """Compare what public/ states with what the run recorded when it began.

    Where restricted/ is gone, the operator's own spec was compared instead; see `refuse_other_inputs`.

    Raises:
        InputError: they are not the same.
    """
    if run.record.exists():
        recorded, stated = recorded_identity(run), public.identity()
        differing = sorted(
            name for name in (recorded.keys() | stated.keys()) - {_KEY} if recorded.get(name) != stated.get(name)
        )
        if differing:
            raise InputError(
                f"{run.root}: public/ is not what was run here: {', '.join(differing)} differ from what "
                f"{run.record} recorded; {_NOTHING}"
            )


def refuse_other_inputs(
    run: RunDirectory, public: PublicSide, spec: ReleaseSpec, universes: Sequence[Universe]
) -> None:
    """Compare public/ with the spec that the operator gives, and with the public inputs that it names.

    Raises:
        InputError: they are not the same, or an input cannot be read.
    """
    own, stated = open_listed(spec, universes).identity(), public.identity()
    differing = sorted(name for name in own.keys() | stated.keys() if own.get(name) != stated.get(name))
    if differing:
        raise InputError(
            f"{run.root}: public/ is not what {spec.source} gives: {', '.join(differing)} differ; {_NOTHING}"
        )
