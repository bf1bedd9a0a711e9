"""Random command lines: every command and option of the program, with values that fit, that nearly fit, and junk."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer.main

import flows.cli

_WORDS = (
    "", " ", "-", "--", "-1", "0", "1", "2", "1e400", "nan", "x", "é", "a b", "total", "block", "race", "age * sex",
    "*", "=", ",", "a=b", "sex=f", "none=1", "age=child,adult", "1/3", "1/0", "\x07", "x" * 300, "/dev/null",
    "/proc/self/mem", ".", "..", "/", "~", "{}", "%s", "$HOME", "block: total <= 2",
    "county: total = 1; block: sex = 2", "block:", "state=1,county=2", "block=5", "A0101", "mine=A0101,A0102",
    "csv", "nmf",
)  # fmt: skip
#: Options whose values must not be drawn at random: what they do costs the machine, or reads the tests' own files.
_VALUES: Mapping[str, tuple[str, ...]] = {
    "people": ("-1", "0", "40", "x", "1.5", "1" + "0" * 21),
    "workers": ("-1", "0", "1", "x", "1e3"),
    "key": (
        *("", "x", "file:", "file:/dev/null", "fd:-1", "fd:700001", "fd:1000000000000", "fd:x", "command:"),
        *("command:false", "command:echo key", "command:/nothing", "command:'", "command:cat /dev/null"),
    ),
    "scheduler": ("", "x", "tcp://127.0.0.1:1"),
    "estimator": ("full", "topdown", "x"),
    "solver": ("descent", "cvxpy", "x"),
    "delta": ("1e-10", "0", "1", "-1", "1/0", "x"),
    "timeout": ("-1", "0", "5", "nan", "x"),
    "seed": ("-1", "0", "1", "99999999999", "x"),
}


@dataclass(frozen=True)
class Places:
    """What the paths of a command line may be: things that are there, by the name of the parameter."""

    folder: Path
    by_name: Mapping[str, tuple[Path, ...]]

    def draw(self, rng: random.Random, name: str) -> str:
        """A path that fits, another that is there, one that is not, or junk."""
        kind = rng.random()
        fitting = self.by_name.get(name, ())
        if fitting and kind < 0.6:
            return str(rng.choice(fitting))
        if kind < 0.75:
            return str(rng.choice([path for paths in self.by_name.values() for path in paths]))
        if kind < 0.9:
            return str(self.folder / rng.choice(("new", "new.html", "new.toml", "new.parquet", "a/b/c", "x" * 300)))
        return rng.choice(_WORDS)


@cache
def commands() -> tuple[tuple[tuple[str, ...], Any], ...]:
    """The words of each command, also those below others, with its parameters."""
    group: Any = typer.main.get_command(flows.cli.app)
    waiting: list[tuple[tuple[str, ...], Any]] = [((name,), command) for name, command in group.commands.items()]
    out = []
    while waiting:
        words, command = waiting.pop(0)
        below = getattr(command, "commands", {})
        waiting += [((*words, name), inner) for name, inner in below.items()]
        if not below:
            out.append((words, command))
    return tuple(out)


def command_line(rng: random.Random, places: Places) -> list[str]:
    """A command with some of its parameters, now and then one of another command, words twice, or none at all."""
    words, command = rng.choice(commands())
    line = list(words)
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        if rng.random() < (0.75 if is_option else 0.05):
            continue
        line += _parameter(rng, parameter, places)
    if words == ("run",):
        line.append("--no-prefect")
    if rng.random() < 0.05:
        line.insert(rng.randrange(len(line) + 1), rng.choice(("--help", "--json", "-q", "--nothing", "", "--", "-x")))
    if rng.random() < 0.03:
        del line[rng.randrange(len(line))]
    return line if words != ("run",) or "--no-prefect" in line else [*line, "--no-prefect"]


def _parameter(rng: random.Random, parameter: Any, places: Places) -> list[str]:
    name = parameter.name
    if parameter.param_type_name == "option":
        option = rng.choice(parameter.opts)
        if parameter.is_flag:
            return [option]
        return [option, _value(rng, name, parameter, places)]
    return [_value(rng, name, parameter, places)]


def _value(rng: random.Random, name: str, parameter: Any, places: Places) -> str:
    if name in _VALUES:
        return rng.choice(_VALUES[name])
    kind = parameter.type_descriptor.annotation
    if name in places.by_name or kind is Path:
        return places.draw(rng, name)
    choices = [choice.value for choice in kind] if isinstance(kind, type) and issubclass(kind, Enum) else get_args(kind)
    if choices and rng.random() < 0.8:
        return str(rng.choice(list(choices)))
    return rng.choice(_WORDS)
