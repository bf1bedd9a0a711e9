"""The tests of the installed randomisers, which protect answers on a respondent's device; features have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from features.audit.findings import Finding, certain, statistical
from pipeline.spec.slots import installed_slots

_GROUP = "randomisers"


@runtime_checkable
class HasRandomisers(Protocol):
    """Keys of a feature that has randomisers."""

    def randomiser_trials(self, seed: int) -> Iterable[Mapping[str, Any]]:
        """Test each of them, with noise of a public test key; the same seed gives the same results.

        Returns:
            Of each test the arguments of `statistical` but for the group, or, with `problems`, of `certain`.
        """


def randomiser_findings(seed: int) -> Iterator[Finding]:
    """Test every installed randomiser: what is drawn, and the bound that is stated.

    Args:
        seed: of the public test key that the reports are drawn with; the same gives the same findings.
    """
    features: Sequence[object] = installed_slots().filled
    for keys in features:
        for one in keys.randomiser_trials(seed) if isinstance(keys, HasRandomisers) else ():
            yield certain(_GROUP, **one) if "problems" in one else statistical(_GROUP, **one)
