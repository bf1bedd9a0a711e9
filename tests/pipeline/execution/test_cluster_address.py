"""A Dask scheduler beyond this machine is spoken to by TLS or not at all."""

from __future__ import annotations

import pytest

from pipeline.errors import InputError
from pipeline.execution.cluster import check_encrypted


@pytest.mark.parametrize(
    "address",
    ["tcp://10.0.0.5:8786", "10.0.0.5:8786", "tcp://dask.office:8786", "ws://h:1", "tcp://127.0.0.1.evil.org:1"],
)
def test_others_are_refused_without_tls(address: str) -> None:
    with pytest.raises(InputError, match=f"--scheduler {address}: is on another machine and not encrypted"):
        check_encrypted(address)


@pytest.mark.parametrize(
    "address", ["tls://10.0.0.5:8786", "tcp://127.0.0.1:8786", "127.0.0.1:8786", "localhost:8786", "tcp://[::1]:8786"]
)
def test_this_machine_and_tls_are_taken(address: str) -> None:
    check_encrypted(address)
