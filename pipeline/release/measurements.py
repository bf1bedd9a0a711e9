"""Files of noisy answers, one for each level and query (or private choice), one row a geounit, in three forms.

Columns: geocode (string), value (list of int64, answers in the order of `Query.answer_labels`), variance (float64, of
the noise on every one of these answers). `pandas.read_parquet` reads them as they are.

A measurement has all answers of its query. Invariants, which are answers without noise, are kept in the same form with
mechanism "exact". With mechanism "reports" the values are totals of randomised reports, and the variance is that of the
counts that are made of them by `Collected.debiased`; of words they are counts in small parts of a person, and the last,
the rest of the reports, is not measured by itself. With mechanism "received" they are counts as others published them.
With mechanism "mixed" the values are the last number of the header's row times counts that have the variance; see
`pipeline.model.mixed`.

Answers that were drawn only where the released parent is positive have their numbers beside them: answer (list of
int32, ascending, from 0). Of a selection each geounit has the answers of the version that it chose: version (string,
the query chosen); they are as drawn, so they can be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.mixed import MixedNoise
from pipeline.model.selection import Selection
from pipeline.privacy.noise.mechanisms import NOISES
from pipeline.release.form import REAL, TEXT, WHOLE, Form, FormFile, FormWriter, Values, list_of, lists, open_form
from pipeline.storage.files import VALUES_PER_ROW_GROUP
from pipeline.storage.paths import Readable
from postprocess.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from pipeline.model.draw import Draw
    from pipeline.model.query import Query

#: The noise, or none: an invariant; "reports": totals of reports, whose debiased counts have the variance; "received":
#: counts as others published them; "mixed": numbers in which periods are mixed, discrete Gaussian noise of the scale.
_MEASURED_BY: Final = (*NOISES, "exact", "reports", "received", "mixed")

_ANSWERS = list_of(WHOLE)


@dataclass(frozen=True)
class MeasurementHeader:
    """What was measured, and how.

    Attributes:
        level, query: their names.
        size: number of answers of the query.
        mechanism: the noise; "exact" for an invariant, "reports" for totals of reports.
        scale: sigma^2 of the discrete Gaussian, b of the discrete Laplace; 0 if exact; of reports, and of what was
            received, the variance.
        variance: of the noise on each answer, in persons squared; 0 if exact.
        others: scale and variance in geounits that stand for levels below too, see `pipeline.model.draw`.
        row: of mixed numbers, by how much each period so far is multiplied; else empty.
    """

    level: str
    query: str
    size: int
    mechanism: str
    scale: Fraction
    variance: float
    others: tuple[tuple[Fraction, float], ...] = ()
    row: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.mechanism not in _MEASURED_BY:
            raise ValueError(f"mechanism must be one of {', '.join(_MEASURED_BY)}, got {self.mechanism!r}")
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size}")
        noisy = self.mechanism != "exact"
        if (self.scale > 0) != noisy or (self.variance > 0) != noisy or not np.isfinite(self.variance):
            raise ValueError(
                f"scale and variance must be 0 if exact and positive if not, got mechanism {self.mechanism}, "
                f"scale {self.scale} and variance {self.variance}"
            )
        if any(scale <= 0 or not 0 < variance < np.inf for scale, variance in self.others):
            raise ValueError(f"other scales and variances must be positive, got {self.others}")
        if bool(self.row) != (self.mechanism == "mixed") or any(type(one) is not int for one in self.row):
            raise ValueError(f"mixed numbers, and they alone, have a row of whole numbers, got {self.row}")

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of each kind of geounit."""
        return (self.variance, *(variance for _, variance in self.others))

    def to_json(self) -> dict[str, object]:
        """As it stands in a file."""
        others = [[str(scale), variance] for scale, variance in self.others]
        return {
            "kind": "measurement",
            "level": self.level,
            "query": self.query,
            "size": self.size,
            "mechanism": self.mechanism,
            "scale": str(self.scale),
            "variance": self.variance,
            **({"others": others} if others else {}),
            **({"row": list(self.row)} if self.row else {}),
        }


