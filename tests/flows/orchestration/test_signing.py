"""A release is signed once: by the flow where it is scheduled, by the command line where that started it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from flows.orchestration.release_flow import measured_of_run, signer_of
from pipeline.confidential.steps import Measured
from pipeline.execution.settings import load_settings
from pipeline.signatures.signing_keys import SigningKey


def test_the_flow_leaves_the_signature_to_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = SigningKey.generate("statistics.example/releases", post_quantum=False)
    key.write(tmp_path / "agency.sign")
    monkeypatch.setenv("SPINEWISE_SIGN_KEY", f"file:{tmp_path / 'agency.sign'}")
    settings = load_settings()
    scheduled = signer_of(settings)
    assert scheduled is not None
    assert scheduled.name == key.name
    token = measured_of_run.set(cast(Measured, object()))
    try:
        assert signer_of(settings) is None
    finally:
        measured_of_run.reset(token)
