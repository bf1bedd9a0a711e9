"""What a command of a feature may have the stages of a release do; the command line hands it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import scipy.sparse as sp

    from pipeline.execution.progress import Progress
    from pipeline.model.texts.message import Message
    from pipeline.release.layout import RunDirectory

    #: (name of an estimator, what it is) -> universe -> histograms `(n_geounits, n_cells)` of each level.
    Estimates = Mapping[tuple[Message, Message], Mapping[str, Sequence[sp.csr_array]]]


@dataclass(frozen=True)
class Stages:
    """The object of the command line's context.

    Attributes:
        estimated_otherwise: a finished release, estimated again from its measurements by the other estimator, with a
            number of worker processes and a progress bar.
    """

    estimated_otherwise: Callable[[RunDirectory, int, Progress], Estimates]
