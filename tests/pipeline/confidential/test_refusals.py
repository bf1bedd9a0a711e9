"""What an error says of the records stays in a file that only its owner can read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pipeline.confidential.process import described, restored
from pipeline.confidential.refusals import shielded
from pipeline.errors import RecordsError, RefusedError
from pipeline.execution.machine_faults import NO_MEMORY
from pipeline.release.layout import RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path)
    run.staging.mkdir(parents=True)
    return run


@pytest.mark.parametrize(("error", "status"), [(RecordsError("found 7654321"), 2), (ValueError("7654321"), 1)])
def test_the_error_that_is_raised_says_nothing(directory: RunDirectory, error: Exception, status: int) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(RefusedError) as raised:
        shielded(directory, "tabulate", fail)
    assert raised.value.exit_status == status
    assert "7654321" not in f"{raised.value!r}{raised.value}"
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None
    assert "7654321" in directory.refusal.read_text()
    assert stat.S_IMODE(directory.refusal.stat().st_mode) == 0o600


def test_a_result_is_passed_on(directory: RunDirectory) -> None:
    assert shielded(directory, "tabulate", lambda: "fingerprint") == "fingerprint"
    assert not directory.refusal.exists()


def test_a_lack_of_memory_is_told_as_such_and_not_as_a_defect(directory: RunDirectory) -> None:
    """Libraries are loaded late, and where memory is short the loader says so in words of its own."""
    error = ImportError("libopenblas.so: failed to map segment from shared object")

    def fail() -> None:
        raise error

    with pytest.raises(RefusedError) as raised:
        shielded(directory, "check", fail)
    assert raised.value.exit_status == 1
    assert directory.refusal.read_text() == f"{NO_MEMORY}\n"
    assert isinstance(restored(described(error, directory, "compare")), MemoryError)
    assert isinstance(restored(described(OSError(12, "Cannot allocate memory"), None, "compare")), MemoryError)
