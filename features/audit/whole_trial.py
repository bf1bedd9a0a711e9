"""Whole runs on made-up records with a ledger, audited by the second program, which computes everything itself.

A fault that a program shares with its own tests passes them: noise for a sensitivity of 1 instead of 2 has just the
scale that the same function says it should have. The second program shares nothing, and is asked here about one
pipeline and one private choice in each framework; and about the ledger, which must refuse before anything is drawn.
So it is about what draws in a way of its own: a series, a private choice of pairs, answers where the area above is
positive.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

from auditor.ledger import read_ledger
from features.audit.findings import Finding, certain
from features.audit.finished import GROUP, independent_findings
from features.audit.trials import scratch
from pipeline.confidential.custody import KeySource
from pipeline.errors import BudgetRefusedError, SpinewiseError
from pipeline.execution.steps import Silent
from pipeline.privacy.budget import BUDGET_NAMES, FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.runs import run as runs
from pipeline.runs.request import CheckedRequest, Request, check_request
from pipeline.runs.verify import verify_release
from pipeline.spec.slots import installed_slots

_SPEC: Final = """
name = "tried"
[privacy]
framework = "{framework}"
{budget_name} = "{budget}"
neighbours = "{neighbours}"
{charge}
[geography]
file = "blocks.csv"
column = "block"
levels = {{ county = 1, block = 4 }}
bypass = {bypass}
[schema.attributes]
race = ["a", "b", "c"]
sex = ["f", "m"]
[schema.recodes.some]
attribute = "race"
groups = {{ ab = ["a", "b"], c = ["c"] }}
[strategy]
queries = {{ total = "1/4", race = "1/4", detailed = "1/2" }}
levels = {{ county = "1/3", block = "2/3" }}
[select.detail]
level = "block"
versions = ["total", "some", "race * sex"]
thresholds = [0, 3, 6]
share = "1/5"
choice_share = "1/2"
[input]
file = "persons.csv"
form = "microdata"
geocode = "block"
[postprocess]
solver = "batched"
[publish]
margins = false
microdata = false
"""


_LEDGER: Final = "ledger.db"
_OF_KIND: Final = "a way to draw"

_KIND: Final = """
name = "tried"
[privacy]
rho = "1"
dataset = "nobody"
[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, block = 4 }
[schema.attributes]
race = ["a", "b", "c"]
sex = ["f", "m"]
work = ["no", "yes"]
[strategy.levels]
county = "1/2"
block = "1/2"
[input]
file = "persons.csv"
form = "microdata"
geocode = "block"
[publish]
margins = false
microdata = false
"""
_SERIES: Final = """
[series]
name = "tried"
from = 2031
to = 2032
spells = 2
[strategy.queries]
total = "1/2"
"race * sex" = "1/2"
"""
_CHOSEN: Final = """
[marginals.choose]
share = "1/10"
attributes_share = "1/10"
"""
_POSITIVE: Final = """
[strategy.queries]
total = "1/2"
detailed = { share = "1/2", where = "parent positive" }
"""


@dataclass(frozen=True)
class Trial:
    """A privacy definition under which a whole run is audited."""

    framework: str
    neighbours: str
    bypass: bool
    budget: Fraction = Fraction(1)

    @property
    def subject(self) -> str:
        """What a finding on this trial is about."""
        return f"{self.framework}, {self.neighbours}{', bypassing' if self.bypass else ''}"


@dataclass(frozen=True)
class TrialKind:
    """A way to draw that is audited by a whole run.

    Attributes:
        subject: what a finding on it is about.
        spec: what its spec has beside `_KIND`.
        feature: the feature that has it; "" for the core.
        periods: the releases that are made, one after the other.
    """

    subject: str
    spec: str
    feature: str = ""
    periods: tuple[str | None, ...] = (None,)


KINDS: Final = (
    TrialKind("a series of two periods", _SERIES, "years", ("2031", "2032")),
    TrialKind("a private choice of pairs", _CHOSEN, "marginals"),
    TrialKind('where = "parent positive"', _POSITIVE),
)

QUICK: Final = (Trial("zcdp", "change-one", bypass=False), Trial("pure", "add-remove", bypass=True))
FULL: Final = tuple(Trial(f, n, bypass=b) for f in FRAMEWORKS for n in NEIGHBOURS for b in (False, True))


def whole_findings(*, quick: bool) -> Iterator[Finding]:
    """Audit a run of each trial with the second program, and its ledger; `quick`: of two, and not of eight."""
    for trial in QUICK if quick else FULL:
        with alone() as folder:
            yield from _tried(folder, trial)
    yield from kind_findings(KINDS)


def kind_findings(kinds: Sequence[TrialKind]) -> Iterator[Finding]:
    """Audit a run of each kind with `verify` and the second program."""
    for kind in kinds:
        if kind.feature in installed_slots().missing.values():
            yield certain(GROUP, _OF_KIND, kind.subject, [], well=f"not tested: {kind.feature} is not installed")
            continue
        with alone() as folder:
            yield _finding_of_kind(folder, kind)


@contextmanager
def alone() -> Iterator[Path]:
    """A folder of its own, with settings of its own, and one thread."""
    with (
        tempfile.TemporaryDirectory(prefix="spinewise-audit-", dir=scratch()) as folder,
        own_settings(Path(folder)),
        threadpool_limits(1),
    ):
        yield Path(folder)


def _finding_of_kind(folder: Path, kind: TrialKind) -> Finding:
    """Run a kind, verify each release, and let the second program judge it with its key and ledger."""
    open_made_up(folder / _LEDGER, "zcdp", "change-one", Fraction(16))
    spec = folder / "tried.toml"
    spec.write_text(_KIND + kind.spec, encoding="utf-8")
    _write_people(folder, 25, "race,sex,work", lambda block, one: f"{_cell(block, one)},{('no', 'yes')[one % 5 < 3]}")
    problems, checks = [], 0
    key = folder / "tried.key"
    MasterKey.generate().write(key)
    for period in kind.periods:
        try:
            root = runs.run_release(_checked(spec, folder / "out", key, period), Silent())
            problems += verify_release(RunDirectory(root), 1, Silent())
        except SpinewiseError as error:
            problems.append(f"a sound run failed: {error}")
            break
        wrong, n = _judged(root, key)
        problems, checks = problems + wrong, checks + n
    return certain(GROUP, _OF_KIND, kind.subject, map(str, problems), well=f"{checks} checks passed")


def _judged(root: Path, key: Path) -> tuple[list[str], int]:
    """What the second program finds wrong with a release by its key and ledger, and how many checks there were."""
    found = list(independent_findings(root, key, os.environ["SPINEWISE_LEDGER"]))
    return [f"{one.check}, {one.subject}: {one.detail}" for one in found if not one.passed], len(found)


def _tried(folder: Path, trial: Trial) -> Iterator[Finding]:
    ledger, key = folder / _LEDGER, folder / "first.key"
    terms = trial.framework, trial.neighbours
    open_made_up(ledger, *terms, 16 * trial.budget)  # a fault that costs too much is to be seen, not refused
    spec = written(folder, trial, 'dataset = "nobody"')
    MasterKey.generate().write(key)
    try:
        root = runs.run_release(_checked(spec, folder / "first", key), Silent())
    except SpinewiseError as error:
        yield certain(GROUP, "run", trial.subject, [f"a sound run failed: {error}"])
        return
    wrong, n = _judged(root, key)
    yield certain(GROUP, "a pipeline and a choice", trial.subject, wrong, well=f"{n} checks passed")
    yield certain(GROUP, "ledger", trial.subject, _ledger_problems(spec, folder, ledger, trial))


def open_made_up(ledger: Path, framework: str, neighbours: str, budget: Fraction) -> None:
    """Make a ledger with the dataset of made-up records."""
    with Ledger.open(str(ledger), create=True) as opened:
        opened.open_dataset("nobody", population="made up", framework=framework, budget=budget, neighbours=neighbours)


def _ledger_problems(spec: Path, folder: Path, ledger: Path, trial: Trial) -> list[str]:
    """Whether all was charged, and a run beyond another ledger's budget is refused before it has drawn anything."""
    _, before = read_ledger(str(ledger))
    spent = sum((Fraction(event["cost"]) for event in before if event["kind"] == "charge"), Fraction(0))
    problems = [] if spent == trial.budget else [f"a run that costs {trial.budget} was charged {spent}"]
    small = folder / "small.db"
    open_made_up(small, trial.framework, trial.neighbours, trial.budget / 2)
    os.environ["SPINEWISE_LEDGER"] = str(small)
    key = folder / "second.key"
    MasterKey.generate().write(key)
    try:
        root = runs.run_release(_checked(spec, folder / "second", key), Silent())
        problems.append("a run beyond the budget was not refused")
    except BudgetRefusedError:
        root = folder / "second" / "tried"
    folders = ("measurements", "selected")
    drawn = [path for name in folders for path in (RunDirectory(root).public / name).rglob("*.parquet")]
    if drawn:
        problems.append(f"a run that the ledger refuses has drawn {len(drawn)} measurements")
    _, after = read_ledger(str(small))
    if any(event["kind"] in ("charge", "commit") for event in after):
        problems.append("a run that the ledger refuses was charged all the same")
    return problems


