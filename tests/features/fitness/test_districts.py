"""Plans of districts: their deviation, what it may truly be, majorities, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from features.fitness.district_plan import read_plan
from features.fitness.districts import drawn_populations, judged_plan, majorities, total_deviation
from geography.spine import Level, Spine
from pipeline.errors import InputError

SPINE = Spine(
    (
        Level("state", np.array(["s"]), np.array([-1])),
        Level("block", np.array(["s1", "s2", "s3", "s4"]), np.zeros(4, dtype=np.int64)),
    )
)


def test_total_deviation_by_hand() -> None:
    assert total_deviation(np.array([90, 100, 110])) == pytest.approx(20.0)
    assert total_deviation(np.array([[90, 110], [0, 0], [7, 7]])).tolist() == [20.0, 0.0, 0.0]


def test_what_districts_may_be() -> None:
    """Every district has its own variance; of them all together nothing is unknown where the whole is exact."""
    people, variances = np.array([1000, 1010, 990]), np.array([40.0, 30.0, 50.0])
    free = drawn_populations(people, variances, 120.0, 1)
    assert free.var(axis=0) == pytest.approx(variances, rel=0.1)
    assert free.sum(axis=1).var() == pytest.approx(120, rel=0.1)
    tied = drawn_populations(people, variances, 0.0, 1)
    assert tied.sum(axis=1) == pytest.approx(3000)
    # Var(e - v s / S) = v - v^2 / S for independent errors with the sum s.
    assert tied.var(axis=0) == pytest.approx(variances - variances**2 / 120, rel=0.1)


def test_the_interval_holds_the_true_deviation() -> None:
    """Of 200 true plans whose published numbers have the stated noise, about 90 % are within."""
    rng = np.random.default_rng(8)
    truth = np.array([1000, 1200, 900, 1100])
    inside = 0
    for _ in range(200):
        published = np.rint(rng.normal(truth, 20)).astype(np.int64)
        found = judged_plan("plan", "abcd", published, np.full(4, 400.0), 1600.0, truth)
        assert found.low is not None
        assert found.high is not None
        assert found.true_deviation is not None
        assert found.deviation == pytest.approx(100 * (published.max() - published.min()) / published.mean())
        inside += found.low <= found.true_deviation <= found.high
    assert 0.85 < inside / 200 < 0.95


def test_majorities() -> None:
    """One half is no majority; the probability is that of the excess over one half."""
    published = np.array([51, 50, 20]), np.array([100, 100, 100])
    truth = np.array([50, 51, 20]), np.array([100, 100, 100])
    found = majorities("x", ["a", "b", "c"], published, np.array([4.0, 4.0, np.nan]), truth)
    assert [one.share for one in found] == [51, 50, 20]
    assert [one.flipped for one in found] == [True, True, False]
    assert [one.flip for one in found] == [pytest.approx(0.30853754), pytest.approx(0.5), None]
    assert [one.true_share for one in found] == [50, 51, 20]


def test_unknown_errors_give_no_interval() -> None:
    found = judged_plan("plan", "ab", np.array([5, 7]), np.array([1.0, np.nan]), 1.0)
    assert (found.low, found.high, found.unequal, found.true_deviation) == (None, None, None, None)
    assert [one.spread for one in found.districts] == [1.0, None]


def test_a_plan_is_read_whatever_its_order(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("﻿code,where\ns3,north\ns1, south \ns4,north\n\ns2,south\n", encoding="utf-8")
    plan = read_plan(path, SPINE)
    assert plan.names == ("north", "south")
    assert plan.district.tolist() == [1, 1, 0, 0]
    assert plan.sums(np.array([[1, 10], [2, 20], [3, 30], [4, 40]])).tolist() == [[7, 70], [3, 30]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("block,district\ns1,a\ns2,a\ns9,b\n", "line 4: 's9' is no block of the release, whose codes are like s1"),
        ("block,district\ns1,a\ns1,b\n", "line 3: 's1' has a district already, in line 2"),
        ("block,district\ns1,a\ns2,\n", "line 3: found 's2,'; a geocode and a district are needed"),
        ("block,district\ns1,a,x\n", "line 2: found 's1,a,x'; a geocode and a district are needed"),
        ("block,district\ns1,a\ns3,b\n", "2 geounits of level block without a district: 's2', 's4'; every one"),
        ("block,district\n", "has no rows; one for each block is needed"),
    ],
)
def test_wrong_plans(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_plan(path, SPINE)
    assert str(caught.value).startswith(f"--plan {path}: ")
    assert message in str(caught.value)
    assert caught.value.exit_status == 2


def test_plans_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(tmp_path / "none.csv", SPINE)
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no CSV file"):
        read_plan(tmp_path / "bytes.csv", SPINE)
