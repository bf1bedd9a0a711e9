"""Settings of this machine and of a project: by environment, by file, and by flag.

From the strongest to the weakest: a flag of the command line, a variable SPINEWISE_<NAME>, the project's file
`spinewise.toml` (in the working directory, or where SPINEWISE_CONFIG says), the user's file
`$XDG_CONFIG_HOME/spinewise/settings.toml`, and the default. A requirement holds if any of them makes it.

The current folder may be somebody else's. What its file may set is listed; everything else needs the user's trust.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from pipeline.errors import InputError
from pipeline.storage.paths import TomlError, parse_toml, read_toml_text

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


#: What the file of any folder may set: how fast a run is, and when it stops or is tried again. No published byte, no
#: place of a file, no command, no server and no secret depends on these.
HARMLESS: Final = ("workers", "memory", "retries", "retry_delay", "timeout")
#: What only ever makes a run stricter: it holds if anybody says so, and nobody can take it back.
REQUIREMENTS: Final = ("require_ledger",)
#: What a folder may not set unless the user trusts it: commands and servers that are called; where keys and
#: budgets are looked for; where confidential files are written (`out`: true counts and a drawn key).
NEEDS_TRUST: Final = (
    "out",
    "ledger",
    "state",
    "key",
    "sign_key",
    "work_pool",
    "on_failure_command",
    "on_failure_webhook",
    "allowed_specs",
    "allowed_outputs",
    "trust",
)


def default_workers() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        None,
        description="folder of the high-water marks and checkpoints of ledgers; by default the user's state folder",
    )
    key: str | None = Field(
        None, description="the master key: file:PATH, fd:NUMBER or command:COMMAND; by default each run draws its own"
    )
    sign_key: str | None = Field(
        None, description="the key that finished releases are signed with, as key; by default they are not signed"
    )
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
    trust: tuple[Path, ...] = Field((), description="folders whose spinewise.toml may set everything")
    on_failure_webhook: str | None = Field(
        None, description="URL notified, by POST, when a deployed run has failed for good"
    )

    @property
    def processes(self) -> int:
        """The setting `workers`, else one for each core."""
        return self.workers or default_workers()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given alone: `load_settings` reads the places, each once."""
        return (init_settings,)


_KEYS: Final = ("key", "sign_key")
#: Settings that are paths.
_FILES: Final = tuple(name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation))


@dataclass(frozen=True)
class _Place:
    """A place where settings stand.

    Attributes:
        content: value by name.
        file: of the settings, None for flags and variables.
    """

    content: Mapping[str, Any]
    file: Path | None = None

    def name_of(self, name: str) -> str:
        """How a person calls the setting there."""
        if self.file is not None:
            return f"{self.file}: {name}"
        variable = PREFIX + name.upper()
        found = [key for key in os.environ if key.upper() == variable and os.environ[key]]
        return found[0] if found else variable


class _Flags(_Place):
    def name_of(self, name: str) -> str:
        return "--" + name.replace("_", "-")


def load_settings(**flags: object) -> Settings:
    """The settings that hold here and now.

    Args:
        flags: what was given with the command; None where nothing was.

    Raises:
        InputError: a file cannot be read, or a value is not allowed; the message names where it stands.
    """
    if os.environ.get(CONFIG_VARIABLE) and not project_file().is_file():
        raise InputError(f"{CONFIG_VARIABLE}: found {project_file()}; there is no such file")
    places = _places({name: value for name, value in flags.items() if value is not None})
    *_, variables, project, user = places
    for place in (project, user):
        for name in place.content:
            if name not in Settings.model_fields:
                raise InputError(
                    f"{place.name_of(name)}: there is no such setting; known are {', '.join(Settings.model_fields)}"
                )
    _check_own(user)
    _check_trust(project, _trusted(variables, user))
    content: dict[str, Any] = {}
    for place in reversed(places):
        content |= place.content
    content |= {name: True for name in REQUIREMENTS if _demanded(name, places) is not None}
    try:
        return Settings(**content)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise InputError(_told(error, _stated(name, places) or name)) from None


def _places(flags: Mapping[str, object]) -> tuple[_Place, ...]:
    """Flags, variables, the project's file and the user's, from the strongest to the weakest; each is read once."""
    files = [_Place(_content(path), path) for path in (project_file(), user_file())]
    return _Flags(flags), _Place(_variables()), *files


def _variables() -> dict[str, Any]:
    try:
        return dict(EnvSettingsSource(Settings)())
    except SettingsError as error:
        name = str(error).partition('field "')[2].partition('"')[0]
        place = _Place({}).name_of(name)
        raise InputError(f"{place}: found {os.environ.get(place)!r}; a list is written in JSON") from None


