"""The section [series] in a spec, and where the releases of the series are."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, PrivateAttr

from features.years.section import SeriesSection
from pipeline.spec.slots import FeatureKeys


class SeriesPart(FeatureKeys):
    """The section [series]; `keys.SeriesKeys` says what comes with it."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "privacy"

    series: SeriesSection | None = Field(
        default=None, description="releases of the same people over time, whose noise is paid for together"
    )
    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Where the releases of the series are; None where the spec was not placed in it by a run."""
        return self._folder

    def in_folder(self, series: SeriesSection, folder: Path) -> Self:
        """The keys of one release, with the others in a folder."""
        part = self.model_copy(update={"series": series})
        part._folder = folder
        return part
