"""Makes the files of survey.toml: 100,000 made-up persons, each of whom randomises an answer and sends the report.

    python examples/survey_reports.py DIRECTORY

Writes blocks.csv and reports.csv. In a real survey only the reports arrive; the answers stay on the devices.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from spinewise.collect import SystemBytes, mechanism_of

#: Of all answers: never, once, often. Districts differ.
SHARES = np.array([6.0, 3.0, 1.0])
PERSONS_IN_A_BLOCK = 50


def main(folder: Path) -> None:
    """Write the files."""
    rng = np.random.default_rng()
    mechanism = mechanism_of("direct_encoding", {"values": "3", "epsilon": "2", "memoised": "yes"})
    districts = [f"{county}{district:02d}" for county in "ABCD" for district in range(20)]
    blocks = [f"{district}{block:02d}" for district in districts for block in range(25)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{block}\n" for block in blocks))
    with (folder / "reports.csv").open("w") as file:
        file.write("block,report,respondent\n")
        number = 0
        for _ in districts:
            shares = rng.dirichlet(20 * SHARES / SHARES.sum())
            for _ in range(25):
                answers = rng.choice(3, rng.poisson(PERSONS_IN_A_BLOCK), p=shares)  # which nobody else ever has
                for report in mechanism.encode(mechanism.randomise(answers, SystemBytes())):
                    file.write(f"{blocks[number]},{report},{rng.integers(1 << 62):x}\n")
                number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
