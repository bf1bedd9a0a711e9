"""One epsilon stands for a release wherever it is named; another number is never shown beside it as if it were it."""

from __future__ import annotations

import math
import re

import pytest
from releases.command import needs
from releases.small import PEOPLE_EXACT, SPEC, write_town
from typer.testing import CliRunner

from features.registry import is_installed
from flows.cli import app
from pipeline.model.exact import headline
from pipeline.privacy.accounting.statement_models import odds
from pipeline.release.manifest import Manifest, read_manifest

CHANGES = (
    ('key = "insecure-test:1"', 'dataset = "town"'),
    ("replicates = 3", "replicates = 1"),
    ("[tables]", '[postprocess]\nsolver = "batched"\n\n[tables]'),
)


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, dict[str, str]]:
    """What each place says of one release; a universe without companions, so that the ledger counts the same."""
    folder = tmp_path_factory.mktemp("told")
    spec = write_town(folder, *CHANGES, spec=SPEC.split("[companions.units]", maxsplit=1)[0])
    ledger = str(folder / "ledger.db")
    exact = [word for subject in PEOPLE_EXACT for word in ("--exact", subject)]
    told("ledger", "open", "town", "--population", "people", "--rho", "2", "--ledger", ledger, *exact)
    ran = told("run", str(spec), "--out", str(folder / "out"), "--ledger", ledger, "--no-prefect")
    root = folder / "out" / "town"
    return read_manifest(root / "public" / "manifest.json"), {
        "run": ran,
        "plan": told("plan", str(spec)) if is_installed("plan") else "",
        "ledger": told("ledger", "show", "--ledger", ledger),
        "compare": told("compare", str(root), str(root)),
        "report": (root / "public" / "report.html").read_text() if is_installed("report") else "",
    }


@pytest.mark.parametrize(
    "place", ["run", *(pytest.param(one, marks=needs(one)) for one in ("plan", "report")), "ledger", "compare"]
)
def test_every_place_says_the_same_epsilon(said: tuple[Manifest, dict[str, str]], place: str) -> None:
    manifest, texts = said
    assert manifest.joint is not None
    expected = headline(manifest.joint.epsilon)
    larger = headline(manifest.privacy[0].epsilon)
    assert float(expected) < float(larger)
    text = re.sub(r"\s+", " ", texts[place])
    assert re.search(rf"(?:epsilon =?|ε =) ?{re.escape(expected)}(?![0-9])", text), text[-600:]
    assert larger not in text
    assert manifest.privacy[0].epsilon not in text
    assert manifest.joint.epsilon not in text or place == "report"


@needs("report")
def test_the_report_says_how_much_better_somebody_can_guess(said: tuple[Manifest, dict[str, str]]) -> None:
    """By the factor exp(epsilon), computed again from the manifest; never less than that."""
    manifest, texts = said
    assert manifest.joint is not None
    found = re.search(r"at most <b>([0-9,.]+)-fold</b>", texts["report"])
    assert found is not None
    most = math.exp(float(manifest.joint.epsilon))
    assert most <= float(found[1].replace(",", "")) <= 1.11 * most


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [("0", "1"), ("1.5", "4.5"), ("0.6931", "2.0"), ("1000", "10^435"), ("1e9", "10^434294482"), ("Infinity", "")],
)
def test_odds_are_rounded_up(epsilon: str, factor: str) -> None:
    assert odds(epsilon) == factor
