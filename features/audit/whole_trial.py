"""Whole runs on made-up records with a ledger, audited by the second program, which computes everything itself.

A fault that a program shares with its own tests passes them: noise for a sensitivity of 1 instead of 2 has just the
scale that the same function says it should have. The second program shares nothing, and is asked here about one
pipeline and one private choice in each framework; and about the ledger, which must refuse before anything is drawn.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from threadpoolctl import threadpool_limits

from auditor.ledger import read_ledger
from features.audit.findings import Finding, certain
from features.audit.independent import GROUP, independent_findings
from features.audit.trials import scratch
from pipeline.confidential.custody import KeySource
from pipeline.errors import BudgetRefusedError, SpinewiseError
from pipeline.execution.progress import Silent
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.runs import run as runs
from pipeline.runs.request import CheckedRequest, Request, check_request

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


QUICK: Final = (Trial("zcdp", "change-one", bypass=False), Trial("pure", "add-remove", bypass=True))
FULL: Final = tuple(Trial(f, n, bypass=b) for f in FRAMEWORKS for n in NEIGHBOURS for b in (False, True))


def whole_findings(*, quick: bool) -> Iterator[Finding]:
    """Audit a run of each trial with the second program, and its ledger; `quick`: of two, and not of eight."""
    for trial in QUICK if quick else FULL:
        with (
            tempfile.TemporaryDirectory(prefix="spinewise-audit-", dir=scratch()) as folder,
            own_settings(Path(folder)),
        ):
            yield from _tried(Path(folder), trial)


def _tried(folder: Path, trial: Trial) -> Iterator[Finding]:
    ledger = folder / _LEDGER
    _opened(ledger, trial, 16 * trial.budget)  # a fault that costs too much is to be seen, not refused
    spec = written(folder, trial, 'dataset = "nobody"')
    with threadpool_limits(1):
        try:
            root = runs.run_release(_checked(spec, folder / "first", folder / "first.key"), Silent())
        except SpinewiseError as error:
            yield certain(GROUP, "run", trial.subject, [f"a sound run failed: {error}"])
            return
        found = list(independent_findings(root, folder / "first.key", str(ledger)))
        wrong = [f"{one.check}, {one.subject}: {one.detail}" for one in found if not one.passed]
        yield certain(GROUP, "a pipeline and a choice", trial.subject, wrong, well=f"{len(found)} checks passed")
        yield certain(GROUP, "ledger", trial.subject, _ledger_problems(spec, folder, ledger, trial))


def _opened(ledger: Path, trial: Trial, budget: Fraction) -> None:
    with Ledger.open(str(ledger), create=True) as opened:
        opened.open_dataset(
            "nobody", population="made up", framework=trial.framework, budget=budget, neighbours=trial.neighbours
        )


def _ledger_problems(spec: Path, folder: Path, ledger: Path, trial: Trial) -> list[str]:
    """Whether all was charged, and a run beyond another ledger's budget is refused before it has drawn anything."""
    _, before = read_ledger(str(ledger))
    spent = sum((Fraction(event["cost"]) for event in before if event["kind"] == "charge"), Fraction(0))
    problems = [] if spent == trial.budget else [f"a run that costs {trial.budget} was charged {spent}"]
    small = folder / "small.db"
    _opened(small, trial, trial.budget / 2)
    os.environ["SPINEWISE_LEDGER"] = str(small)
    try:
        root = runs.run_release(_checked(spec, folder / "second", folder / "second.key"), Silent())
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
    codes = [*(f"A{number:03d}" for number in range(blocks - 1)), "B001"]
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{block}\n" for block in codes), encoding="utf-8")
    persons = [
        f"{block},{'abc'[(number + person) % 3]},{'fm'[person % 2]}\n"
        for number, block in enumerate(codes)
        for person in range(number % 13)
    ]
    (folder / "persons.csv").write_text("block,race,sex\n" + "".join(persons), encoding="utf-8")
    path = folder / "tried.toml"
    content = _SPEC.format(
        framework=trial.framework,
        budget_name="rho" if trial.framework == "zcdp" else "epsilon",
        budget=trial.budget,
        neighbours=trial.neighbours,
        bypass=str(trial.bypass).lower(),
        charge=charge,
    )
    path.write_text(content, encoding="utf-8")
    return path


def _checked(spec: Path, out: Path, key: Path) -> CheckedRequest:
    """A run with a new key of its own, whatever key the user's settings name."""
    MasterKey.generate().write(key)
    return check_request(Request(spec, out, data=None, workers=1, key=KeySource(key)))


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