def _demanded(name: str, places: tuple[_Place, ...]) -> _Place | None:
    """The strongest place that makes a requirement; InputError where one says neither yes nor no."""
    for place in places:
        if name in place.content:
            try:
                if getattr(Settings(**{name: place.content[name]}), name):
                    return place
            except ValidationError as error:
                raise InputError(_told(error, place.name_of(name))) from None
    return None


def _check_own(user: _Place) -> None:
    """Refuse paths of the user's own file that are other files in each folder, where they name keys or budgets."""
    for name, value in user.content.items():
        if name == "out" or name not in (*_FILES, "ledger", *_KEYS):
            continue
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and _is_relative(path, name):
                raise InputError(
                    f"{user.name_of(name)}: found {path!r}, which is another file in each folder, and the current one "
                    "may be somebody else's; give the whole path"
                )


def _is_relative(path: str, name: str) -> bool:
    if name in _KEYS:
        return path.startswith("file:") and not Path(path.removeprefix("file:")).is_absolute()
    if path.startswith("sqlite:///") and name == "ledger":
        return not path.removeprefix("sqlite:///").startswith("/")
    if name == "ledger" and "://" in path:
        return False
    return not (Path(path).expanduser() if name in ("ledger", "trust") else Path(path)).is_absolute()


def _check_trust(project: _Place, trusted: list[Path]) -> None:
    """Refuse a file of the current folder that sets what only the user may set, unless the user trusts the folder.

    A file that SPINEWISE_CONFIG names by its whole path was named by the user; any other path is another file in each
    folder. A link is followed to a folder that must be trusted too, since its paths are looked up here.
    """
    path = project_file()
    if os.environ.get(CONFIG_VARIABLE) and path.is_absolute():
        return
    if "trust" in project.content:
        raise InputError(f"{path}: trust: a folder cannot trust itself; it is a setting of {user_file()} alone")
    folders = dict.fromkeys([Path.cwd().resolve(), path.parent.resolve(), path.resolve().parent])
    missing = [str(folder) for folder in folders if folder not in trusted]
    guarded = [name for name in project.content if name not in (*HARMLESS, *REQUIREMENTS)]
    if guarded and missing:
        raise InputError(
            f"{path}: {guarded[0]}: a file of the current folder may not name commands, keys or the ledger, nor set "
            f"anything but {', '.join((*HARMLESS, *REQUIREMENTS))}, unless you trust the folder; if you do, write "
            f"this in {user_file()}: trust = {json.dumps(missing, ensure_ascii=False)}"
        )


def trusts_current_folder() -> bool:
    """Whether the user trusts the current folder; InputError as `load_settings`."""
    *_, variables, _, user = _places({})
    return Path.cwd().resolve() in _trusted(variables, user)


def _trusted(variables: _Place, user: _Place) -> list[Path]:
    """The folders that the user trusts, by a variable or else the user's file; what is no list `Settings` refuses."""
    place = variables if variables.content.get("trust") else user
    named = place.content.get("trust", [])
    folders = []
    for one in named if isinstance(named, list) else []:
        folder = Path(str(one)).expanduser()
        if not folder.is_absolute():
            raise InputError(
                f"{place.name_of('trust')}: found {one!r}, which is another folder wherever one is; give the whole path"
            )
        folders.append(folder.resolve())
    return folders


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


def _told(error: ValidationError, place: str) -> str:
    first = error.errors()[0]
    return f"{place}: found {first['input']!r}; {first['msg'][:1].lower()}{first['msg'][1:]}"


def where_set(name: str) -> str:
    """Where a setting's value comes from: "SPINEWISE_WORKERS", a file with its key, or "the default"."""
    return _stated(name, _places({})) or "the default"


def _stated(name: str, places: tuple[_Place, ...]) -> str | None:
    """How the setting is called where its value comes from."""
    demanded = _demanded(name, places) if name in REQUIREMENTS else None
    stated = [place for place in places if name in place.content]
    place = demanded or (stated[0] if stated else None)
    return None if place is None else place.name_of(name)


def memory_now() -> int:
    """The memory of this process and all that it has started, in bytes; pages that they share are counted in each."""
    total, own = 0, psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            total += process.memory_info().rss
    return total


def shown_memory() -> str:
    """ "512 MB"."""
    return f"{memory_now() / 1e6:,.0f} MB"


def memory_for_a_run(settings: Settings) -> int:
    """Memory that a run may take, in bytes: the setting, else all that is free."""
    return available_memory() if settings.memory is None else int(settings.memory * 1e9)


def available_memory() -> int:
    """Memory that this process can have, in bytes: of the machine, and within the limit of its control group."""
    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # no such limit
            continue
    return free
