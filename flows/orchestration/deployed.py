"""What a deployed run may touch, and which release of a series it makes: specs and outputs below folders; records due.

What a deployed run may touch: specs and outputs below the folders that the worker's machine or the deployment names.

The parameters of a run come from whoever may speak to the server. A path among them is followed only below folders that
the worker's own settings allow, or, where they say nothing, those of what was deployed, which stand in the work pool.

Releases of a series whose records arrive one period after the other: which one is due, and what is waited for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.errors import InputError
from pipeline.execution.settings import Settings
from pipeline.release.layout import RunDirectory
from pipeline.spec.periods import releases_of
from pipeline.spec.release_spec import ReleaseSpec

#: Folders of what was deployed, as JSON: {"specs": [...], "outputs": [...]}; set by the work pool alone.
DEPLOYED: Final = "DEPLOYED_SPINEWISE_FOLDERS"


def deployed_folders(text: str | None) -> dict[str, list[str]]:
    """The folders of a work pool's environment; none where it has none."""
    try:
        content = json.loads(text or "{}")
        return {kind: [str(one) for one in content.get(kind, [])] for kind in ("specs", "outputs")}
    except (ValueError, AttributeError, TypeError):
        return {"specs": [], "outputs": []}


def check_allowed(settings: Settings, specs: Mapping[str, Path | None], outputs: Mapping[str, Path | None]) -> None:
    """Refuse the parameters of a deployed run that lead out of the folders allowed.

    Args:
        settings: of the worker's machine.
        specs: parameters that are read, by name.
        outputs: parameters that are written to, by name.

    Raises:
        InputError: one leads elsewhere, with links followed.
    """
    deployed = deployed_folders(os.environ.get(DEPLOYED))
    below_specs = list(settings.allowed_specs) or [Path(one) for one in deployed["specs"]]
    below_outputs = list(settings.allowed_outputs) or [Path(one) for one in deployed["outputs"]]
    _check(specs, below_specs, "allowed_specs")
    _check(outputs, below_outputs, "allowed_outputs")


def _check(paths: Mapping[str, Path | None], folders: Sequence[Path], setting: str) -> None:
    resolved = [folder.expanduser().resolve() for folder in folders]
    for name, path in paths.items():
        if path is not None and not any(path.resolve().is_relative_to(folder) for folder in resolved):
            raise InputError(
                f"{name}: found {path}; a deployed run may use what is below "
                f"{', '.join(map(str, resolved)) or 'no folder at all'}; the setting {setting} of the worker's machine "
                "allows others"
            )


#: What stands for the name of a period in a path.
PERIOD: Final = "{period}"


@dataclass(frozen=True)
class Arrivals:
    """Where the records of each period arrive.

    Attributes:
        file: whose appearance says that the records of a period are there, and whole; `PERIOD` is part of its path.
        data: the records of a period, a file or a folder, likewise; None if they are `file`.

    Raises:
        InputError: a path is the same for all periods, or has no folder in common but that of the whole disk.
    """

    file: Path
    data: Path | None = None

    def __post_init__(self) -> None:
        for option, path in (("--wait-for", self.file), ("--data", self.data)):
            if path is not None and PERIOD not in str(path):
                raise InputError(
                    f"{option}: found {path}; where records of a series are waited for, the name of the period stands "
                    f"as {PERIOD} in the path, such as persons-{PERIOD}.parquet"
                )
        for option, folder in zip(("--wait-for", "--data"), self.folders, strict=False):
            if folder.anchor and folder == Path(folder.anchor):
                raise InputError(
                    f"{option}: the folders of the periods have {folder} in common; runs may read what is below it, so "
                    "put them into a folder of their own"
                )

    @property
    def folders(self) -> tuple[Path, ...]:
        """The deepest folders that the paths have in all periods."""
        paths = [self.file, *([] if self.data is None else [self.data])]
        return tuple(next(folder for folder in path.parents if PERIOD not in str(folder)) for path in paths)

    def due(self, spec: ReleaseSpec, out: Path) -> str | None:
        """The period that is to be released now; None where its file is not there yet, or all are released.

        Args:
            spec: of the whole series.
            out: the folder with its releases.

        Raises:
            InputError: a period is missing: a later one is released, or the file of a later one is there.
        """
        rest = list(unreleased(spec, out))
        if not rest or self._file_of(rest[0]).exists():
            return rest[0] if rest else None
        if later := [period for period in rest[1:] if self._file_of(period).exists()]:
            raise InputError(
                f"{spec.source}: period {rest[0]} is missing: {self._file_of(rest[0])} is not there, but "
                f"{self._file_of(later[0])} is; releases of a series are made in order, and none is left out"
            )
        return None

    def records_of(self, period: str) -> Path:
        """The file or folder with the records of a period."""
        return at_period_of(self.data or self.file, period)

    def remark(self, spec: ReleaseSpec, out: Path) -> str:
        """What is waited for, where nothing is due."""
        rest = list(unreleased(spec, out))
        if not rest:
            return f"{spec.name}: all releases of the series are made"
        return f"{spec.name}: waits for {self._file_of(rest[0])}, of period {rest[0]}"

    def is_there(self, period: str) -> bool:
        """Whether the file of a period and its records are there."""
        return self._file_of(period).exists() and self.records_of(period).exists()

    def _file_of(self, period: str) -> Path:
        return at_period_of(self.file, period)


def at_period_of(path: Path, period: str) -> Path:
    """The path of one period."""
    return Path(str(path).replace(PERIOD, period))


def last_released(spec: ReleaseSpec, out: Path) -> tuple[str, RunDirectory] | None:
    """The period of the latest finished release of a series, and its directory; None where there is none."""
    runs = [(period, RunDirectory(out / name)) for period, name in releases_of(spec).items()]
    return next(((period, run) for period, run in reversed(runs) if run.manifest.is_file()), None)


def unreleased(spec: ReleaseSpec, out: Path) -> Iterator[str]:
    """The periods of a series that are not released yet, in order.

    Raises:
        InputError: the spec is of no series, or a later period is released.
    """
    releases = releases_of(spec)
    if not releases:
        raise InputError(f"{spec.source}: --wait-for is for releases of a series; the spec has no [series]")
    done = [RunDirectory(out / name).manifest.is_file() for name in releases.values()]
    periods = list(releases)
    first = done.index(False) if False in done else len(done)
    if True in done[first:]:
        raise InputError(
            f"{spec.source}: period {periods[first]} is missing: {out / releases[periods[first]]} is no finished "
            f"release, but that of {periods[first + done[first:].index(True)]} is; releases of a series are made in "
            "order, and none is left out"
        )
    yield from periods[first:]
