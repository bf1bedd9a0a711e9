"""Keys of an agency that signs, what it has signed, and its commands in this process."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from flows.cli import app
from pipeline.errors import SpinewiseError
from pipeline.signatures.signing_keys import PublicKey, SigningKey
from releases.command import spinewise


def keys_in(folder: Path) -> tuple[SigningKey, Path, Path]:
    """A signing key, and the files of it and of its public key."""
    folder.mkdir(parents=True, exist_ok=True)
    key = SigningKey.generate("statistics.example/answers")
    key.write(folder / "agency.sign")
    public = folder / "agency.sign.pub"
    public.write_text(key.public().text(), "ascii")
    return key, folder / "agency.sign", public


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    exit_code: int
    output: str


def cli(*words: object) -> Done:
    """Run the command with these words."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, SpinewiseError):
        return Done(done.exception.exit_status, str(done.exception))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Done(done.exit_code, done.output)


def made_keys(folder: Path) -> Path:
    """The folder with agency.sign and agency.sign.pub, made by the command."""
    made = spinewise("key", "sign-new", folder / "agency.sign", "--name", "statistics.example/releases")
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == PublicKey.read(folder / "agency.sign.pub").fingerprint()
    return folder


def signed_copy(release: Path, signing: Path, copy: Path) -> Path:
    """A copy of a release, signed with the key of `made_keys`."""
    shutil.copytree(release, copy)
    done = spinewise("sign", copy, "--sign-key", f"file:{signing / 'agency.sign'}")
    assert done.returncode == 0, done.stderr
    return copy
