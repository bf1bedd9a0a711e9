"""What a run does so that it fits into the memory that there is: parts, fewer workers; or that it cannot.

No published number depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from flows.plan.cost import Cost, cost_of, sizes_of
from flows.plan.size import Size
from geography.spine import Spine
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
        wanted: of the run as it was asked for.
        available: bytes of memory that there are.
        most_cells, part_cells: leaf cells from which the spine is cut, and of a part.
        bare: megabytes of the same without margins and unbiased estimates, which are worked out on the whole spine.
    """

    cost: Cost
    wanted: Cost
    available: int
    most_cells: int
    part_cells: int
    bare: float = 0.0

    @property
    def fits(self) -> bool:
        return self.cost.peak_mb * 1e6 <= self.available

    @property
    def changed(self) -> bool:
        """Whether it is done otherwise than asked for, to save memory."""
        return (self.cost.workers, self.cost.parts) != (self.wanted.workers, self.wanted.parts)

    @property
    def words(self) -> str:
        """What is done: "about 3.1 GB of 8.0 GB, in 12 parts, with 2 workers"."""
        parts = f"in {self.cost.parts:,} parts" if self.cost.parts > 1 else "the spine at once"
        return (
            f"about {_gigabytes(self.cost.peak_mb)} of {_gigabytes(self.available / 1e6)}, {parts}, with "
            f"{self.cost.workers} worker{'s' if self.cost.workers > 1 else ''}"
        )

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return self.cost.data() | {"available_mb": self.available / 1e6, "fits": self.fits}


def fitting(spec: ReleaseSpec, spine: Spine, workers: int, available: int, *, engine: bool = True) -> Fitting:
    """The way of doing a run that fits and changes least; the one that takes the least memory where none fits.

    Args:
        workers: processes that were asked for.
        available: bytes of memory.
        engine: whether an engine records the run.
    """
    sizes = sizes_of(spec, spine)
    wanted = cost_of(spec, spine, workers, sizes=sizes, engine=engine)
    least: Fitting | None = None
    for count, most, part in _ways(workers, sizes, spine):
        cost = cost_of(spec, spine, count, sizes=sizes, most_cells=most, part_cells=part, engine=engine)
        found = Fitting(cost, wanted, available, most, part)
        if found.fits:
            return found
        if least is None or cost.peak_mb < least.cost.peak_mb:
            least = found
    assert least is not None
    if not (spec.publish.margins or spec.publish.unbiased):
        return least
    publish = spec.publish.model_copy(update={"margins": False, "unbiased": False})
    bare = fitting(spec.model_copy(update={"publish": publish}), spine, workers, available, engine=engine)
    return replace(least, bare=bare.cost.peak_mb)


def _ways(workers: int, sizes: tuple[Size, ...], spine: Spine) -> Iterator[tuple[int, int, int]]:
    """Workers, leaf cells from which the spine is cut, and leaf cells of a part, from the most to the least memory."""
    cells = spine.n_leaves * max(one.cells for one in sizes)
    for count in range(workers, 0, -1):
        yield count, MOST_CELLS, PART_CELLS
        part = PART_CELLS
        while part > LEAST_PART_CELLS:
            part //= 2
            if part < cells:
                yield count, part, part


def check_memory(spec: ReleaseSpec, found: Fitting) -> None:
    """Refuse what will not fit; nothing is charged or written yet.

    Raises:
        InputError: with the figures, and what helps.
    """
    if found.fits:
        return
    margins = f" ({_gigabytes(found.cost.margins_mb)} of it for the margins of error)" if found.cost.margins_mb else ""
    raise InputError(
        f"{spec.name}: the run is expected to take {_gigabytes(found.cost.peak_mb)} of memory{margins} with "
        f"{found.cost.workers} worker{'s' if found.cost.workers > 1 else ''}{_in_parts(found)}, and "
        f"{_gigabytes(found.available / 1e6)} can be had; what helps: {'; '.join(_help(found))}"
    )


def _help(found: Fitting) -> Iterator[str]:
    """What would make the run fit, with figures."""
    yield "a machine, or a limit of the control group, with more memory"
    if found.bare:
        yield f"[publish] margins = false and unbiased = false, which take {_gigabytes(found.bare)}"
    yield "the setting memory (SPINEWISE_MEMORY), in gigabytes, where you know that more can be had"


def _in_parts(found: Fitting) -> str:
    return f" in {found.cost.parts:,} parts" if found.cost.parts > 1 else ""


def _gigabytes(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB"
