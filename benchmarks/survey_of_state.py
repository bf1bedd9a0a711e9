"""A survey of the example state in which everybody randomises an answer: files, spec, and what nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.example.example import LEVELS, block_codes
from features.example.population import populate
from features.local.collect.bits import KeyedBytes
from features.local.collect.mechanism import ListedMechanism
from features.local.collect.parameters import mechanism_of
from features.local.collected import CollectedAnswers
from geography.build import spine_from_prefixes
from geography.spine import Spine

PEOPLE: Final = 1_000_000

SPEC: Final = """
name = "state"

[privacy]
framework = "local"

[collect]
mechanism = "{mechanism}"
parameters = {{ epsilon = "{epsilon}" }}
respondents = 40

[input]
file = "reports.parquet"
form = "reports"
geocode = "block"

[geography]
file = "blocks.parquet"
column = "block"
levels = {{ state = 2, county = 5, tract = 11, block_group = 12, block = 15 }}

[schema.attributes]
answer = [{answers}]

[publish]
replicates = 4
"""


@dataclass(frozen=True, eq=False)
class StateSurvey:
    """Who answers what where in the example state, before it is randomised.

    Attributes:
        spine: 25,000 blocks.
        collected: how answers are randomised.
        epsilon: of a report.
        truth: `(n_blocks, n_values)` true answers.
    """

    spine: Spine
    collected: CollectedAnswers
    epsilon: str
    truth: NDArray[np.int64]

    @property
    def reports(self) -> NDArray[np.int64]:
        """How many of each block."""
        return self.truth.sum(axis=1)

    def write(self, folder: Path, seed: int) -> Path:
        """Write the blocks, the randomised reports and the spec; its path is returned."""
        folder.mkdir(parents=True, exist_ok=True)
        mechanism, n_values = self.collected.mechanism, self.truth.shape[1]
        blocks, values = np.nonzero(self.truth)
        numbers = self.truth[blocks, values]
        sent = mechanism.randomise(np.repeat(values, numbers), KeyedBytes(b"a survey of the state %8d" % seed))
        codes = self.spine.leaf_level.geocodes[np.repeat(blocks, numbers)]
        pq.write_table(
            pa.table({"block": codes.tolist(), "report": mechanism.encode(sent)}), folder / "reports.parquet"
        )
        pq.write_table(self.spine.to_table(), folder / "blocks.parquet")
        answers = ", ".join(f'"a{number}"' for number in range(n_values))
        spec = folder / "state.toml"
        spec.write_text(SPEC.format(mechanism=mechanism.name, epsilon=self.epsilon, answers=answers))
        return spec


def state_survey(mechanism: str, n_values: int, epsilon: str, seed: int) -> StateSurvey:
    """The people of the example state answer.

    How depends on a person's age and group: the shares of the answers differ between the 16 of them, and so between
    areas as much as these do.

    Args:
        mechanism: of reports.
        n_values: answers there are.
        epsilon: of a report.
        seed: of the state, of its people and of their answers.
    """
    rng = np.random.default_rng(seed)
    spine = spine_from_prefixes(block_codes(seed), LEVELS)
    people = populate(spine, PEOPLE, seed).toarray()
    parameters = {"epsilon": epsilon} | ({} if mechanism == "randomised_response" else {"values": str(n_values)})
    randomiser = mechanism_of(mechanism, parameters)
    assert isinstance(randomiser, ListedMechanism)
    # Falling shares of answers, from common to rare.
    usual = 1 / np.arange(1, n_values + 1)
    shares = rng.dirichlet(8 * usual / usual.sum() + 0.1, size=people.shape[1])
    truth = np.zeros((len(people), n_values), dtype=np.int64)
    for cell, of_cell in enumerate(shares):
        truth += rng.multinomial(people[:, cell], of_cell)
    return StateSurvey(spine, CollectedAnswers(randomiser), epsilon, truth)
