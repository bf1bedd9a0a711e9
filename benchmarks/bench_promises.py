"""What signing, receipts and the separate process add to a run: CPU and elapsed seconds, on the synthetic state.

    python benchmarks/bench_promises.py [--people 1000000] [--json PATH]

The example is counted, charged and measured: in one process, in a process of its own, and there with a ledger. Then
the same release is made whole, and signed. What one way takes more than the one before is what is added; the comparison
with the truth, at a run's end, starts a second process, whose start is measured by itself. The figures hold on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from bench_fixed_cost import adopt_orphans, cost_of

from pipeline.privacy.ledger.ledger import Ledger

#: Runs a spec up to the end of its measurements; argv: spec, out, "here" or "apart".
MEASURING = """
import sys
from contextlib import nullcontext
from pathlib import Path
from pipeline.execution.progress import Silent
from pipeline.execution.steps import perform_here
from pipeline.execution.threads import limit_threads
limit_threads()
from pipeline.runs.request import Request, check_request
checked = check_request(Request(Path(sys.argv[1]), Path(sys.argv[2]), None, 1))
if sys.argv[3] == "apart":
    from pipeline.runs.measured import measured_apart
    way = measured_apart(checked)
else:
    from pipeline.runs.run import MeasuredHere
    way = nullcontext(MeasuredHere(checked.keyholder()))
with way as measured:
    from pipeline.runs.run import release_run
    with release_run(checked, Silent(), perform_here, measured) as run:
        run.count()
        run.charge()
        run.measure()
"""
#: Starts the process that compares with the truth, and asks it nothing.
COMPARING = """
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import MeasuringProcess
import pipeline.runs.run
with MeasuringProcess(KeySource(), None) as process:
    process.identity()
"""
#: The same without the process.
IMPORTING = "import pipeline.confidential.process, pipeline.runs.run"
#: Signs a release; prints the seconds that this takes. argv: directory.
SIGNING = """
import sys, time
from pathlib import Path
from pipeline.release.layout import RunDirectory
from pipeline.signatures.signing_keys import SigningKey
from pipeline.signatures.statement import sign_release
key, run = SigningKey.generate("statistics.example/releases"), RunDirectory(Path(sys.argv[1]))
began = time.perf_counter(), time.process_time()
sign_release(run, key)
print(time.process_time() - began[1], time.perf_counter() - began[0])
"""


@dataclass(frozen=True)
class Seconds:
    """What something takes: of all cores together, and elapsed."""

    cpu: float
    elapsed: float

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.cpu - other.cpu, self.elapsed - other.elapsed)


def seconds_of(command: list[str], folder: Path, repeat: int) -> Seconds:
    """The least of some rounds."""
    found = []
    for _ in range(repeat):
        began = time.perf_counter()
        cost = cost_of(command, folder)
        found.append(Seconds(cost.cpu_seconds, time.perf_counter() - began))
    return Seconds(min(one.cpu for one in found), min(one.elapsed for one in found))


def charged(spec: Path, folder: Path) -> Path:
    """The spec with a dataset, and a ledger in the folder that `cost_of` makes the user's home."""
    state = folder / ".local" / "state" / "spinewise"
    with Ledger.open(str(state / "ledger.sqlite"), create=True, state=state) as ledger:
        ledger.open_dataset(
            "state", population="made up", framework="zcdp", budget=Fraction(1000), neighbours="change-one",
            exact=["state:total"],
        )  # fmt: skip
    path = spec.with_name("charged.toml")
    path.write_text(spec.read_text().replace("[privacy]\n", '[privacy]\ndataset = "state"\n', 1))
    return path


def measure(folder: Path, people: int, repeat: int) -> dict[str, Seconds]:
    """What was run -> what it takes."""
    spec = folder / "example" / "release.toml"
    entry = [sys.executable, "-m", "flows.entry"]
    subprocess.run([*entry, "example", str(spec.parent), "--people", str(people)], check=True, capture_output=True)
    with_ledger = charged(spec, folder)
    found: dict[str, Seconds] = {}
    for name, stated, way in (
        ("measured in one process", spec, "here"),
        ("measured in another", spec, "apart"),
        ("measured in another, charged", with_ledger, "apart"),
    ):
        rounds = []
        for number in range(repeat):
            out = folder / f"{name} {number}"
            rounds.append(seconds_of([sys.executable, "-c", MEASURING, str(stated), str(out), way], folder, 1))
        found[name] = Seconds(min(one.cpu for one in rounds), min(one.elapsed for one in rounds))
    found["imports"] = seconds_of([sys.executable, "-c", IMPORTING], folder, repeat)
    found["imports, and a process"] = seconds_of([sys.executable, "-c", COMPARING], folder, repeat)
    began = time.perf_counter()
    whole = cost_of([*entry, "run", str(spec), "--out", str(folder / "whole"), "--no-prefect"], folder)
    found["the whole run"] = Seconds(whole.cpu_seconds, time.perf_counter() - began)
    (root,) = (folder / "whole").iterdir()
    signed = [
        subprocess.run([sys.executable, "-c", SIGNING, str(root)], check=True, capture_output=True, text=True).stdout
        for _ in range(repeat)
    ]
    times = [tuple(map(float, line.split())) for line in signed]
    found["signing"] = Seconds(min(cpu for cpu, _ in times), min(elapsed for _, elapsed in times))
    return found


def added(found: dict[str, Seconds]) -> dict[str, Seconds]:
    """What each promise adds."""
    here, apart = found["measured in one process"], found["measured in another"]
    return {
        "the separate process": apart - here,
        "the second, for the comparison": found["imports, and a process"] - found["imports"],
        "ledger and receipts": found["measured in another, charged"] - apart,
        "signing": found["signing"],
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000, help="persons of the synthetic state")
    parser.add_argument("--repeat", type=int, default=3, help="rounds, of which the least counts")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), options.people, options.repeat)
    extra = added(found)
    total = Seconds(sum(one.cpu for one in extra.values()), sum(one.elapsed for one in extra.values()))
    rows = found | {f"+ {name}": one for name, one in extra.items()} | {"+ together (limit: 3)": total}
    if options.json is not None:
        options.json.write_text(json.dumps({name: asdict(one) for name, one in rows.items()}, indent=2) + "\n")
    print(f"{'':<34}{'CPU s':>8}{'elapsed s':>11}")
    for name, one in rows.items():
        print(f"{name:<34}{one.cpu:>8.2f}{one.elapsed:>11.2f}")


if __name__ == "__main__":
    main()
