"""What a charge costs in a ledger of 100 and of 10,000 charges, and what it costs to verify all of it.

    python benchmarks/bench_ledger.py [--charges 100 10000] [--periods 3650] [--url postgresql://...] [--json PATH]

Each charge is of a run of six measurements with its key, as a run makes it: open the ledger, reserve, commit, close.
The ledger is in memory where there is such a folder, so that a disk that does other work is not measured. The exit
status is 1 where a charge in the longest ledger takes 0.1 s or more of CPU, or `verify` 10 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from pipeline.model.series import FIRST
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.dataset import SeriesUse
from pipeline.privacy.ledger.events import Group, KeyUse, Moved
from pipeline.privacy.ledger.ledger import Ledger

REPEAT = 15
LIMIT_CHARGE, LIMIT_VERIFY = 0.1, 10.0  # CPU seconds
AT_ONCE = 500
LAYOUT = "a" * 64


def charge_of(run: int) -> Charge:
    """A run of six measurements, whose key fifty others also use over the same records."""
    groups = tuple(
        Group(f"level{level}", "total", "discrete_gaussian", Fraction(1000 + run % 7), 5) for level in range(6)
    )
    key = KeyUse(f"{run // 50:064x}", "", LAYOUT, f"{run // 50:064x}")
    return Charge("people", f"{run:064x}", f"answer {run}", "change-one", groups, key=key)


def period_of(number: int, periods: int) -> Charge:
    """A day of a series, each with a key and a release before of its own."""
    distance = Fraction(7, 2)
    group = Group("county", "total", "discrete_gaussian", distance * 1000, 5, Moved.by(series=distance))
    place = f"day {number}", f"{number:064x}" if number else FIRST
    use, run = SeriesUse("daily", LAYOUT, periods, number, *place), f"{number + (1 << 200):064x}"
    key = KeyUse(run, "", LAYOUT, run)
    return Charge("people", run, f"daily-{number}", "change-one", (group,), key=key, series=use)


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds and CPU seconds."""
    elapsed, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - elapsed, time.process_time() - cpu


def measured_series(url: str, state: Path, periods: int) -> dict[str, float]:
    """CPU seconds of the last charges of a series in a ledger of its own, and of its verification."""
    with Ledger.open(url, create=True, state=state) as ledger:
        ledger.open_dataset("people", population="all", framework="zcdp", budget=Fraction(1), neighbours="change-one")
    for start in range(0, periods - REPEAT, AT_ONCE):
        with Ledger.open(url, state=state) as ledger:
            charges = [period_of(number, periods) for number in range(start, min(start + AT_ONCE, periods - REPEAT))]
            ledger.commit(ledger.reserve(*charges))

    def charge(number: int) -> None:
        with Ledger.open(url, state=state) as ledger:
            ledger.commit(ledger.reserve(period_of(number, periods)))

    times = [measured(lambda number=number: charge(number))[1] for number in range(periods - REPEAT, periods)]  # type: ignore[misc]
    with Ledger.open(url, state=state) as ledger:
        _, verify = measured(ledger.verify)
        drawn = ledger.dataset("people").periods["daily"]
    assert len(drawn) == periods
    return {"periods": periods, "charge_cpu": statistics.median(times), "verify_cpu": verify}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--charges", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--periods", type=int, default=3650, help="of a series, one charge a day")
    parser.add_argument("--url", help="of an empty PostgreSQL database; by default a file of SQLite")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        state, url = Path(folder) / "state", options.url or str(Path(folder) / "ledger.sqlite")

        def charge(*runs: int) -> None:
            with Ledger.open(url, state=state) as ledger:
                for run in runs:
                    ledger.commit(ledger.reserve(charge_of(run)))

        with Ledger.open(url, create=True, state=state) as ledger:
            ledger.open_dataset(
                "people", population="all", framework="zcdp", budget=Fraction(10**6), neighbours="change-one"
            )
        daily: dict[str, float] = {}
        if options.url is None:
            daily = measured_series(f"{url}-daily", state, options.periods)
        done, rows = 0, []
        for target in sorted(options.charges):
            for start in range(done, target, AT_ONCE):
                with Ledger.open(url, state=state) as ledger:
                    charges = [charge_of(run) for run in range(start, min(start + AT_ONCE, target))]
                    reservation = ledger.reserve(*charges)
                    ledger.commit(reservation)
            times = [measured(lambda run=run: charge(run)) for run in range(target, target + REPEAT)]  # type: ignore[misc]
            done = target + REPEAT
            with Ledger.open(url, state=state) as ledger:
                first = measured(ledger.verify)
            rows.append(
                {
                    "charges": target,
                    "charge_seconds": statistics.median(time for time, _ in times),
                    "charge_cpu": statistics.median(cpu for _, cpu in times),
                    "verify_seconds": first[0],
                    "verify_cpu": first[1],
                }
            )
    for row in rows:
        print(
            f"{row['charges']:>7,} charges: a charge {row['charge_seconds']:.4f} s (CPU {row['charge_cpu']:.4f}), "
            f"verify {row['verify_seconds']:.2f} s (CPU {row['verify_cpu']:.2f})"
        )
    if daily:
        print(
            f"{daily['periods']:>7,} periods of a series: the last charges CPU {daily['charge_cpu']:.4f} s, verify CPU "
            f"{daily['verify_cpu']:.2f} s"
        )
    ratio = rows[-1]["charge_cpu"] / rows[0]["charge_cpu"]
    print(f"a charge in the longest ledger takes {ratio:.2f} times the CPU of one in the shortest")
    if options.json:
        options.json.write_text(
            json.dumps({"rows": rows, "ratio": ratio, "series": daily}, indent=1) + "\n", encoding="utf-8"
        )
    limits = [*rows, *([daily] if daily else [])]
    return int(any(row["charge_cpu"] >= LIMIT_CHARGE or row["verify_cpu"] >= LIMIT_VERIFY for row in limits))


if __name__ == "__main__":
    raise SystemExit(main())