def header_of(draw: Draw) -> MeasurementHeader:
    """The header of the file of one measurement."""
    noise, *others = draw.noises
    return MeasurementHeader(
        draw.level,
        draw.query.name,
        draw.query.n_asked,
        noise.mechanism,
        noise.scale,
        noise.variance,
        tuple((other.scale, other.variance) for other in others),
        noise.row if isinstance(noise, MixedNoise) else (),
    )


def exact_header(level: str, query: Query) -> MeasurementHeader:
    """The header of the file of an invariant."""
    return MeasurementHeader(level, query.name, query.size, "exact", Fraction(0), 0.0)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers of one query for some geounits of one level.

    Attributes:
        header: level, query, mechanism, scale.
        geocodes: `(n,)` of str.
        values: `(n, size)` int64, the noisy answers.
        variances: `(n,)` of the noise on each value of a geounit.
    """

    header: MeasurementHeader
    geocodes: NDArray[np.str_]
    values: IntArray
    variances: FloatArray

    @property
    def variance(self) -> float:
        """Variance of the noise on each value, where the geounit stands for its own level alone."""
        return self.header.variance


def _form(header: MeasurementHeader) -> Form:
    columns = {"geocode": TEXT, "value": _ANSWERS, "variance": REAL}
    return Form("a measurement", header.to_json(), columns, numbers=header.size)


class MeasurementWriter:
    """Takes a measurement in batches of geounits of any size; `MeasurementWriter.open` gives one."""

    def __init__(self, out: FormWriter, header: MeasurementHeader) -> None:
        self._out = out
        self._header = header

    @classmethod
    @contextmanager
    def open(
        cls, target: Path, staging: Path, header: MeasurementHeader, *, private: bool = False
    ) -> Iterator[MeasurementWriter]:
        """The writer of a file that appears at `target` when the block ends without an error.

        The file's bytes depend on the header, the geocodes and the values, not on the batches.

        Raises:
            ReleaseError: the file cannot be written.
        """
        with _form(header).writer(target, staging, private=private) as out:
            yield cls(out, header)

    def write(
        self, geocodes: NDArray[np.str_], values: IntArray, kinds: NDArray[np.signedinteger] | None = None
    ) -> None:
        """Append geounits; the arrays are not retained.

        Args:
            geocodes: `(n,)`.
            values: `(n, size)` of a signed integer type.
            kinds: `(n,)` which of the header's variances each geounit has; the first, where it is None.
        """
        if values.shape != (len(geocodes), self._header.size) or values.dtype.kind != "i":
            raise ValueError(
                f"values must be whole numbers of shape {(len(geocodes), self._header.size)}, "
                f"got {values.dtype} of shape {values.shape}"
            )
        kinds = np.zeros(len(geocodes), dtype=np.int8) if kinds is None else kinds
        variances = np.array(self._header.variances)[kinds]
        self._out.add(np.asarray(geocodes, dtype=np.str_), values.astype(np.int64, copy=False), variances)


class MeasurementFile:
    """An open measurement file, read by ranges of geounits without loading the rest; see `open_measurement`."""

    def __init__(self, file: FormFile) -> None:
        self._file = file
        self.header = _header_in(file)
        file.file.at_most(len(self), self.header.size)

    def __len__(self) -> int:
        """Number of geounits."""
        return int(self._file.starts[-1])

    def read(self, start: int = 0, stop: int | None = None) -> Measurement:
        """The geounits at positions [start, stop); reads only the row groups they are in."""
        stop = len(self) if stop is None else stop
        values = np.empty((max(stop - start, 0), self.header.size), dtype=np.int64)
        variances, geocodes = np.empty(len(values)), [np.array([], dtype=np.str_)]
        first = 0
        for part in self.parts(start, stop):
            rows = slice(first, first + len(part.values))
            values[rows], variances[rows] = part.values, part.variances
            geocodes.append(part.geocodes)
            first = rows.stop
        return Measurement(self.header, np.concatenate(geocodes), values, variances)

    def parts(self, start: int, stop: int) -> Iterator[Measurement]:
        """The geounits at positions [start, stop), a row group at a time; the arrays cannot be written to."""
        starts, size = self._file.starts, self.header.size
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"[{start}, {stop}) is not a range of the {len(self)} geounits of {self._file.path}")
        for group in range(int(np.searchsorted(starts, start, side="right")) - 1, len(starts) - 1):
            begin, end = int(starts[group]), int(starts[group + 1])
            if begin >= stop:
                return
            own = slice(max(start, begin) - begin, min(stop, end) - begin)
            geocodes, (lengths, values), variances = self._file.group(group)
            if not ((lengths == size).all() and np.isin(variances, self.header.variances).all()):
                raise self._file.damaged(
                    f"not every row has the {size} values and the variance "
                    f"{' or '.join(map(str, self.header.variances))} that its header states"
                )
            yield Measurement(self.header, geocodes[own], values.reshape(-1, size)[own], variances[own])


@contextmanager
def open_measurement(
    path: Readable, rows: int | None = None, expected: MeasurementHeader | None = None
) -> Iterator[MeasurementFile]:
    """The open measurement file, of at most `rows` geounits, with the header that is expected, if one is.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind, or does not match the spec.
    """
    with open_form(path, _stated if expected is None else _form(expected), rows) as file:
        yield MeasurementFile(file)


def read_measurement(path: Readable) -> Measurement:
    """The whole measurement in memory; see `open_measurement`."""
    with open_form(path, _stated) as file:
        file.file.check_whole()
        return MeasurementFile(file).read()


def _stated(file: FormFile) -> Form:
    return _form(_header_in(file))


def _header_in(file: FormFile) -> MeasurementHeader:
    """The header that a measurement has; ReleaseError where it is another."""
    stated = dict(file.header)
    if stated.pop("kind", None) != "measurement":
        raise ReleaseError(f"{file.path} is not a measurement")
    try:
        others = tuple((Fraction(scale), float(variance)) for scale, variance in stated.pop("others", ()))
        row = tuple(stated.pop("row", ()))
        return MeasurementHeader(**{**stated, "scale": Fraction(stated["scale"]), "others": others, "row": row})
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise file.damaged(f"its header does not describe a measurement ({error})") from error


# -- answers that are drawn where the released parent is positive ------------------------------------------------------


def _positive_form(header: MeasurementHeader) -> Form:
    columns = {"geocode": TEXT, "answer": list_of(pa.int32()), "value": _ANSWERS, "variance": REAL}
    return Form("a file of answers of positive areas", header.to_json() | {"kind": "positive"}, columns)


def write_positive(
    target: Path,
    staging: Path,
    header: MeasurementHeader,
    geocodes: NDArray[np.str_],
    parts: Iterable[sp.csr_array],
) -> None:
    """Write the geounits of a level.

    A row group ends with the geounit with which it has at least so many answers, whatever the parts.

    Args:
        target: the file.
        staging: the folder for the file while it is written.
        header: of the answers, but for the kind.
        geocodes: of the level, `(n,)`.
        parts: the answers of successive geounits, `(n_rows, size)` int64; those that are stored were drawn.

    Raises:
        ReleaseError: the file cannot be written.
    """
    form, first = _positive_form(header), 0
    with form.writer(target, staging) as out:
        for rows in _row_groups(parts):
            stop, lengths = first + rows.shape[0], np.diff(rows.indptr)
            answers = lists(lengths, rows.indices, form.columns["answer"])
            variances = np.full(len(lengths), header.variance)
            out.put(geocodes[first:stop], answers, lists(lengths, rows.data, _ANSWERS), variances)
            first = stop


def _row_groups(parts: Iterable[sp.csr_array]) -> Iterator[sp.csr_array]:
    waiting: sp.csr_array | None = None
    for part in parts:
        waiting = part if waiting is None else sp.vstack([waiting, part], format="csr")
        while waiting.nnz >= VALUES_PER_ROW_GROUP:
            stop = int(np.searchsorted(waiting.indptr, VALUES_PER_ROW_GROUP))
            yield waiting[:stop]
            waiting = waiting[stop:]
    if waiting is not None and waiting.shape[0]:
        yield waiting


def read_positive(path: Readable, header: MeasurementHeader, geocodes: NDArray[np.str_], answers: int) -> sp.csr_array:
    """What was drawn of the geounits of a level, `(n, size)` int64; other answers are not stored.

    Args:
        path: of the file.
        header: what it is to state, but for the kind.
        geocodes: of the level, `(n,)`.
        answers: of a geounit at most.

    Raises:
        ReleaseError: it is missing, damaged, longer, of another kind or of other geounits.
    """
    parts, size = [], header.size
    with open_form(path, _positive_form(header), len(geocodes)) as file:
        file.file.at_most(len(geocodes), answers)
        for _, (lengths, numbers), (n_values, values), variances in file.groups(geocodes):
            places = np.repeat(np.arange(len(lengths)), lengths) * size + numbers
            right = (
                np.array_equal(lengths, n_values)
                and (np.diff(places) > 0).all()
                and ((numbers >= 0) & (numbers < size)).all()
                and np.allclose(variances, header.variance, rtol=1e-9, atol=0.0)
            )
            if not right:
                raise file.damaged(
                    f"not every row has ascending answers of the {size}, a value for each and the variance "
                    f"{header.variance}"
                )
            starts = np.concatenate([[0], np.cumsum(lengths)])
            parts.append(sp.csr_array((values, numbers, starts), shape=(len(lengths), size)))
    return sp.vstack(parts, format="csr")


# -- selections --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Selected:
    """What some geounits of a level chose, and what was measured of it.

    Attributes:
        geocodes: `(n,)` of str.
        chosen: `(n,)` int64, number of the version.
        values: `(n, size)` int64, `size` that of the most detailed version; 0 beyond the answers of the one chosen.
    """

    geocodes: NDArray[np.str_]
    chosen: IntArray
    values: IntArray


def answered(selection: Selection, chosen: IntArray) -> BoolArray:
    """`(n, size)`: which of the numbers are answers of the version chosen."""
    sizes = np.array([query.size for query in selection.versions])
    return np.arange(selection.size)[None, :] < sizes[chosen][:, None]


def _selected_form(selection: Selection) -> Form:
    header = {
        "kind": "selected",
        "level": selection.level,
        "query": selection.select.measured_name,
        "size": selection.size,
        "mechanism": selection.noise.mechanism,
        "scale": str(selection.noise.scale),
        "variance": selection.noise.variance,
    }
    columns = {"geocode": TEXT, "version": TEXT, "value": _ANSWERS, "variance": REAL}
    return Form("a selection", header, columns, numbers=selection.size)


def write_selected(target: Path, staging: Path, selection: Selection, parts: Iterable[Selected]) -> None:
    """Write the geounits of a level in order; the bytes depend on what they hold, not on the parts.

    Raises:
        ReleaseError: the file cannot be written.
    """
    names = np.array([query.name for query in selection.versions])

    def made(geocodes: NDArray[np.str_], chosen: IntArray, values: IntArray) -> tuple[Values, ...]:
        mask = answered(selection, chosen)
        variances = np.full(len(chosen), selection.noise.variance)
        return geocodes, names[chosen], lists(mask.sum(axis=1), values[mask], _ANSWERS), variances

    with _selected_form(selection).writer(target, staging, made) as out:
        for part in parts:
            out.add(part.geocodes, part.chosen, part.values)


def read_selected(path: Readable, selection: Selection, geocodes: NDArray[np.str_]) -> Iterator[Selected]:
    """The geounits of a level, whose geocodes are given, some at a time.

    Raises:
        ReleaseError: it is missing or damaged, does not match the spec, or is of other geounits.
    """
    names = [query.name for query in selection.versions]
    with open_form(path, _selected_form(selection), len(geocodes)) as file:
        for codes, versions, (lengths, numbers), variances in file.groups(geocodes):
            if unknown := sorted(set(versions.tolist()) - set(names)):
                raise file.damaged(f"{unknown[0]!r} is not a version; they are {', '.join(names)}")
            chosen = np.array([names.index(version) for version in versions.tolist()], dtype=np.int64)
            mask = answered(selection, chosen)
            if not np.array_equal(lengths, mask.sum(axis=1)):
                raise file.damaged("not every row has the answers of the version chosen")
            if not np.allclose(variances, selection.noise.variance, rtol=1e-9, atol=0.0):
                raise file.damaged(f"its variances are not {selection.noise.variance}")
            values = np.zeros(mask.shape, dtype=np.int64)
            values[mask] = numbers
            yield Selected(codes, chosen, values)