def written(folder: Path, trial: Trial, charge: str, blocks: int = 25) -> Path:
    """Write the trial's files and spec: blocks with 0 to 12 persons, one of them alone in its county.

    Args:
        folder: where to.
        trial: the privacy definition.
        charge: the line of the spec that names the dataset, or a test key.
        blocks: how many there are, up to 1000.
    """
    _write_people(folder, blocks, "race,sex", _cell)
    path = folder / "tried.toml"
    content = _SPEC.format(
        framework=trial.framework,
        budget_name=BUDGET_NAMES[trial.framework],
        budget=trial.budget,
        neighbours=trial.neighbours,
        bypass=str(trial.bypass).lower(),
        charge=charge,
    )
    path.write_text(content, encoding="utf-8")
    return path


def _cell(block: int, person: int) -> str:
    """Race and sex of a block's person."""
    return f"{'abc'[(block + person) % 3]},{'fm'[person % 2]}"


def _write_people(folder: Path, blocks: int, columns: str, cell: Callable[[int, int], str]) -> None:
    """Write blocks.csv, the last one alone in its county, and persons.csv: 0 to 12 persons in each."""
    codes = [*(f"A{number:03d}" for number in range(blocks - 1)), "B001"]
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{code}\n" for code in codes), encoding="utf-8")
    persons = [f"{code},{cell(number, person)}\n" for number, code in enumerate(codes) for person in range(number % 13)]
    (folder / "persons.csv").write_text(f"block,{columns}\n" + "".join(persons), encoding="utf-8")


def _checked(spec: Path, out: Path, key: Path, period: str | None = None) -> CheckedRequest:
    """A run with a key of its own, whatever key the user's settings name."""
    return check_request(Request(spec, out, data=None, workers=1, key=KeySource(key), period=period))


@contextmanager
def own_settings(folder: Path) -> Iterator[None]:
    """Name the trial's own ledger, and a folder of its own for what is remembered of ledgers."""
    own = {"SPINEWISE_LEDGER": str(folder / _LEDGER), "SPINEWISE_STATE": str(folder / "state")}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
