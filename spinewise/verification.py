"""Whether a release is what it claims to be: from its public files alone, or again from its records."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from pipeline.execution.settings import load_settings
from pipeline.published import release_at
from pipeline.reading.release import Release
from pipeline.release.manifest import read_manifest
from pipeline.runs.verify import verify_release
from pipeline.signatures.signing_keys import PublicKey
from pipeline.signatures.statement import signature_problems
from spinewise.progress import progress_for

#: Problems that are shown.
_SHOWN = 20


@dataclass(frozen=True)
class Verification:
    """What verifying a release has found; true where it is whole.

    Attributes:
        directory: the release's.
        files: how many public files were compared, the manifest not counted.
        problems: what is wrong, a sentence each; empty if nothing is.
    """

    directory: Path
    files: int
    problems: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.problems

    def __repr__(self) -> str:
        if self.problems:
            return "\n".join([f"{self.directory} does not verify:", *_lines(self.problems)])
        return (
            f"{self.directory} is whole: each of {self.files} public files has the hash that the manifest states, and "
            "all that follows from the noisy measurements was computed again, the same byte for byte"
        )

    def _repr_html_(self) -> str:
        return _html(repr(self))


@dataclass(frozen=True)
class RerunResult:
    """What a rerun has found; true where every public file came out the same byte for byte.

    Attributes:
        directory: the release's.
        files: how many public files were compared.
        differences: where files differ, one text a file; empty if none does.
        remarks: what a reader of the differences has to know, such as other versions.
    """

    directory: Path
    files: int
    differences: tuple[str, ...]
    remarks: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.differences

    def __repr__(self) -> str:
        if not self.differences:
            return f"{self.directory}: rerun from its records; all {self.files} public files are the same"
        first = f"{self.directory}: rerun; {len(self.differences)} of {self.files} public files differ:"
        return "\n".join([first, *_lines(self.differences), *self.remarks])

    def _repr_html_(self) -> str:
        return _html(repr(self))


def verify(
    release: Release | Path | str,
    *,
    signed_by: Path | str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Verification:
    """Compute a release again from its noisy measurements, and compare; nothing under restricted/ is read.

    Args:
        release: the release, its directory, or the public/ folder of it.
        signed_by: public key file of the agency; the release must be signed by that key.
        workers: number of processes; by default that of the settings, or all cores.
        progress: show a bar in a terminal or a notebook.

    Raises:
        InputError: there is no finished release, or no public key.
    """
    run = release_at(release.directory if isinstance(release, Release) else Path(release).expanduser())
    count = load_settings(workers=workers).processes
    key = None if signed_by is None else PublicKey.read(Path(signed_by).expanduser())
    bar = progress_for(shown=progress)
    try:
        problems = [] if key is None else signature_problems(run, key)
        problems = problems or verify_release(run, count, bar)
    finally:
        bar.close()
    return Verification(run.root, len(read_manifest(run.manifest).files), tuple(problems))


def _lines(texts: tuple[str, ...]) -> list[str]:
    more = [f"  and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return [*(f"  {text}" for text in texts[:_SHOWN]), *more]


def _html(text: str) -> str:
    """A text for a notebook: its first line, which says the outcome, and a list of the others."""
    outcome, *rest = (html.escape(line) for line in text.splitlines())
    items = "".join(f"<li>{line.strip()}</li>" for line in rest)
    return f"<p><strong>{outcome}</strong></p>" + (f"<ul>{items}</ul>" if items else "")
