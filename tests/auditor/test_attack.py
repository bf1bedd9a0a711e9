"""What an attack achieves is what theory says; with half the noise the test of the odds fails."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.command import feature_module
from releases.small import run
from scipy.stats import norm

from auditor.accounting import best_guess, epsilon_of, losses_epsilon, rho_of, zcdp_epsilon
from auditor.attack import attack, membership
from auditor.files import read_measured
from auditor.program import main
from auditor.reading.findings import FormError
from auditor.release import Release
from pipeline.privacy.accounting.conversion import zcdp_epsilon as first_epsilon
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanisms import MECHANISMS, mechanism
from pipeline.privacy.noise.sampler import Sampler


def released(folder: Path, budget: Fraction = Fraction(1)) -> Path:
    folder.mkdir()
    whole_trial = feature_module("features.audit.whole_trial")
    trial = whole_trial.Trial("zcdp", "change-one", bypass=False, budget=budget)
    return run(whole_trial.written(folder, trial, 'key = "insecure-test:3"', blocks=200), folder / "out")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(tmp_path_factory.mktemp("attacked") / "in")


def halved(patch: pytest.MonkeyPatch) -> None:
    """Half the scale: what is drawn is divided by two."""
    draw: Callable[..., np.ndarray] = Sampler.draw
    patch.setattr(Sampler, "draw", lambda self, *place: np.rint(draw(self, *place) / 2).astype(np.int64))


@pytest.mark.slow
def test_half_the_noise_is_guessed_too_well(sound: Path, tmp_path: Path) -> None:
    """The share of right guesses stays below the limit of the noise stated; with half of it, it cannot be chance."""
    release = Release(sound)
    found = attack(release, release.form.universes[0])
    assert found.trials.passed
    with pytest.MonkeyPatch.context() as patch:
        halved(patch)
        faulty = Release(released(tmp_path / "in"))
        worse = attack(faulty, faulty.form.universes[0])
    assert not worse.trials.passed
    assert worse.trials.value is not None
    assert worse.trials.value < 1e-6
    assert worse.membership.right > found.membership.right
    assert worse.membership.right > worse.membership.best + 0.05, "more than any attack on the noise stated"


@pytest.mark.slow
def test_what_the_noise_takes_from_the_attacker(sound: Path, tmp_path: Path) -> None:
    """Without noise everything is right, blind guesses are the floor, and a large budget protects little."""
    release = Release(sound)
    found = attack(release, release.form.universes[0]).reconstruction
    assert found.without_noise == 1.0
    assert found.linear is not None
    assert found.published is not None
    assert found.linear < 0.9
    assert found.published < 0.95
    large = Release(released(tmp_path / "in", Fraction(10**5)))
    plain = attack(large, large.form.universes[0])
    assert plain.reconstruction.linear == 1.0
    assert plain.membership.right == 1.0


def test_the_best_guess_of_gaussian_noise_is_that_of_a_normal_test() -> None:
    """Two normal distributions at the distance d are told apart in Phi(d / 2) of cases."""
    uses = [("discrete_gaussian", Fraction(50), 2), ("discrete_gaussian", Fraction(30), 2)]
    distance = float(2 / Fraction(50) + 2 / Fraction(30)) ** 0.5
    assert best_guess(uses) == pytest.approx(norm.cdf(distance / 2), abs=1e-3)


@pytest.mark.parametrize(("rho", "delta"), [("1/10", "1/100000"), ("2", "1/10000000000"), ("263/100", "1/1000000")])
def test_epsilon_is_that_of_the_first_program(rho: str, delta: str) -> None:
    assert float(zcdp_epsilon(Fraction(rho), Fraction(delta))) == pytest.approx(
        first_epsilon(Fraction(rho), Fraction(delta)), rel=1e-9
    )
    uses = [("discrete_gaussian", 8 / Fraction(rho), 2), ("discrete_gaussian", 4 / Fraction(rho), 2)]
    between = losses_epsilon(uses, Fraction(delta))
    stated = pld_epsilon([(DiscreteGaussian(scale), 2) for _, scale, _ in uses], Fraction(delta))
    assert between is not None
    assert stated is not None
    assert between[0] - 1e-3 <= stated <= between[1] + 0.01


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_mechanism_costs_what_the_first_program_says(name: str) -> None:
    for scale, moved in ((Fraction(1, 5), 2), (Fraction(7, 3), 1)):
        theirs = mechanism(name, scale)
        assert rho_of((name, scale, moved)) == theirs.rho(moved)
        assert name == "discrete_gaussian" or theirs.epsilon(moved) == epsilon_of((name, scale, moved))


@pytest.mark.parametrize("chooser", ["exponential", "permute_and_flip"])
def test_a_choice_adds_its_epsilon_at_most(chooser: str) -> None:
    noise, choice = ("discrete_gaussian", Fraction(80), 2), (chooser, Fraction(1, 10), 2)
    between = losses_epsilon([noise, choice], Fraction(1, 10**5))
    stated = pld_epsilon([(mechanism(*one[:2]), one[2]) for one in (noise, choice)], Fraction(1, 10**5))
    alone = losses_epsilon([noise], Fraction(1, 10**5))
    assert between is not None
    assert stated is not None
    assert alone is not None
    assert between[0] - 1e-3 <= stated <= between[1] + 0.01
    assert between[1] == pytest.approx(alone[1] + 0.2, abs=0.01)


def test_the_program_alone(sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "tried"))
    assert main([str(root), "--reconstruct"]) == 0
    said = capsys.readouterr().out
    assert "FAILED" not in said
    report = root / "restricted" / "audit" / "reconstruction.json"
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    (attacked,) = json.loads(report.read_text())
    assert "at most" in attacked["membership"]["words"]
    (root / "public" / "report.html").write_text("another")
    (root / "public" / "tables" / "manifest.old").write_text("more")
    assert main([str(root)]) == 1
    said = capsys.readouterr().out
    assert "report.html is not the file that is listed" in said
    assert "tables/manifest.old is not listed" in said
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_numbers_of_one_area_at_the_code_of_another_are_not_taken(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows of the same answers, in another order: the noise would be taken from the truth of other areas."""
    release = Release(sound)
    due = next(due for due in release.due if len(due.level.codes) > 1)
    codes, values = read_measured(due.path)
    monkeypatch.setattr("auditor.release.read_measured", lambda _: (codes[::-1], values))
    with pytest.raises(FormError, match="rows or answers are not those"):
        release.residuals(due)


def test_guesses_by_chance_are_no_finding_and_others_are(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small epsilon half of all guesses are right, give or take: more than the bound, and yet chance."""
    release = Release(sound)
    universe, rng = release.form.universes[0], np.random.default_rng(3)
    (account,) = release.manifest["accounts"]
    monkeypatch.setitem(account["record"], "epsilon", "0.0001")
    dues = list(release.due)
    exact = {due.name: release.residuals(due) for due in dues}
    found = []
    for seed in range(6):
        wide = {
            name: (rng.normal(0, 1e5, noise.shape).round().astype(np.int64), rows)
            for name, (noise, rows) in exact.items()
        }
        found.append(membership(release, universe, dues, wide, np.random.default_rng(seed)))
    assert any(one.right > one.bound for one in found)
    assert all(one.passed for one in found)
    none = {name: (np.zeros_like(noise), rows) for name, (noise, rows) in exact.items()}
    plain = membership(release, universe, dues, none, np.random.default_rng(1))
    assert plain.tested
    assert plain.right == 1.0
    assert not plain.passed
    few = [due for due in dues if len(due.level.codes) == 1]
    alone = membership(release, universe, few, none, np.random.default_rng(1))
    assert alone.passed
    assert not alone.tested
