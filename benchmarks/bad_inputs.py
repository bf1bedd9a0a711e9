"""Bad inputs by the ten thousand, of every kind that a user can give, see tests/oracles/bad_inputs.py.

    nice .venv/bin/python benchmarks/bad_inputs.py --cases 15000 --first 0 --out a.json
    nice .venv/bin/python benchmarks/bad_inputs.py --cases 15000 --first 15000 --out b.json

Prints how many were refused and accepted, and each fault with the kind and number that make it again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("", "tests")]

from oracles.bad_inputs import Tally, as_json, frame, judge_all  # noqa: E402 - after the path to it


def write(out: Path | None, tally: Tally) -> None:
    """What has been judged so far, to a file."""
    if out is not None:
        out.write_text(as_json(tally), "utf-8")


def main() -> int:
    """Judge so many inputs; the exit status is 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = judge_all(asked.first, asked.cases, Path(folder), lambda tally: write(asked.out, tally))
    write(asked.out, tally)
    print(frame(tally).to_string())
    for fault in tally.faults:
        print(f"{fault.kind} {fault.number}: {fault.what}: {fault.detail}")
    return int(bool(tally.faults))


if __name__ == "__main__":
    sys.exit(main())
