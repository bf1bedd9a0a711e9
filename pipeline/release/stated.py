"""What the parts of a manifest have in common, and how files are read that state such a part alone.

A field that nobody can compute again could carry a confidential number: it has a form that leaves little room for one.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from pipeline.errors import ReleaseError
from pipeline.storage.paths import Readable


def _exact(text: str) -> str:
    if not _EXACT.fullmatch(text):
        raise ValueError(f"found {text[:40]!r}; a whole number or a fraction of two is needed")
    return text


def _positive(text: str) -> str:
    if Fraction(_exact(text)) <= 0:
        raise ValueError(f"found {text[:40]!r}; it must be above 0")
    return text


#: An exact number as text, as this program writes them: no exponent, which could stand for a number of any length.
_EXACT: Final = re.compile(r"-?[0-9]{1,400}(/0*[1-9][0-9]{0,399})?", re.ASCII)
Exact = Annotated[str, AfterValidator(_exact)]
Positive = Annotated[str, AfterValidator(_positive)]


class Stated(BaseModel):
    """A part of the manifest: frozen, and with nothing in it that is not named."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _check_digest(text: str) -> str:
    # Of 64 random digits 8 or fewer are different with a probability below 1e-15: no hash has a number padded with 0.
    if not re.fullmatch("[0-9a-f]{64}", text) or len(set(text)) <= 8:
        raise ValueError(f"found {text[:80]!r}; the 64 hexadecimal digits of a hash are needed")
    return text


def _check_name(text: str) -> str:
    if not re.fullmatch(r"\w[\w.+-]{0,254}", text):
        raise ValueError(f"found {text[:80]!r}; the name of a release or an answer is needed")
    return text


#: A SHA-256, keyed or not, a salt, or the id of a ledger.
Digest = Annotated[str, AfterValidator(_check_digest)]
#: The name of a release or an answer.
StatedName = Annotated[str, AfterValidator(_check_name)]

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
