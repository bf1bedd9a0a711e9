"""Where the noisy numbers of a universe come from: noise that the run draws itself, or what a feature has of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.draw import Draw, ReceivedNoise, Universe, budgeted
from pipeline.model.mixed import MixedNoise
from pipeline.model.query import Query
from pipeline.model.strategy import Central
from pipeline.model.texts.message import marked
from pipeline.privacy.noise.mechanism import NoiseSpec
from postprocess.arrays import FloatArray, IntArray
from postprocess.marginal import Marginal

if TYPE_CHECKING:
    import scipy.sparse as sp

#: By what senders randomised an answer: the facts of which accounting makes promises. It is of the feature whose source
#: has it, as a spec names it; of one report, of several and of any number it has exact ratios, or nothing bounds them.
Randomiser: TypeAlias = Any
#: What not every source can give: answers to questions on records; sums of cells that equal such an answer;
#: measurements that were made elsewhere; an audit of the noise; a plan; an export of noisy counts.
Wanted = Literal["question", "sum", "elsewhere", "audit", "plan", "noisy counts"]
#: (level, query) -> published exact answers `(n_geounits, size)`; read when it is called.
ReadExact = Callable[[], Mapping[tuple[str, str], IntArray]]
#: Stored numbers `(n_leaves, size)` of the leaves' one query, and the sizes `(n_leaves,)`; read when it is called.
ReadStored = Callable[[], tuple[IntArray, IntArray]]

#: Makes unbiased counts `(n, size)` of stored numbers, given these of the geounits from a number on, and that number.
ToCounts = Callable[[NDArray[np.signedinteger], int], FloatArray]
#: Noisy counts `(n, n_cells)` of a simulated run, from public seeds, whatever the batches: given the number of the run,
#: the number of the first leaf, and the true counts of the leaves from there on.
SimulatedCounts = Callable[[int, int, IntArray], FloatArray]

#: What metadata call a measurement's file and its variances.
NOISY = marked("{query}: noisy answers as they were published")
VARIANCE = marked("Variance of the noise on each")


class CountErrors(ABC):
    """How errors depend on the counts themselves, in persons; see `simulated_margins.OwnErrors` of postprocess."""

    @abstractmethod
    def __call__(
        self,
        answers: IntArray,
        cells: IntArray,
        counts: IntArray,
        reports: IntArray,
        standard: FloatArray,
    ) -> FloatArray:
        """By what factor standard errors differ from the stated ones, `standard`."""

    @abstractmethod
    def variances(self, answers: IntArray, cells: IntArray, persons: IntArray) -> FloatArray:
        """The stated variances of an area's own counts, persons squared."""

    @abstractmethod
    def alone(self, stored: IntArray, sizes: IntArray) -> FloatArray:
        """Unbiased counts `(n, n_cells)` of areas by their own stored numbers alone; they add up to the sizes."""


