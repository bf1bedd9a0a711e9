"""An error that arose since the work was interrupted is the interruption; any other is itself."""

from __future__ import annotations

import asyncio
import io
import zipfile

import pytest

from pipeline.execution.interrupts import interruption_of
from pipeline.execution.retries import may_be_retried


def _write_half(interruption: BaseException) -> None:
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        entry = archive.open("an entry", "w")
        entry.write(b"half")
        raise interruption


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(143), asyncio.CancelledError()])
def test_a_file_that_cannot_be_closed_was_interrupted(interruption: BaseException) -> None:
    """As `numpy.savez` does it: the archive refuses to be closed while one of its entries is open."""
    with pytest.raises(ValueError, match="open writing handle") as raised:
        _write_half(interruption)
    assert interruption_of(raised.value) is interruption
    assert not may_be_retried(raised.value)


def _fail_after_another(error: Exception) -> None:
    try:
        raise KeyError("another")
    except KeyError:
        raise error  # noqa: B904 - what is in hand is what is tested


@pytest.mark.parametrize("error", [OSError("busy"), MemoryError()])
def test_an_error_of_its_own_was_not(error: Exception) -> None:
    """Also one that was raised while another error was answered."""
    with pytest.raises(type(error)) as raised:
        _fail_after_another(error)
    assert interruption_of(raised.value) is None
    assert may_be_retried(raised.value)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interruption_is_its_own(interruption: BaseException) -> None:
    assert interruption_of(interruption) is interruption
