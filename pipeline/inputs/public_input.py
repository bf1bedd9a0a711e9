"""A public input of a release: what a spec names beside records, published with the release that it is used in.

Whatever opens, keeps, reads again, compares or names public inputs goes through a list of these and knows none of them;
`pipeline.publishing.public_inputs` has the list.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.published_files import PublishedFiles
from pipeline.spec.provenance_section import OriginSection
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, sha256_file

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class InputScope:
    """What public inputs are read for.

    Attributes:
        spec: of the release.
        universes: what it resolves to, the release's own first.
        spine: the geography.
        noted: the block in which a file is read; where it keeps an InputError, the next file is read all the same.
    """

    spec: ReleaseSpec
    universes: Sequence[Universe]
    spine: Spine
    noted: Callable[[], AbstractContextManager[None]] = nullcontext


class PublicInput(ABC, Generic[T]):
    """One kind of public input; `T` is what its files hold.

    Attributes:
        key: names it among the others, and in a spec's [provenance], there after `companions.NAME.` of a companion.
        products: the files in which it is published, as `pipeline.metadata.products` lists them.
        of_universe: each universe has its own, by a name of its own in [provenance].
        for_measuring: the process that sees the records needs what the files hold.
        part: of a validation, that its mistakes are told in.
        after: of a feature's, the key of the one of the core that it comes after.
        public_only: why it cannot be made from the records, even if the operator accepts that; "" where it can.
    """

    key: ClassVar[str]
    products: ClassVar[Sequence[Any]] = ()
    of_universe: ClassVar[bool] = False
    for_measuring: ClassVar[bool] = False
    public_only: ClassVar[str] = ""
    part: ClassVar[str] = "spec"
    after: ClassVar[str] = ""

    @abstractmethod
    def read(self, scope: InputScope) -> T:
        """What the files that the spec names hold.

        Raises:
            InputError: a file cannot be read, or does not fit.
        """

    @abstractmethod
    def again(self, scope: InputScope, files: PublishedFiles) -> T:
        """The value read back from what `write` has published.

        Args:
            scope: of the release.
            files: of the release.

        Raises:
            ReleaseError: a file is missing or damaged, or is not what the spec says.
        """

    @abstractmethod
    def write(self, scope: InputScope, run: RunDirectory, found: T) -> None:
        """Publish what was read."""

    @abstractmethod
    def identity(self, found: T) -> Mapping[str, str]:
        """Hashes that tell a run with it from one with another, by the names that a refusal shows."""

    def problems(self, scope: InputScope, run: RunDirectory, *, official: bool) -> list[str]:
        """What is wrong with what a release says of it, one sentence each, beside what `again` refuses.

        Args:
            scope: of the release.
            run: the release.
            official: whether its status is that of a release which may be published.
        """
        return []

    def differences(self, scope: InputScope, run: RunDirectory, origin: Path, status: str) -> list[str] | None:
        """What differs between another release and what was taken from it, one sentence each; None of other inputs.

        Args:
            scope: of the release that took it over.
            run: that release.
            origin: the directory of the other.
            status: that the release states.

        Raises:
            InputError: nothing was taken over.
        """
        return None

    def is_named(self, spec: ReleaseSpec, universe: str) -> bool:
        """Whether a spec has it, of a universe ("" for the release's own), as its [provenance] says."""
        return False

    def sha256(self, spec: ReleaseSpec, universe: Universe, files: Sequence[Path]) -> str:
        """Of what is published of it, in hexadecimal, as the manifest's provenance states it; `files` hold it."""
        return json_sha256([sha256_file(path) for path in files])

    def origin(self, spec: ReleaseSpec, name: str) -> OriginSection:
        """Where it is from; public, by the word of whoever wrote the spec, where that does not say."""
        declared = {} if spec.provenance is None else spec.provenance.inputs
        return declared.get(name) or OriginSection.model_validate({"source": "public"})


def sha256_of_numbers(numbers: NDArray[np.generic]) -> str:
    """The SHA-256 of an array's values."""
    return hashlib.sha256(np.ascontiguousarray(numbers).data).hexdigest()


class StatedInput(PublicInput[None]):
    """A public input without a file of its own: it stands in the spec, or is published in another's file."""

    def read(self, scope: InputScope) -> None:
        """There is nothing to read."""

    def again(self, scope: InputScope, files: PublishedFiles) -> None:
        """There is nothing to read."""

    def write(self, scope: InputScope, run: RunDirectory, found: None) -> None:
        """There is nothing to write."""

    def identity(self, found: None) -> Mapping[str, str]:
        """That of the spec, or of the other."""
        return {}


@dataclass(frozen=True, eq=False)
class OpenedInputs:
    """What the public inputs of a run hold, once they are read.

    Attributes:
        values: key -> what its files hold.
    """

    values: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: PublicInput[T]) -> T:
        """What the files of one of them hold."""
        found: T = self.values[kind.key]
        return found

    def forget(self) -> None:
        """Free what they hold: they are published, and are read from there."""
        self.values.clear()