class Source(ABC):
    """Where noisy numbers come from, and all that differs by it. What holds of most is the default.

    A source states facts: which mechanism with which noise on which numbers; budgets, epsilons and promises are made of
    them by the core's accounting alone.
    """

    #: Whether the true counts are known to whoever runs the release.
    has_truth: bool = True
    #: Whether a sum over areas can be estimated without bias, and its error be stated, from the measurements alone.
    sums_without_bias: bool = True
    #: Whether each number is a true count with noise of its own, of this run.
    counts_with_noise: bool = False
    #: Whether others have published all of it: there are no records, and nobody is promised anything.
    received: bool = False

    @property
    def mechanism(self) -> Randomiser | None:
        """By which senders randomised each record before it was sent; None where records are true."""
        return None

    @property
    def releases(self) -> tuple[Central, ...]:
        """Other releases of the same persons whose measurements are used too, and whose budgets add up with this."""
        return ()

    def refusal(self, wanted: Wanted) -> str:
        """Why it cannot give what is wanted, in a sentence without its full stop; "" where it can."""
        return ""

    @property
    def expected_reports(self) -> int | None:
        """Of a leaf, where noisy numbers are made of randomised reports; None where they are not, or nobody says."""
        return None

    @property
    def variance_of_report(self) -> float:
        """Of one answer's count, for one report, mean over the answers."""
        raise NotImplementedError

    # What is measured, with which noise.

    def sizes(self, read: ReadExact) -> IntArray | None:
        """`(n_leaves,)`: how many records stand behind each leaf, where the noise depends on it; else None."""
        return None

    @abstractmethod
    def draws(self, universe: Universe, spine: Spine | None, sizes: IntArray | None) -> tuple[Draw, ...]:
        """All of a universe, top level first; see `Universe.draws`."""

    def on_counts(self, drawn: NoiseSpec) -> NoiseSpec | MixedNoise:
        """The noise on counts, given that which is drawn on stored numbers: the same, where these are counts."""
        return drawn

    def measured(self, query: Query) -> Marginal:
        """A query as it is measured: some cells may be measured only as the rest of all others."""
        return query

    def to_counts(self, level: str, sizes: IntArray | None) -> ToCounts | None:
        """What makes counts of a level's stored numbers; None where these are counts with noise."""
        return None

    # Files.

    def files(self, reports: Path) -> tuple[Path, ...]:
        """Public files that are written with the measurements, beside them; `reports`: where reports are spoken of."""
        return ()

    def stored(self, level: str) -> tuple[str, str]:
        """What metadata say of a level's measurements: the file, with {query}, and its variances."""
        return NOISY, VARIANCE

    # Margins.

    def truth_for_simulation(
        self, spine: Spine, read: ReadStored, seed: int, released: Callable[[], sp.csr_array]
    ) -> tuple[sp.csr_array, ...] | None:
        """Histograms `(n, n_cells)` of each level that stand in for the truth; None for the released ones.

        Args:
            spine: the geography.
            read: gives what is stored of the leaves.
            seed: public.
            released: gives the released histograms of the leaves.
        """
        return None

    def record_keys(
        self, spine: Spine, seed: int, truth: Callable[[], sp.csr_array]
    ) -> tuple[sp.csr_array, ...] | None:
        """Sums of the records' keys `(n, n_cells)` of each level, where simulated errors follow from these; else None.

        Args:
            spine: the geography.
            seed: public.
            truth: gives the histograms of the leaves that stand in for the truth.
        """
        return None

    def simulated(self, seed: int, universe: str) -> SimulatedCounts | None:
        """What simulates the leaves' counts; None where the noise does not depend on the truth."""
        return None

    def errors(self) -> CountErrors | None:
        """A rule of its own for the ends of intervals; None for the core's."""
        return None

    # What readers are told.

    #: The package and the template in its `assets/` whose macros the report shows it by, named as those of
    #: `pipeline/pages/assets/own_noise.html.j2`.
    template: tuple[str, str] = ("pipeline.pages", "own_noise.html.j2")

    def view(self, reports: Path) -> object | None:
        """What the macros of its template are given, of a release with the file `reports`; None for nothing more."""
        return None

    @property
    def deployment(self) -> tuple[str, str]:
        """Where the noise is drawn, in one word of NIST's registry, and in sentences, "" where the word says all."""
        return "Central", ""

    @property
    def post_processing(self) -> str:
        """What is done after the noise."""
        return (
            "From the noisy measurements alone: least squares over the whole spine, then level by level non-negative "
            "whole numbers that add up and hold every constraint; margins from simulated runs with public noise."
        )

    @property
    def randomisers(self) -> Sequence[str]:
        """The mechanisms that are not the release's own, a line each."""
        return ()


@dataclass(frozen=True)
class OwnNoise(Source):
    """The run draws the noise on true counts itself, by the budget and the strategy."""

    counts_with_noise = True

    def draws(self, universe: Universe, spine: Spine | None, sizes: IntArray | None) -> tuple[Draw, ...]:
        """See `Source.draws`."""
        return budgeted(universe, spine, self.on_counts)


@dataclass(frozen=True, eq=False)
class Received(Source):
    """Numbers that others published, of which the variances are known: there are no records, key or budget.

    The files that the spec names are a public input, which writes the numbers where measurements are
    (`pipeline.publishing.public_inputs.ReceivedInput`).

    Attributes:
        section: of the spec, that states them.
        numbers: level, query and noise of all that was published with an error; top level first.
    """

    section: str
    numbers: tuple[tuple[str, Query, ReceivedNoise], ...]

    has_truth = False
    received = True

    def draws(
        self,
        universe: Universe,
        spine: Spine | None,
        sizes: IntArray | None,
    ) -> tuple[Draw, ...]:
        """See `Source.draws`."""
        return tuple(Draw(level, query, (noise,)) for level, query, noise in self.numbers)

    def refusal(self, wanted: Wanted) -> str:
        """See `Source.refusal`: whatever needs records, a budget, or noise that was drawn here."""
        if wanted in ("sum", "noisy counts"):
            return ""
        return f"{self.section}: the numbers were published by others; there are no records and no budget here"


#: Of a universe that has no other source.
OWN_NOISE: Final = OwnNoise()
