"""What an answer says of itself: public/answer.json, its manifest."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from pipeline.errors import ChangedFileError, InputError, ReleaseError
from pipeline.privacy.budget import Framework, Neighbours, NoiseSpec
from pipeline.questions.quantiles import CALLED, CLIP, EXTREMES, RANKS, Mechanism, Ranked, rank_of
from pipeline.questions.resolved import OfUnit, Part, parts_of
from pipeline.questions.sensitivity import Measured, scale_for
from pipeline.questions.stated_domain import DomainStated
from pipeline.questions.windows import bought, columns_of
from pipeline.release.layout import ANSWER_FILES, RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.software import Software
from pipeline.release.stated import Digest, Exact, Positive, Stated, StatedName, read_stated
from pipeline.storage.files import sha256_file
from pipeline.storage.readable import Readable, unchecked

__all__ = [
    "ANSWER",
    "MANIFEST",
    "MEASUREMENTS",
    "AmountStated",
    "AnswerManifest",
    "PartStated",
    "RankStated",
    "is_answer_file",
    "note_of",
    "read_answer",
    "read_answer_file",
]

#: Files under public/ of an answer.
MANIFEST, MEASUREMENTS, ANSWER = ANSWER_FILES

NOTE: Final = (
    "The numbers are unbiased: true numbers plus noise, neither rounded nor made non-negative. Each interval covers "
    "the true number, of amounts as they are clipped and rounded, with a probability of 90 %."
)


RANK_NOTE: Final = (
    "Each number is a step of the grid that was chosen by {chooser}. Each interval covers the true "
    "quantile, of amounts as they are clipped and rounded, with a probability of about 90 % or more, however the "
    "amounts lie; it is more where many lie around the quantile."
)
EXTREME_NOTE: Final = (
    "Each number is a step of the grid, chosen by {chooser}: in groups of clearly more than {beyond:,} "
    "records about {beyond:,} are {side} it, and with a probability of 90 % fewer than {twice:,} are, and at least one "
    "is at it or {side}; in smaller groups it says nothing. Each interval covers, with a probability of about 90 % or "
    "more, the {which} step that at most {beyond:,} records are {side}, of amounts as they are clipped and rounded. "
    "The number is not made to be the {extreme} amount, which is one record's: that may be {side} the interval."
)
CLIP_NOTE: Final = (
    "The clip is one of the listed ends, chosen by {chooser}; its interval has, with a probability of "
    "about 90 % or more, the least of them that {most} above, of amounts as they are, or else the last."
)
MOST_COMMON_NOTE: Final = (
    "The values are ordered by noisy counts, which are unbiased one by one; those of values that come first because of "
    "their noise are too large. All intervals of counts and of ranks in a group hold together with a probability of "
    "90 %."
)


def note_of(
    statistic: str, least: int | None, half: int, chosen: Ranked | None = None, share: Fraction | None = None
) -> str:
    """What an answer says of its numbers.

    Args:
        statistic: one of `text.STATISTICS`.
        least: the least count of a group that is listed; None where all are.
        half: half of the width of a count's interval.
        chosen: how its numbers are chosen by rank, where they are.
        share: of a clip, of the records that at most are to be above it; None where a number is named.
    """
    if chosen is not None:
        return _note_of_rank(statistic, chosen.beyond, CALLED[chosen.mechanism], share)
    if statistic == "most common":
        return MOST_COMMON_NOTE
    if least is None:
        return NOTE
    return (
        f"Listed are the groups whose noisy number is at least {least:,}. A group of {least + half:,} or more is left "
        f"out with a probability of at most 5 %; {_wrongly_listed(least - half - 1)}. Numbers that are listed are too "
        "large on average, since noise upwards lists more groups; measurements.csv has all numbers, unbiased."
    )


def _note_of_rank(statistic: str, beyond: int, chooser: str, share: Fraction | None) -> str:
    if statistic == CLIP:
        most = f"at most {beyond:,} records are" if share is None else f"at most {share} of the records are"
        return CLIP_NOTE.format(chooser=chooser, most=most)
    if statistic in EXTREMES:
        side, which, extreme = (
            ("above", "lowest", "largest") if statistic == "max" else ("below", "highest", "smallest")
        )
        ranks = {"beyond": beyond, "twice": 2 * beyond}
        return EXTREME_NOTE.format(chooser=chooser, side=side, which=which, extreme=extreme, **ranks)
    return RANK_NOTE.format(chooser=chooser)


def _wrongly_listed(most: int) -> str:
    if most < 0:
        return "an empty group is listed with a probability above 5 %: take a higher threshold, or a larger budget"
    return f"one of {most:,} or fewer is listed with a probability of at most 5 %"


class AmountStated(Stated):
    """The public grid of an amount, exact fractions; `missing` is what a record without an amount counts as.

    `ends` says whether `low` and `high` are those of each record or of a unit's total.
    """

    name: str
    low: Exact
    high: Exact
    unit: Positive
    missing: Exact | None
    ends: Literal["record", "total"] = "record"


class PartStated(Stated):
    """Numbers that were measured together; see `sensitivity.Measured`.

    Attributes:
        low, high: what a record adds at least and at most.
        centre: units that were taken off each amount.
        reach: each of the numbers that a record's change moves, moves by at most so much.
        budget: that it costs.
        scale: of the noise, sigma^2 or b.
        about: what of a unit they are about, `resolved.Part.of`.
        numbers: in how many of them a unit is counted.
    """

    name: Literal["count", "sum", "windows"]
    low: int
    high: int
    centre: int
    reach: int
    budget: Positive
    mechanism: Literal["discrete_gaussian", "discrete_laplace"]
    scale: Positive
    about: OfUnit = "record"
    numbers: int = Field(default=1, ge=1)

    @property
    def part(self) -> Part:
        """What was measured."""
        return Part(self.name, self.low, self.high, self.centre, self.about)

    @property
    def noise(self) -> NoiseSpec:
        """The noise; InputError where it is none."""
        return NoiseSpec(self.mechanism, Fraction(self.scale))

    @classmethod
    def of(cls, one: Measured) -> PartStated:
        """What a manifest states of a part."""
        return cls.model_validate(
            {
                "name": one.part.name,
                "low": one.part.low,
                "high": one.part.high,
                "centre": one.part.centre,
                "reach": one.reach,
                "budget": str(one.budget),
                "mechanism": one.noise.mechanism,
                "scale": str(one.noise.scale),
                "about": one.part.of,
                "numbers": one.numbers,
            }
        )

    def cost(self, neighbours: Neighbours, records: int) -> Fraction:
        """What it costs, from its own sensitivity and scale."""
        framework: Framework = "zcdp" if self.mechanism == "discrete_gaussian" else "pure"
        return scale_for(self.part, framework, neighbours, Fraction(self.scale), (records, self.numbers))[1]


class RankStated(Stated):
    """Numbers that were chosen together by rank; see `quantiles.Ranked`.

    Attributes:
        quantile: the fraction, of a maximum 1 and of a minimum 0.
        candidates: steps of the grid, from `first` on, in units.
        reach: of the losses, times `times`, by a record's change.
        ties: records of one step of which the middle is taken.
        beyond: of a maximum, minimum or clip, records that at most are above or below the number.
        budget: that it costs.
        mechanism, scale: what it was chosen with, and its epsilon.
    """

    name: Literal["quantile", "clip"]
    quantile: Exact
    candidates: int = Field(ge=2)
    first: int
    reach: int
    times: int
    ties: int
    beyond: int = 0
    budget: Positive
    mechanism: Mechanism
    scale: Positive

    @classmethod
    def of(cls, one: Ranked) -> RankStated:
        """What a manifest states of a choice."""
        part = one.part
        return cls.model_validate(
            {
                "name": part.name,
                "quantile": str(part.quantile),
                "candidates": part.candidates,
                "first": part.first,
                "reach": one.reach,
                "times": one.times,
                "ties": one.ties,
                "beyond": one.beyond,
                "budget": str(one.budget),
                "mechanism": one.mechanism,
                "scale": str(one.scale),
            }
        )


class EndsStated(Stated):
    """The ends that a clip was chosen among, exact and rising; `missing` as of an amount."""

    name: str
    listed: tuple[Exact, ...]
    missing: Exact | None


class AnswerManifest(Stated):
    """The manifest of an answer.

    Attributes:
        answer: its name; `release`: of the spec that it was asked with.
        dataset: that it was charged to.
        question: canonical text; `fingerprint`: of it, what it is asked of, and its budget.
        domain: what its words stand for; None in answers of earlier versions.
        place: the level, or "everywhere"; `terms`: what is told apart in each.
        number: of the most common values how many, a quantile's fraction, or the share or number of the records that at
            most are to be above a clip; `least`: count of a group that is listed.
        budget: that was asked for; what was charged is `cost`.
        records_per_person: that one person's change alters at most.
        geography: fingerprint of the spine.
        key_commitment, key_salt, input_fingerprint: as in the manifest of a release.
        files: name -> SHA-256.
    """

    spinewise_answer: Literal[1] = 1
    answer: StatedName
    release: StatedName
    dataset: str
    question: str
    statistic: Literal["count", "count units", "sum", "mean", "median", "quantile", "max", "min", "most common", "clip"]
    place: str
    terms: tuple[str, ...]
    amount: AmountStated | None
    ends: EndsStated | None = None
    domain: DomainStated | None = None
    number: Positive | None = None
    least: int | None = None
    framework: Framework
    neighbours: Neighbours
    records_per_person: int = Field(ge=1)
    budget: Positive
    parts: tuple[Annotated[PartStated | RankStated, Field(discriminator="mechanism")], ...]
    fingerprint: Digest
    geography: Digest
    key_commitment: Digest
    key_salt: Digest
    input_fingerprint: Digest
    receipts: tuple[Receipt, ...]
    note: str
    files: dict[str, str]
    software: Software

    @property
    def unit(self) -> Fraction:
        """Of the amount; 1 for a count."""
        return Fraction(1) if self.amount is None else Fraction(self.amount.unit)

    def value_of(self, step: int) -> Fraction:
        """What a number that is chosen by rank stands for: so many units, or one of the listed ends.

        Raises:
            ReleaseError: there is no such end.
        """
        if self.ends is None:
            return step * self.unit
        if not 0 <= step < len(self.ends.listed):
            raise ReleaseError(f"{MEASUREMENTS}: found the end {step}, of {len(self.ends.listed)}")
        return Fraction(self.ends.listed[step])

    @property
    def cost(self) -> Fraction:
        """What it costs, as its parts state: the budget, or a little less where a choice cannot use all of it."""
        return sum((Fraction(part.budget) for part in self.parts), Fraction(0))

    @property
    def noisy(self) -> tuple[PartStated, ...]:
        """The parts with noise."""
        return tuple(part for part in self.parts if isinstance(part, PartStated))

    @property
    def is_chosen(self) -> bool:
        """Whether its numbers are chosen by rank."""
        return self.statistic in RANKS

    @property
    def rank(self) -> RankStated | None:
        """What was chosen by rank, if it was."""
        return next((part for part in self.parts if isinstance(part, RankStated)), None)

    @property
    def columns(self) -> list[str]:
        """Of measurements.csv, beside the keys."""
        if self.rank is not None:
            return [self.rank.name, *columns_of(self.rank.candidates, self.framework)]
        return [part.name for part in self.parts]

    def needed_choice(self) -> tuple[RankStated, PartStated]:
        """What its budget buys for its quantile; InputError where that is nothing."""
        stated = self.rank
        if stated is None:
            raise InputError(f"nothing was chosen for a {self.statistic}")
        number = None if self.number is None else Fraction(self.number)
        part = rank_of(self.statistic, number, stated.candidates, stated.first)
        if part is None:
            raise InputError(f"nothing is chosen for a {self.statistic} with the number {self.number}")
        choice, around = bought(part, self.framework, self.neighbours, Fraction(self.budget), self.records_per_person)
        return RankStated.of(choice), PartStated.of(around)

    def needed_parts(self) -> tuple[Part, ...]:
        """What is measured for its statistic of its amount."""
        if self.is_chosen:
            return ()
        if self.statistic in ("count", "count units", "most common") or self.amount is None:
            return parts_of(self.statistic, None)
        low, high = (Fraction(text) / self.unit for text in (self.amount.low, self.amount.high))
        return parts_of(self.statistic, (int(low), int(high)), total=self.amount.ends == "total")


def is_answer(root: Path) -> bool:
    """Whether a directory has an answer, whole or not."""
    return (root / "public" / MANIFEST).is_file()


def is_answer_file(path: Path) -> bool:
    """Whether a file is the manifest of an answer, by its name or by how it begins."""
    with path.open("rb") as file:
        return path.name == MANIFEST or b'"spinewise_answer"' in file.read(100)


def read_answer(run: RunDirectory) -> AnswerManifest:
    """The manifest of the answer in a directory; ReleaseError where it is damaged."""
    return read_answer_file(unchecked(run.public / MANIFEST))


def read_answer_file(path: Readable) -> AnswerManifest:
    """The manifest of an answer in a file; ReleaseError where it is damaged."""
    return read_stated(path, AnswerManifest, "is no manifest of an answer")


def unchanged_answer_file(path: Path, manifest: AnswerManifest) -> Readable:
    """A file of an answer that is to be read, compared with the manifest beside it.

    Raises:
        ChangedFileError: it is missing, or not the one that the manifest lists.
    """
    if not path.is_file():
        problem = "is missing; the manifest of the answer lists it"
    elif sha256_file(path) != manifest.files.get(path.name):
        problem = f"was changed: it has not the hash that {MANIFEST} states"
    else:
        return Readable(path)
    raise ChangedFileError.of(f"{path} {problem}", "answer", path.parent.parent)


def manifest_bytes(manifest: AnswerManifest) -> bytes:
    """The manifest as it is written."""
    content = manifest.model_dump(mode="json")
    for name in ("ends", "domain"):
        if content[name] is None:
            del content[name]
    # Without units, or an extreme, these say nothing, and answers of earlier versions do not have them.
    usual = {"ends": "record", "about": "record", "numbers": 1, "beyond": 0}
    for stated in (content["amount"] or {}, *content["parts"]):
        for key in [key for key, value in usual.items() if stated.get(key) == value]:
            del stated[key]
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
