"""Settings of this machine and of a project: by environment, by file, and by flag.

From the strongest to the weakest: a flag of the command line, a variable SPINEWISE_<NAME>, the project's file
`spinewise.toml` (in the working directory, or where SPINEWISE_CONFIG says), the user's file
`$XDG_CONFIG_HOME/spinewise/settings.toml`, and the default.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from pipeline.errors import InputError
from pipeline.storage.toml import TomlError, parse_toml, read_toml_text

PREFIX: Final = "SPINEWISE_"
#: Names the project's file.
CONFIG_VARIABLE: Final = "SPINEWISE_CONFIG"


def user_file() -> Path:
    """The user's file of settings."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "spinewise" / "settings.toml"


def project_file() -> Path:
    """The project's file of settings."""
    return Path(os.environ.get(CONFIG_VARIABLE) or "spinewise.toml")


#: What runs a command, says where secrets are, or where budgets are counted: a folder that somebody else made may not.
GUARDED: Final = (
    "ledger",
    "ledger_marks",
    "key_file",
    "key_command",
    "on_failure_command",
    "on_failure_webhook",
    "allowed_specs",
    "allowed_outputs",
)


class Settings(BaseSettings):
    """What can be set once instead of with each command."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, env_ignore_empty=True)

    out: Path = Field(Path("releases"), description="folder in which the directories of releases are made")
    workers: int | None = Field(None, ge=1, description="number of processes; all cores by default")
    memory: float | None = Field(
        None, gt=0, description="gigabytes of memory that a run may take; by default all that is free"
    )
    ledger: str | None = Field(None, description="the ledger of budgets: a file, sqlite:///PATH or postgresql://...")
    require_ledger: bool = Field(
        False, description="refuse a run that is not charged to a dataset's budget; only test keys are free"
    )
    state: Path | None = Field(
        None, description="folder of the high-water marks of ledgers; by default the user's state folder"
    )
    ledger_marks: str | None = Field(
        None, description="another database, as the ledger's, in which its high-water marks are kept too"
    )
    key_file: Path | None = Field(None, description="file with the master key; by default each run draws its own")
    key_command: str | None = Field(
        None, description="command that prints the master key, such as one that queries a vault"
    )
    beacon_file: Path | None = Field(None, description="file with the beacon's round that a spec names")
    beacon_command: str | None = Field(None, description="command that prints the beacon's round that a spec names")
    sign_key_file: Path | None = Field(
        None, description="file with the key that finished releases are signed with; by default they are not signed"
    )
    sign_key_command: str | None = Field(None, description="command that prints the signing key")
    work_pool: str = Field("spinewise", min_length=1, description="Prefect work pool that deployments run on")
    retries: int = Field(0, ge=0, le=20, description="how often a step, or a run that crashed, is retried")
    retry_delay: float = Field(30.0, ge=0, description="seconds before the first retry; doubled for each further one")
    timeout: float | None = Field(None, gt=0, description="seconds after which a run is stopped; it can be resumed")
    on_failure_command: str | None = Field(None, description="command run when a deployed run has failed for good")
    allowed_specs: tuple[Path, ...] = Field(
        (), description="folders below which specs, records and keys of deployed runs are; by default those deployed"
    )
    allowed_outputs: tuple[Path, ...] = Field(
        (), description="folders below which deployed runs write; by default those deployed"
    )
    trust: tuple[Path, ...] = Field(
        (), description="folders whose spinewise.toml may name commands, keys and the ledger"
    )
    on_failure_webhook: str | None = Field(
        None, description="URL notified, by POST, when a deployed run has failed for good"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flag, environment, project, user."""
        files = [TomlConfigSettingsSource(settings_cls, path) for path in (project_file(), user_file())]
        return (init_settings, env_settings, *files)


def load_settings(**flags: object) -> Settings:
    """The settings that hold here and now.

    Args:
        flags: what was given with the command; None where nothing was.

    Raises:
        InputError: a file cannot be read, or a value is not allowed; the message names where it stands.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if os.environ.get(CONFIG_VARIABLE) and not project_file().is_file():
        raise InputError(f"{CONFIG_VARIABLE}: found {project_file()}; there is no such file")
    _check_files()
    _check_trust()
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise InputError(_told(error, given)) from None


def _check_files() -> None:
    for path in (project_file(), user_file()):
        content = _content(path)
        for name in content:
            if name not in Settings.model_fields:
                raise InputError(
                    f"{path}: {name}: there is no such setting; known are {', '.join(Settings.model_fields)}"
                )


def _check_trust() -> None:
    """Refuse a file of the current folder that names what only the user may name, unless the user trusts the folder.

    A file that SPINEWISE_CONFIG names was named by the user.
    """
    if os.environ.get(CONFIG_VARIABLE):
        return
    path = project_file()
    content, folder = _content(path), path.resolve().parent
    if "trust" in content:
        raise InputError(f"{path}: trust: a folder cannot trust itself; it is a setting of {user_file()} alone")
    if folder in _trusted():
        return
    if guarded := [name for name in GUARDED if name in content]:
        raise InputError(
            f"{path}: {guarded[0]}: a file of the current folder may not name commands, keys or the ledger, unless "
            f'you trust the folder; if you do, write this in {user_file()}: trust = ["{folder}"]'
        )


def _trusted() -> list[Path]:
    """The folders that the user trusts, by the user's file or a variable; what is no list is told by `Settings`."""
    named = _content(user_file()).get("trust", [])
    try:
        named = json.loads(os.environ.get(f"{PREFIX}TRUST") or "null") or named
    except ValueError:
        named = []
    return [Path(one).expanduser().resolve() for one in named if isinstance(one, str)]


def _content(path: Path) -> dict[str, Any]:
    """What a file of settings says; nothing where there is none."""
    try:
        return parse_toml(read_toml_text(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (TomlError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None


def _told(error: ValidationError, flags: Mapping[str, object]) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0])
    return f"{where_set(name, flags)}: found {first['input']!r}; {first['msg'][:1].lower()}{first['msg'][1:]}"


def where_set(name: str, flags: Mapping[str, object] | None = None) -> str:
    """Where a setting's value comes from: "--workers", "SPINEWISE_WORKERS", a file with its key, or "the default"."""
    if flags and name in flags:
        return "--" + name.replace("_", "-")
    variable = PREFIX + name.upper()
    found = [key for key in os.environ if key.upper() == variable and os.environ[key]]
    if found:
        return found[0]
    for path in (project_file(), user_file()):
        if name in _content(path):
            return f"{path}: {name}"
    return "the default"


def unknown_variables() -> list[str]:
    """Variables that look like settings and are none: most likely a slip."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    return sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known)
