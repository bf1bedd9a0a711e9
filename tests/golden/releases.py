"""The small releases of the safety line: input files and commands, so that every version of the program can make them.

Between them they have every kind of measurement, of public input and of publication. Some are made a second time with
a spine that is cut: they hold what is stored of the first.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from releases.asked import write_workers
from releases.chosen import write_chosen
from releases.forked import Forks
from releases.homes import write_homes
from releases.households import write_quarter
from releases.jobs import write_jobs
from releases.mixed import write_mixed
from releases.named import write_named_town
from releases.one_town import write_one_town
from releases.patients import write_patients
from releases.peopled import write_peopled
from releases.positive_town import TOPDOWN, write_positive
from releases.series_town import INDEPENDENT, YEARS, write_series_town
from releases.shared_town import write_shared_town
from releases.small import QUICK, write_town
from releases.survey import write_survey
from releases.survey_of_words import write_words
from releases.updated import DETAILED, PUBLISH, QUESTIONS
from releases.wages import BALANCES, OVER, write_wages
from releases.wide import CHOSEN, write_wide

from features.registry import is_installed

#: Arguments of one command.
Command = tuple[str, ...]


@dataclass(frozen=True)
class SmallRelease:
    """Inputs, the commands that make publications of them, and where these are.

    Attributes:
        name: of it.
        write: writes the inputs into a folder.
        commands: run one after the other in that folder.
        published: the directories with a public/ folder, as paths in that folder.
        charged: whether a ledger is charged, whose clock and identity differ from run to run.
        cut: the spine is cut, however few cells it has.
    """

    name: str
    write: Callable[[Path], object]
    commands: tuple[Command, ...]
    published: tuple[str, ...]
    charged: bool = False
    cut: bool = False

    @property
    def id(self) -> str:
        """What tests call it."""
        return f"{self.name}, cut" if self.cut else self.name

    def make(self, folder: Path, project: Path, forks: Forks) -> None:
        """Run the commands, after `write`, with the packages of a checkout, which `forks` has loaded.

        Raises:
            CalledProcessError: one fails; its notes say what it printed.
        """
        for command in self.commands:
            module = "golden.cut" if self.cut else "flows.cli"
            done = forks.run([module, *command], _environment(folder, project), folder, timeout=900)
            try:
                done.check_returncode()
            except subprocess.CalledProcessError as error:
                error.add_note(f"{done.stdout}\n{done.stderr}")
                raise

    def streams(self, folder: Path) -> list[str]:
        """A line for each stream of noise that was drawn from, by `hooks/sitecustomize.py`."""
        path = folder / STREAMS
        return path.read_text("utf-8").splitlines() if path.exists() else []


#: Finds its module when a process of a release starts; the file that it writes.
HOOKS: Final = Path(__file__).resolve().parent / "hooks"
STREAMS: Final = "streams"


def _environment(folder: Path, project: Path) -> Mapping[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPINEWISE_")}
    place = {"SPINEWISE_LEDGER": str(folder / "ledger.sqlite"), "SPINEWISE_STATE": str(folder / "state")}
    noted = {"GOLDEN_STREAMS": str(folder / STREAMS), "PYTHONPATH": os.pathsep.join([str(HOOKS), str(project)])}
    return {**own, **place, **noted, "COLUMNS": "100"}


def _run(spec: str, out: str = "out", *more: str) -> Command:
    return ("--quiet", "run", spec, "--out", out, "--no-prefect", "--workers", "1", *more)


def _one(name: str, write: Callable[[Path], object], spec: str, out: str) -> SmallRelease:
    return SmallRelease(name, write, (_run(spec),), (f"out/{out}",))


def _survey(name: str, write: Callable[[Path], object]) -> SmallRelease:
    """A release from reports, whose key is always the same."""

    def written(folder: Path) -> None:
        write(folder)
        _write_key(folder)

    return SmallRelease(name, written, (_run("survey.toml", "out", "--key", f"file:{_KEY}"),), ("out/survey",))


#: A town with everything that a spec can state, under pure differential privacy.
_PURE = (('rho = "2"', 'framework = "pure"\nepsilon = "2"'), ('privacy = { rho = "1" }', 'privacy = { epsilon = "1" }'))
#: Areas that have one child alone are not measured twice.
_BYPASS = (
    ("levels = { county = 1, tract = 3, block = 5 }", "levels = { county = 1, tract = 3, block = 5 }\nbypass = true"),
)
#: The baseline of benchmarks, where each level is estimated from its own measurements.
_TOPDOWN = (("[companions.units]", '[postprocess]\nsolver = "batched"\nestimator = "topdown"\n\n[companions.units]'),)
#: Persons by what their households are, and joint draws of what the truth may be.
_BY_HOUSEHOLDS = (
    (
        "\n[companions.homes]",
        """
