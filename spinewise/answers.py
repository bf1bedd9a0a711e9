"""Answers to questions, and releases that are made with them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.errors import InputError
from pipeline.execution.settings import load_settings
from pipeline.questions.manifest import ANSWER, AnswerManifest, read_answer, unchanged_answer_file
from pipeline.questions.released.combined import Combination, unchanged_combined
from pipeline.reading.release import Release, open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import combine_answer, is_combined
from pipeline.runs.updates import update_release
from pipeline.storage.paths import Readable
from spinewise.progress import progress_for


@dataclass(frozen=True)
class Answer:
    """An answer, in its directory."""

    directory: Path

    @property
    def manifest(self) -> AnswerManifest:
        """What it says of itself."""
        return read_answer(RunDirectory(self.directory))

    @property
    def table(self) -> pd.DataFrame:
        """The noisy numbers with the ends of their 90 % intervals; they are unbiased, and may be negative.

        Raises:
            ReleaseError: the file is not the one that the answer's manifest lists.
        """
        return self._read(unchanged_answer_file(self.directory / "public" / ANSWER, self.manifest))

    def combine(self, release: Path | str) -> Combination:
        """Put the counts together with those of a finished release, by least squares; costs nothing.

        Afterwards `combined` has the numbers. The result says in `note` how near they are, and whether answer and
        release agree.

        Raises:
            InputError: they are no sums of the release's counts, or of other areas, another schema or dataset.
        """
        return combine_answer(RunDirectory(self.directory), Path(release))

    @property
    def combined(self) -> pd.DataFrame:
        """The combined counts with their 90 % intervals, and beside them those of answer and release.

        Raises:
            InputError: nothing was combined yet.
            ReleaseError: the file is not the one that was made then.
        """
        if not is_combined(RunDirectory(self.directory)):
            raise InputError(f"{self.directory}: is not combined with a release; see Answer.combine")
        return self._read(unchanged_combined(RunDirectory(self.directory)))

    def _read(self, table: Readable) -> pd.DataFrame:
        question = self.manifest.plan().question
        return pd.read_csv(table, dtype=dict.fromkeys([*question.terms, question.place], str))


def update(
    release: Release | Path | str,
    with_: Sequence[Answer | Path | str] = (),
    *,
    texts: Path | str | None = None,
    out: Path | str = "updated",
    workers: int | None = None,
    progress: bool = True,
) -> Release:
    """Make a new version of a finished release, with answers or with corrected texts, and open it.

    It reads public files only and costs nothing. The release itself is not changed.

    Args:
        release: the release, or its directory.
        with_: answers, or their directories: counts of a level's areas, of the release's dataset, ledger and schema.
        texts: instead of answers, a TOML file with corrected texts for readers, under their keys in the spec.
        out: the folder in which the new version's directory is made.
        workers: number of processes; by default that of the settings, or all cores.
        progress: show a bar in a terminal or a notebook.

    Raises:
        InputError: an answer cannot be used, or is of other records; the file has something else than texts for
            readers; or the directory is not empty.
        ReleaseError: a file of the release was changed.
    """
    directory = release.directory if isinstance(release, Release) else Path(release).expanduser()
    answers = [one.directory if isinstance(one, Answer) else Path(one).expanduser() for one in with_]
    bar = progress_for(shown=progress)
    try:
        count = load_settings(workers=workers).processes
        corrections = None if texts is None else Path(texts).expanduser()
        made = update_release(directory, answers, Path(out).expanduser(), count, bar, texts=corrections)
    finally:
        bar.close()
    for remark in (*made.doubts, *(f"beyond the usual limits: {one}" for one in made.beyond_limits)):
        warnings.warn(remark, stacklevel=2)
    return open_release(made.root)
