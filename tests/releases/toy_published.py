"""A kind whose numbers others published: noisy counts of one query, of the areas of some levels, a CSV file a level.

It stands in no folder of features: a test puts its keys into the list of those that are installed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pydantic import Field

from geography.spine import first_few
from pipeline.errors import InputError
from pipeline.inputs.public_input import InputScope
from pipeline.model.draw import ReceivedNoise
from pipeline.model.query import Query
from pipeline.model.source import Received
from pipeline.publishing.public_inputs import ReceivedInput
from pipeline.spec.fields import Budget, File, FilledTable, Section
from pipeline.spec.resolve import UniverseResolver
from pipeline.spec.slots import FeatureKeys
from postprocess.arrays import IntArray


class ToySection(Section):
    """What was published."""

    query: str = Field(description="whose answers the files count, in columns of these names")
    variance: Budget = Field(description="of each number, as exact text")
    files: FilledTable[File] = Field(description="level -> CSV file with a row an area: geocode, answers")


class ToyKeys(FeatureKeys):
    """The section [toy_published]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "provenance"
    receives: ClassVar[bool] = True
    stand_for: ClassVar[tuple[str, ...]] = ("strategy",)
    toy_published: ToySection | None = Field(default=None, description="noisy counts that others published")

    @classmethod
    def implied(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Nothing is measured here."""
        return {"strategy": {}, **content}

    def source(self, scope: UniverseResolver) -> Received | None:
        """The numbers of the levels that have a file."""
        section, found = self.toy_published, None
        assert section is not None
        with scope.problems.noted():
            query = Query.parse(section.query, scope.schema, where="toy_published.query")
            levels = [level for level in scope.level_names if level in section.files]
            noise = ReceivedNoise(section.variance)
            found = Received("toy_published", tuple((level, query, noise) for level in levels))
        return found  # noqa: RET504 - None where a problem was noted

    def public_inputs(self) -> tuple[ReceivedInput, ...]:
        """The files."""
        assert self.toy_published is not None
        return (ToyInput(self.toy_published.files),)


class ToyInput(ReceivedInput):
    """The files, which have every area once."""

    key = "toy_published"
    after = "bounds"

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def read(self, scope: InputScope) -> Sequence[IntArray]:
        """The numbers of each draw; InputError where an area has none, or several."""
        return [
            _read(self._files[draw.level], scope.spine.level(draw.level).geocodes.tolist(), draw.query)
            for draw in scope.universes[0].draws(scope.spine)
        ]


def _read(path: Path, geocodes: Sequence[str], query: Query) -> IntArray:
    types = {"geocode": pa.string(), **dict.fromkeys(query.answer_labels(), pa.int64())}
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))
    rows = {code: row for row, code in enumerate(table["geocode"].to_pylist())}
    if wrong := sorted(rows.keys() ^ set(geocodes)):
        raise InputError(f"{path}: areas that are not those of the level: {first_few(wrong)}")
    columns = [table[label].to_numpy() for label in query.answer_labels()]
    return np.stack(columns, axis=1)[[rows[code] for code in geocodes]]
