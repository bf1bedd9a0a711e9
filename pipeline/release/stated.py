"""What the parts of a manifest have in common, and how files are read that state such a part alone."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.errors import ReleaseError
from pipeline.storage.readable import Readable


class Stated(BaseModel):
    """A part of the manifest: frozen, and with nothing in it that is not named."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


One = TypeVar("One", bound=Stated)


def read_stated(path: Readable, what: type[One], otherwise: str) -> One:
    """What a JSON file states.

    Args:
        path: of the file.
        what: it is to state.
        otherwise: what is wrong with a file that does not, such as "is no manifest of an answer".

    Raises:
        ReleaseError: it cannot be read, or does not state that; the message names file and field.
    """
    try:
        return what.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ReleaseError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ReleaseError(f"{path}: {otherwise}: {where}: {first['msg']}") from None
