"""Speed and memory of exact discrete Gaussian noise: Spinewise beside OpenDP, on one core, in one run.

    python benchmarks/bench_noise.py [--json PATH] [--repeats N]

Each row is a process of its own. Spinewise's speed includes all of it: key derivation, keystream, look-up. The time to
build the table (once for each sigma and process) is shown apart. Speeds are medians over the repeats, by processor time
(both use one thread), so that other work on the machine matters less; memory is the peak of the whole process,
interpreter and libraries included, while it draws 100,000.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

SIGMAS = (1, 10, 100, 10_000)
LIBRARIES = ("spinewise", "opendp")
MEMORY_DRAWS = 100_000
SPEED_DRAWS = {"spinewise": 10_000_000, "opendp": 50_000}


def spinewise_draw(sigma: int) -> Callable[[int], object]:
    """Draws a number of discrete Gaussians with Spinewise."""
    from pipeline.privacy.budget import NoiseSpec
    from pipeline.privacy.keys import MasterKey
    from pipeline.privacy.noise.sampler import sampler_for

    key = MasterKey.from_text("insecure-test:1").stream_key(("benchmark",), "block", "total")
    sampler = sampler_for(NoiseSpec("discrete_gaussian", Fraction(sigma) ** 2))
    return lambda count: sampler.draw(key, 0, count)


def opendp_draw(sigma: int) -> Callable[[int], object]:
    """Draws a number of discrete Gaussians with OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")

    def draw(count: int) -> object:
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=count), dp.l2_distance(T="f64")
        return dp.m.make_gaussian(*space, scale=float(sigma))([0] * count)

    return draw


def measure(library: str, sigma: int, repeats: int) -> dict[str, float]:
    """One row, in this process."""
    prepare = spinewise_draw if library == "spinewise" else opendp_draw
    prepare(2)  # imports
    started = time.process_time()
    draw = prepare(sigma)
    built = time.process_time() - started
    draw(MEMORY_DRAWS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
    count = SPEED_DRAWS[library]
    speeds = []
    for _ in range(repeats):
        started = time.process_time()
        draw(count)
        speeds.append(count / (time.process_time() - started))
    return {"draws_per_second": statistics.median(speeds), "build_seconds": built, "peak_mib": peak}


def measure_apart(library: str, sigma: int, repeats: int) -> dict[str, float]:
    """One row, in a new process."""
    command = [sys.executable, __file__, "--row", library, str(sigma), "--repeats", str(repeats)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, float] = json.loads(result.stdout)
    return row


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description="Speed and memory of exact noise, Spinewise beside OpenDP.")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="timed repeats of each row (default 5)")
    parser.add_argument("--row", nargs=2, metavar=("LIBRARY", "SIGMA"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measure(options.row[0], int(options.row[1]), options.repeats)))
        return

    rows = {s: {library: measure_apart(library, s, options.repeats) for library in LIBRARIES} for s in SIGMAS}
    setting = {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "opendp": version("opendp"),
        "machine": platform.machine(),
        "draws": SPEED_DRAWS,
        "repeats": options.repeats,
    }
    print(f"Exact discrete Gaussian noise, one core; OpenDP {setting['opendp']}, medians of {options.repeats}")
    print(f"{'sigma':>7} {'Spinewise':>12} {'OpenDP':>12} {'ratio':>7} {'table':>9} {'peak memory, MiB':>20}")
    print(f"{'':>7} {'million/s':>12} {'million/s':>12} {'':>7} {'seconds':>9} {'Spinewise':>11} {'OpenDP':>8}")
    for sigma, row in rows.items():
        ours, theirs = row["spinewise"], row["opendp"]
        speeds = ours["draws_per_second"] / 1e6, theirs["draws_per_second"] / 1e6
        print(
            f"{sigma:>7} {speeds[0]:>12.1f} {speeds[1]:>12.3f} {speeds[0] / speeds[1]:>7.0f} "
            f"{ours['build_seconds']:>9.3f} {ours['peak_mib']:>11.0f} {theirs['peak_mib']:>8.0f}"
        )
    if options.json:
        options.json.write_text(json.dumps({"setting": setting, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
