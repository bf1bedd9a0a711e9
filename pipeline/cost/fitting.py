"""How a run is made to fit into the available memory, by parts and fewer workers, or why it cannot.

No published number depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from geography.spine import Spine
from pipeline.cost.model import Cost, cost_of, sizes_of
from pipeline.cost.size import WIDE_RECORDS, Size
from pipeline.errors import InputError
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.downward.subtrees import MOST_CELLS, PART_CELLS

#: Leaf cells of the smallest parts that a spine is cut into to save memory.
LEAST_PART_CELLS = 1 << 18


@dataclass(frozen=True)
class Fitting:
    """How a run is done.

    Attributes:
        cost: of the run as it is done.
        requested: of the run as it was asked for.
        available: bytes of memory.
        most_cells, part_cells: leaf cells from which the spine is cut, and of a part.
        bare: megabytes of the run without margins and unbiased estimates.
    """

    cost: Cost
    requested: Cost
    available: int
    most_cells: int
    part_cells: int
    bare: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the most that it can take is within the available memory."""
        return self.cost.peak_mb * 1e6 <= self.available

    @property
    def changed(self) -> bool:
        """Whether it differs from the requested run, to save memory."""
        return (self.cost.workers, self.cost.parts) != (self.requested.workers, self.requested.parts)

    @property
    def summary(self) -> str:
        """How the run is done: "at most 3.1 GB of 8.0 GB, in 12 parts, with 2 workers"."""
        parts = f"in {self.cost.parts:,} parts" if self.cost.parts > 1 else "the spine at once"
        return (
            f"at most {_gigabytes(self.cost.peak_mb)} of {_gigabytes(self.available / 1e6)}, {parts}, with "
            f"{self.cost.workers} worker{'s' if self.cost.workers > 1 else ''}"
        )

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return self.cost.data() | {"available_mb": self.available / 1e6, "fits": self.fits}


def fitting(spec: ReleaseSpec, spine: Spine, workers: int, available: int, *, engine: bool = True) -> Fitting:
    """The way of doing a run that fits and changes least; if none fits, the one that takes the least memory.

    Args:
        spec: of the release.
        spine: the geography.
        workers: processes that were asked for.
        available: bytes of memory.
        engine: whether an engine records the run.
    """
    sizes = sizes_of(spec, spine)
    asked = cost_of(spec, spine, workers, sizes=sizes, engine=engine)
    least: Fitting | None = None
    for count, most, part in _ways(workers, sizes, spine):
        cost = cost_of(spec, spine, count, sizes=sizes, most_cells=most, part_cells=part, engine=engine)
        candidate = Fitting(cost, asked, available, most, part)
        if candidate.fits:
            return candidate
        if least is None or cost.peak_mb < least.cost.peak_mb:
            least = candidate
    assert least is not None
    if not (spec.publish.margins or spec.publish.unbiased):
        return least
    publish = spec.publish.model_copy(update={"margins": False, "unbiased": False})
    bare = fitting(spec.model_copy(update={"publish": publish}), spine, workers, available, engine=engine)
    return replace(least, bare=bare.cost.peak_mb)


def _ways(workers: int, sizes: tuple[Size, ...], spine: Spine) -> Iterator[tuple[int, int, int]]:
    """Workers, leaf cells from which the spine is cut, and leaf cells of a part, from the most to the least memory."""
    cells = spine.n_leaves * max(size.cells for size in sizes)
    for count in range(workers, 0, -1):
        yield count, MOST_CELLS, PART_CELLS
        part = PART_CELLS
        while part > LEAST_PART_CELLS:
            part //= 2
            if part < cells:
                yield count, part, part


def check_memory(spec: ReleaseSpec, fit: Fitting) -> None:
    """Refuse a run that may not fit, before anything is charged or written.

    Raises:
        InputError: it may not fit; the message has the figures and what helps.
    """
    if fit.fits:
        return
    margins = f" ({_gigabytes(fit.cost.margins_mb)} of it for the margins of error)" if fit.cost.margins_mb else ""
    raise InputError(
        f"{spec.name}: the run can take up to {_gigabytes(fit.cost.peak_mb)} of memory{margins} with "
        f"{fit.cost.workers} worker{'s' if fit.cost.workers > 1 else ''}{_in_parts(fit)}, and "
        f"{_gigabytes(fit.available / 1e6)} are available; what helps: {'; '.join(_help(spec, fit))}"
    )


def _help(spec: ReleaseSpec, fit: Fitting) -> Iterator[str]:
    """What would make the run fit, with figures."""
    if spec.privacy.population is None:
        yield (
            f"[privacy] population, if that is public: without it {WIDE_RECORDS:,.0f} records in an area of the lowest "
            "level are taken for granted, each in a cell of its own"
        )
    yield "a machine, or a limit of the control group, with more memory"
    if fit.bare:
        yield f"[publish] margins = false and unbiased = false, which take {_gigabytes(fit.bare)}"
    yield "the setting memory (SPINEWISE_MEMORY), in gigabytes, if you know that more is available"


def _in_parts(fit: Fitting) -> str:
    return f" in {fit.cost.parts:,} parts" if fit.cost.parts > 1 else ""


def _gigabytes(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB"