[household_tables]
age_by_size = { persons = "age", households = "size" }
head = { households = "head * children", levels = ["county", "block"] }

[companions.homes]""",
    ),
    ("replicates = 2", "replicates = 2\ndraws = 5"),
)
#: A question of each statistic, with its budget.
_ASKED = (
    ("count by tract, sex, age where age in 18-64, 65+", "1/2"),
    ("sum wages by county", "1/4"),
    ("mean wages where sex = f", "1/4"),
    ("median wages by sex", "1/4"),
    ("max wages", "1/4"),
    ("clip wages among 20000, 40000, 60000 above 1/100", "1/4"),
)
#: Running sums of a table, of one attribute and of two.
_CUMULATIVE = (
    (
        'total = "total"\nsex =',
        'total = "total"\nage = { query = "age", cumulative = true, levels = ["county", "tract"] }\n'
        'both = { query = "sex * age", cumulative = "age" }\nsex =',
    ),
)
_KEY: Final = "key"
_WITH_CLIQUES: Final = is_installed("marginals")


def _charged(folder: Path) -> None:
    """Made-up workers, and a key that is always the same and no test key."""
    write_workers(folder / "in", PUBLISH, DETAILED)
    _write_key(folder)


def _write_key(folder: Path) -> None:
    path = folder / _KEY
    secret = hashlib.sha256(b"the key of the golden releases").hexdigest()
    path.write_text(f"spinewise-master-key-1 {secret}\n", encoding="ascii")
    path.chmod(0o600)


def _opened(dataset: str, rho: str) -> Command:
    return ("ledger", "open", dataset, "--rho", rho, "--population", "made up")


def _ask(questions: Sequence[tuple[str, str]]) -> list[Command]:
    more = ("--key", f"file:{_KEY}", "--out", "answers")
    return [
        ("--quiet", "ask", "in/release.toml", text, "--rho", rho, "--name", f"q{number}", *more)
        for number, (text, rho) in enumerate(questions)
    ]


def _answers() -> SmallRelease:
    asked = _ask(_ASKED)
    published = tuple(f"answers/q{number}" for number in range(len(_ASKED)))
    return SmallRelease("answers", _charged, (_opened("workers", "9"), *asked), published, charged=True)


def _updated() -> SmallRelease:
    asked = _ask(QUESTIONS)
    used = [word for number in range(len(QUESTIONS)) for word in ("--with", f"answers/q{number}")]
    update = ("--quiet", "update", "out/work", *used, "--out", "updated", "--workers", "1")
    commands = (_opened("workers", "9"), _run("in/release.toml", "out", "--key", f"file:{_KEY}"), *asked, update)
    return SmallRelease("updated", _charged, commands, ("out/work", "updated/work"), charged=True)


def _chosen(folder: Path) -> None:
    """Blocks whose detail is chosen privately, with margins of error."""
    write_chosen(folder, ("margins = false\nmicrodata = false", "replicates = 2"))
    _write_key(folder)


_SAMPLED = """
name = "sampled"
privacy = { rho = "1/4", key = "insecure-test:1" }
geography = { file = "people.csv", column = "leaf", levels = { nation = 1, region = 2, area = 3, leaf = 6 } }
schema.attributes = { group = ["a", "b", "c", "d", "e"] }
input = { file = "people.csv", form = "wide", geocode = "leaf", cells = [ { counts = "{group}" } ] }
tables = { total = "total", group = "group" }
publish = { microdata = false }

