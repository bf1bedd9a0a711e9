"""What an attack achieves is what theory says; with half the noise the test of the odds fails."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.small import run
from scipy.stats import norm

from auditor.release import Release
from features.audit import whole_trial
from features.audit.attack import attack, best_guess, membership
from features.audit.finished import RECONSTRUCTION, attack_findings
from pipeline.privacy.noise.sampler import Sampler


def released(folder: Path, budget: Fraction = Fraction(1)) -> Path:
    folder.mkdir()
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


def test_what_is_achieved_is_written_closed_to_others(sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "restricted" / "audit"
    before = os.umask(0)
    try:
        assert all(found.passed for found in attack_findings(sound, folder))
    finally:
        os.umask(before)
    report = folder / RECONSTRUCTION
    assert [stat.S_IMODE(path.stat().st_mode) for path in (report, folder, folder.parent)] == [0o600, 0o700, 0o700]
    (attacked,) = json.loads(report.read_text())
    assert "at most" in attacked["membership"]["words"]


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
    few = [due for due in dues if len(due.geounits.codes) == 1]
    alone = membership(release, universe, few, none, np.random.default_rng(1))
    assert alone.passed
    assert not alone.tested
