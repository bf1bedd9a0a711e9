"""combined.csv and combined.json of an answer: its counts put together with those of a release, and how they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pipeline.errors import ChangedFileError
from pipeline.privacy.budget import Framework
from pipeline.privacy.noise.mechanisms import NOISE
from pipeline.questions.tables import csv_bytes
from pipeline.release.layout import RunDirectory
from pipeline.release.software import Software
from pipeline.release.stated import Stated, read_stated
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import Readable, unchecked
from postprocess.arrays import FloatArray, IntArray
from postprocess.statistics import EXACT_VARIANCE, NORMAL_QUANTILE, typical_half_width

#: Files under public/ of an answer, where it is combined with a release.
COMBINED: Final = "combined.csv"
SUMMARY: Final = "combined.json"
#: The share of answers, of the same records as their release, that are called inconsistent with it.
FALSE_ALARM: Final = 0.001


class Agreement(Stated):
    """How far the answer's own numbers stand from the release's, in standard deviations of their difference.

    Attributes:
        numbers: that both have with noise, or one of them without.
        within: the share that is no further than 1.645, which is 90 % on average.
        largest: distance; `allowed`: which one of all numbers exceeds with a probability of 0.1 %.
        agree: whether the largest is allowed.
    """

    numbers: int
    within: float
    largest: float
    allowed: float
    agree: bool


class Combination(Stated):
    """combined.json.

    Attributes:
        answer: its name; `answer_sha256`: of its answer.json.
        release: its name; `release_sha256`: of its manifest.json.
        question: canonical text.
        numbers: how many; `exact`: those that the release knows without noise; `undetermined`: of which its
            measurements say nothing, so that the answer stands alone.
        half_widths: medians of half the widths of 90 % intervals of those with noise: of the answer alone, of the
            release alone, and combined.
        published: the share of the released whole numbers that are in the combined intervals.
        note: all this in words.
        files: name -> SHA-256.
    """

    spinewise_combined: Literal[1] = 1
    answer: str
    answer_sha256: str
    release: str
    release_sha256: str
    question: str
    numbers: int
    exact: int
    undetermined: int
    half_widths: dict[Literal["answer", "release", "combined"], float]
    agreement: Agreement
    published: float
    note: str
    files: dict[str, str]
    software: Software


@dataclass(frozen=True, eq=False)
class Combined:
    """Counts, each `(n,)`: as measured, by the release, of both together, and as released.

    Attributes:
        header: names of the columns of `keys`, which say what the counts are of.
        answer: noisy, with `variance`.
        release, release_variances: linear estimates of the release alone; variance 0 where exact, NaN where none.
        both, both_variances: of answer and release together.
        published: the whole numbers of the release.
    """

    header: Sequence[str]
    keys: Sequence[tuple[str, ...]]
    answer: IntArray
    variance: float
    release: FloatArray
    release_variances: FloatArray
    both: FloatArray
    both_variances: FloatArray
    published: IntArray

    @property
    def z_scores(self) -> FloatArray:
        """Answer less release in standard deviations of the difference, `(n,)`; NaN where the release has none."""
        return (self.answer - self.release) / np.sqrt(self.variance + self.release_variances)

    @property
    def half_widths(self) -> FloatArray:
        """Half the widths of the combined 90 % intervals."""
        return NORMAL_QUANTILE * _standard(self.both_variances)

    def agreement(self, framework: Framework, false_alarm: float = FALSE_ALARM) -> Agreement:
        """Whether answer and release are as far from each other as their noise lets expect.

        Args:
            framework: of the noise.
            false_alarm: the share of answers, of the same records as their release, that do not agree.
        """
        z_scores = np.abs(self.z_scores[~np.isnan(self.z_scores)])
        numbers, largest = len(z_scores), round(float(z_scores.max(initial=0.0)), 2)
        far = NOISE[framework].farthest(numbers, false_alarm)
        within = round(float((z_scores <= NORMAL_QUANTILE).mean()), 4) if numbers else 1.0
        return Agreement(
            numbers=numbers, within=within, largest=largest, allowed=round(far, 2), agree=largest <= round(far, 2)
        )

    def typical(self) -> dict[Literal["answer", "release", "combined"], float]:
        """Medians of half the widths of intervals of numbers with noise; 0 where there are none."""
        variances = {
            "answer": np.full(1, self.variance),
            "release": self.release_variances,
            "combined": self.both_variances,
        }
        found = {}
        for name, values in variances.items():
            found[name] = float(f"{typical_half_width(values) or 0.0:.4g}")
        return found  # type: ignore[return-value]


def summary_of(combined: Combined, framework: Framework, **others: object) -> Combination:
    """combined.json; `others` are what the numbers do not say, but the note."""
    off = np.abs(combined.published - combined.both)
    inside = float((off <= combined.half_widths + 0.5).mean()) if off.size else 1.0
    stated = Combination.model_validate(
        {
            **others,
            "numbers": len(combined.keys),
            "exact": int((combined.release_variances <= EXACT_VARIANCE).sum()),
            "undetermined": int(np.isnan(combined.release_variances).sum()),
            "half_widths": combined.typical(),
            "agreement": combined.agreement(framework),
            "published": round(inside, 4),
            "note": "",
        }
    )
    return stated.model_copy(update={"note": " ".join(_note(stated, inside))})


def _note(stated: Combination, inside: float) -> Iterator[str]:
    """What the combined numbers are, and whether they may be used, in words."""
    agreement, typical = stated.agreement, stated.half_widths
    alone = f", of the release's {typical['release']:,g}" if typical["release"] else ""
    yield (
        "Each number is the least-squares combination of the answer with all measurements of the release; its interval "
        "covers the true number with a probability of 90 %, and is no wider than that of answer or release alone: half "
        f"of it is typically {typical['combined']:,g}, of the answer's {typical['answer']:,g}{alone}."
    )
    if stated.exact:
        yield f"{stated.exact:,} numbers that the release knows exactly are as there."
    if stated.undetermined:
        yield f"Of {stated.undetermined:,} numbers the release's measurements say nothing."
    if not agreement.numbers:
        return
    z_scores = (
        f"the largest distance of {agreement.numbers:,} is {agreement.largest:g} standard deviations, and "
        f"{agreement.allowed:g} is exceeded with a probability of 0.1 %"
    )
    if agreement.agree:
        yield f"Answer and release are consistent with each other: {z_scores}."
    else:
        yield f"ANSWER AND RELEASE ARE NOT CONSISTENT: {z_scores}. Do not use these numbers: are the records other?"
    yield f"{inside:.1%} of the released whole numbers are in the combined intervals."


def combined_bytes(combined: Combined) -> bytes:
    """combined.csv: keys; the combined count, its interval and error; answer and release with theirs; how far apart.

    An error is a standard error. "a:less_b" is a less b; "apart" is answer less release in standard deviations.
    """
    header = [
        *combined.header,
        *("count", "count:low90", "count:high90", "count:error"),
        *("answer", "answer:error", "release", "release:error", "published"),
        *("answer:less_release", "count:less_answer", "count:less_release", "count:less_published", "apart"),
    ]
    return csv_bytes(header, ([*key, *row] for key, row in zip(combined.keys, _rows(combined), strict=True)))


def _rows(combined: Combined) -> Iterator[list[str]]:
    half, own = combined.half_widths, math.sqrt(combined.variance)
    errors, alone = _standard(combined.both_variances), _standard(combined.release_variances)
    for i, z_scores in enumerate(combined.z_scores.tolist()):
        count, release = float(combined.both[i]), float(combined.release[i])
        answer, published = int(combined.answer[i]), int(combined.published[i])
        known = not math.isnan(alone[i])
        yield [
            *(_places(count), _places(count - half[i]), _places(count + half[i]), f"{errors[i]:.6g}"),
            *(str(answer), f"{own:.6g}", _places(release) if known else "", f"{alone[i]:.6g}" if known else ""),
            *(str(published), _places(answer - release) if known else "", _places(count - answer)),
            *(_places(count - release) if known else "", _places(count - published)),
            f"{z_scores:.2f}".replace("-0.00", "0.00") if known else "",
        ]


def _standard(variances: FloatArray) -> FloatArray:
    return np.sqrt(np.where(variances <= EXACT_VARIANCE, 0.0, variances))


def _places(value: float) -> str:
    """To three decimals, as unbiased estimates of a release: what is beyond differs between processors."""
    return f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")


def read_combination(run: RunDirectory) -> Combination:
    """combined.json of an answer, which states the hash of combined.csv; ReleaseError where it is damaged."""
    return read_stated(unchecked(run.public / SUMMARY), Combination, "does not state a combination")


def unchanged_combined(run: RunDirectory) -> Readable:
    """combined.csv of an answer, compared with combined.json; ChangedFileError where it is missing or another."""
    path = run.public / COMBINED
    if not path.is_file() or sha256_file(path) != read_combination(run).files.get(COMBINED):
        raise ChangedFileError(
            f"{path} is missing or was changed: it is not the file that {SUMMARY} states; get the answer again, as it "
            "was published, or combine it again"
        )
    return Readable(path)
