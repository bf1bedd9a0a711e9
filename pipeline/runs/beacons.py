"""The beacon's round of a run: from a file or a command, checked, and the one that the spec has named."""

from __future__ import annotations

from pathlib import Path

from pipeline.confidential.secret_source import output_of
from pipeline.errors import InputError
from pipeline.execution.settings import Settings
from pipeline.release.beacon import LONGEST_BEACON, Beacon, parse_beacon
from pipeline.release.manifest import Manifest
from pipeline.release.stated_beacon import stated_beacon
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.small_files import read_small


def given_beacon(file: Path | None, command: str | None) -> Beacon | None:
    """The round that a file or a command holds; None if neither is given.

    Raises:
        InputError: both are given, one cannot be read, or what it holds is not a signed round of a chain.
    """
    if file is not None and command is not None:
        raise InputError("found --beacon-file and --beacon-command; one source of the beacon is allowed")
    if command is not None:
        return parse_beacon(output_of(command, "--beacon-command", LONGEST_BEACON, "beacon"), "--beacon-command")
    if file is None:
        return None
    try:
        content = read_small(file, LONGEST_BEACON)
    except OSError as error:
        raise InputError(f"beacon file {file}: cannot be opened ({error.strerror})") from None
    return parse_beacon(content, f"beacon file {file}")


def beacon_of_settings(spec: ReleaseSpec, settings: Settings) -> Beacon | None:
    """The round that the settings name, for a spec that needs one; for others None."""
    return None if spec.privacy.beacon is None else given_beacon(settings.beacon_file, settings.beacon_command)


def check_beacon(spec: ReleaseSpec, beacon: Beacon | None) -> None:
    """InputError where a round is given that is not the one that the spec has named."""
    named = spec.privacy.beacon
    if beacon is None:
        return
    if named is None:
        raise InputError(f"{spec.source}: names no beacon (privacy.beacon), and one is given; remove it, or name it")
    if (named.chain, named.round) != (beacon.chain, beacon.round):
        raise InputError(
            f"{spec.source}: privacy.beacon: found round {named.round} of {named.chain[:12]}, and the beacon that is "
            f"given is round {beacon.round} of {beacon.chain[:12]}; the one that was named is needed"
        )


def beacon_problems(manifest: Manifest, spec: ReleaseSpec) -> list[str]:
    """Whether the manifest states the round that its spec names, and the round holds; a sentence if not."""
    try:
        beacon = stated_beacon(manifest)
        check_beacon(spec, beacon)
    except InputError as error:
        return [f"public/manifest.json: {error}"]
    if beacon is None and spec.privacy.beacon is not None:
        return ["public/manifest.json: states no beacon, and the spec names one"]
    return []