[strategy]
queries = { total = "1/4", group = "3/4" }
levels = { nation = "1/5", region = "1/5", area = "1/5", leaf = "2/5" }
"""


def _sampled(folder: Path) -> None:
    """30 areas of 95 leaves, few enough to be quick and so many that they are simulated by a sample."""
    rng, areas, leaves = np.random.default_rng(1), 30, 95
    codes = [f"E{area // 10}{area % 10}{leaf:03d}" for area in range(areas) for leaf in range(leaves)]
    means = np.array([60, 20, 30, 1300, 20.0]) * np.exp(rng.normal(0, 0.8, (areas, 1, 5)))
    counts = rng.poisson(means * np.exp(rng.normal(0, 0.5, (areas, leaves, 5)))).reshape(areas * leaves, 5)
    pd.DataFrame(counts, columns=list("abcde")).assign(leaf=codes).to_csv(folder / "people.csv", index=False)
    (folder / "release.toml").write_text(_SAMPLED, encoding="utf-8")


def _mixed(folder: Path) -> None:
    (folder / "in").mkdir()
    write_mixed(folder / "in", dataset="people")
    _write_key(folder)


def _series(name: str, *changes: tuple[str, str]) -> SmallRelease:
    """Three periods of a series, each with its own records."""
    commands = tuple(_run("release.toml", "out", "--period", year, "--data", f"persons-{year}.csv") for year in YEARS)
    published = tuple(f"out/padron-{year}" for year in YEARS)
    return SmallRelease(name, lambda folder: write_series_town(folder, *changes), commands, published)


_JOINED: Final = (
    _one("homes", write_homes, "release.toml", "homes"),
    _one("drawn", lambda folder: write_homes(folder, *_BY_HOUSEHOLDS), "release.toml", "homes"),
    _one("patients", write_patients, "release.toml", "homes"),
    _one("households", write_quarter, "quarter.toml", "quarter"),
    _one("one_town", write_one_town, "release.toml", "one-town"),
)
RELEASES: Final[Sequence[SmallRelease]] = (
    _one("town", lambda folder: write_town(folder, *QUICK), "release.toml", "town"),
    _one("pure", lambda folder: write_town(folder, *QUICK, *_PURE), "release.toml", "town"),
    _one("bypass", lambda folder: write_town(folder, *QUICK, *_BYPASS), "release.toml", "town"),
    _one("topdown", lambda folder: write_town(folder, QUICK[0], *_TOPDOWN), "release.toml", "town"),
    _one("named", write_named_town, "release.toml", "town"),
    *([_one("shares", write_shared_town, "release.toml", "town")] if is_installed("shares") else []),
    _one("wages", lambda folder: write_wages(folder, OVER), "wages.toml", "wages"),
    _one("balances", lambda folder: write_wages(folder, *BALANCES), "wages.toml", "wages"),
    _one("jobs", write_jobs, "jobs.toml", "jobs"),
    _one("positive", write_positive, "state.toml", "state"),
    _one("positive_topdown", lambda folder: write_positive(folder, TOPDOWN), "state.toml", "state"),
    _one("peopled", write_peopled, "release.toml", "peopled"),
    *((_series("series"), _series("independent", *INDEPENDENT)) if is_installed("years") else ()),
    *(
        [_one("cumulative", lambda folder: write_town(folder, *QUICK, *_CUMULATIVE), "release.toml", "town")]
        if is_installed("cumulative")
        else ()
    ),
    *([_one("marginals", write_wide, "release.toml", "wide")] if _WITH_CLIQUES else ()),
    *([_one("cliques", lambda folder: write_wide(folder, CHOSEN), "release.toml", "wide")] if _WITH_CLIQUES else ()),
    *(_JOINED if is_installed("joins") else ()),
    _survey("survey", lambda folder: write_survey(folder, "direct_encoding", 4, "1")),
    _survey("unary", lambda folder: write_survey(folder, "unary_encoding", 5, "1")),
    # Its rare words that are not listed move no count: intervals are those of the listed words alone.
    _survey("words", lambda folder: write_words(folder, seed=2)),
    SmallRelease(
        "mixed",
        _mixed,
        (
            _opened("people", "1"),
            _run("in/register/register.toml", "in/register/out", "--key", f"file:{_KEY}"),
            _run("in/survey.toml", "out", "--key", f"file:{_KEY}"),
        ),
        ("in/register/out/register", "out/survey"),
        charged=True,
    ),
    SmallRelease(
        "chosen",
        _chosen,
        (_opened("people", "1"), _run("release.toml", "out", "--key", f"file:{_KEY}")),
        ("out/chosen",),
        True,
    ),
    _one("sampled", _sampled, "release.toml", "sampled"),
    _answers(),
    _updated(),
)
#: Some a second time, of each way of estimation that works on parts of a spine: they hold what the first do.
CUT: Final[Sequence[SmallRelease]] = tuple(
    replace(release, cut=True)
    for release in RELEASES
    if release.name in ("town", "pure", "bypass", "homes", "sampled", "series", "shares", "wages", "cumulative")
)
