"""Faults planted in the settings, each in a copy of the module, and the test of `test_settings.py` that catches it."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeline.execution import settings

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: what it does.
        old, new: a text of the module, and what stands in its place.
        test: that fails with it.
        given: what the test is called with.
    """

    name: str
    old: str
    new: str
    test: str
    given: tuple[tuple[str, Any], ...] = ()


def moved(name: str) -> tuple[str, str]:
    """The setting is moved from the list of what needs trust to that of what is harmless."""
    return '"retry_delay", "timeout")', f'"retry_delay", "timeout", "{name}")'


EACH, LISTS = "test_each_setting_of_a_folder_untrusted_and_trusted", "test_every_setting_is_in_one_list"
KIND = "test_what_names_a_file_a_command_or_a_server_is_never_harmless"
DEMAND, ROOT = "test_a_requirement_holds_whoever_makes_it", "test_trust_is_of_a_folder_and_not_of_wherever_one_is"

FAULTS = (
    *(
        Fault(f"{name} of any folder holds", *moved(name), KIND)
        for name in ("key", "sign_key", "state", "out", "work_pool")
    ),
    Fault("a setting is in two lists", *moved("ledger"), LISTS),
    Fault("a setting is in no list", '    "on_failure_webhook",\n', "", LISTS),
    Fault(
        "only the list of what needs trust is refused, and one is missing there",
        "if name not in (*HARMLESS, *REQUIREMENTS)]",
        'if name in NEEDS_TRUST and name != "state"]',
        EACH,
        (("name", "state"), ("linked", False)),
    ),
    Fault(
        "one trusted folder of several suffices",
        "if folder not in trusted]",
        "if not trusted]",
        EACH,
        (("name", "key"), ("linked", True)),
    ),
    Fault(
        "the folder where the link leads is all that is looked at",
        "[Path.cwd().resolve(), path.parent.resolve(), path.resolve().parent]",
        "[path.resolve().parent]",
        EACH,
        (("name", "key"), ("linked", True)),
    ),
    Fault(
        "a link is followed to a folder that is not trusted",
        "[Path.cwd().resolve(), path.parent.resolve(), path.resolve().parent]",
        "[Path.cwd().resolve(), path.parent.resolve()]",
        "test_a_link_from_a_trusted_folder_to_another_is_not_followed",
    ),
    Fault(
        "what is below a trusted folder is trusted",
        "if folder not in trusted]",
        "if not any(folder.is_relative_to(one) for one in trusted)]",
        EACH,
        (("name", "ledger"), ("linked", False)),
    ),
    Fault(
        "the folder trusts itself",
        'if "trust" in project.content:',
        "if False:",
        EACH,
        (("name", "trust"), ("linked", False)),
    ),
    *(
        Fault(
            f"a requirement of {place} is overridden",
            "if _demanded(name, places) is not None}",
            "if False}",
            DEMAND,
            (("name", "require_ledger"), ("yes", place)),
        )
        for place in ("user", "project", "variable")
    ),
    Fault(
        "the user's requirement is not asked for",
        "_demanded(name, places) is not None}",
        "_demanded(name, places[:-1]) is not None}",
        DEMAND,
        (("name", "require_ledger"), ("yes", "user")),
    ),
    Fault("a relative folder is trusted", "if not folder.is_absolute():", "if False:", ROOT, (("trust", "."),)),
    Fault(
        "a relative SPINEWISE_CONFIG is trusted",
        "if os.environ.get(CONFIG_VARIABLE) and path.is_absolute():",
        "if os.environ.get(CONFIG_VARIABLE):",
        "test_a_file_that_is_named_by_a_path_from_here_is_this_folders",
    ),
    Fault(
        "the user's file names a key of the current folder",
        "    _check_own(user)\n",
        "",
        "test_the_users_own_file_names_keys_and_budgets_by_whole_paths",
        (("name", "sign_key"),),
    ),
    Fault(
        "the file is read a second time after the check",
        "        content |= place.content\n",
        "        content |= place.content if place.file is None else _content(place.file)\n",
        "test_each_file_is_read_once",
    ),
)


def with_fault(fault: Fault) -> ModuleType:
    """The module of the settings with the fault, under the name by which the tests patch it."""
    text = inspect.getsource(settings)
    assert fault.old in text
    module = ModuleType(settings.__name__)
    module.__file__ = settings.__file__
    sys.modules[settings.__name__] = module
    exec(compile(text.replace(fault.old, fault.new, 1), str(settings.__file__), "exec"), module.__dict__)
    return module


def guards() -> ModuleType:
    """The tests, with the names that they import from the module as it is now."""
    spec = importlib.util.spec_from_file_location("guards_of_settings", HERE / "test_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("sound", [False, True], ids=["planted", "sound"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_caught(fault: Fault, sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*settings.Settings.model_fields, "config"]:
        monkeypatch.delenv(f"SPINEWISE_{name.upper()}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir()
    (tmp_path / "config" / "spinewise").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setitem(sys.modules, settings.__name__, settings)  # put back when the test ends
    monkeypatch.setattr("pipeline.execution.settings", with_fault(replace(fault, new=fault.old) if sound else fault))
    test = getattr(guards(), fault.test)
    more = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    wanted = inspect.signature(test).parameters
    given = dict(fault.given) | {name: value for name, value in more.items() if name in wanted}
    if sound:
        test(**given)
        return
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(**given)
