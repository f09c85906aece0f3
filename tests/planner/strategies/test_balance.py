"""Shares of the graph: sums of one, and refined towards workers that are busy alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.strategies.balance import (
    concentrated_shares,
    equal_shares,
    is_balanced,
    refined_shares,
    shares_by_speed,
)

SECONDS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


@given(SECONDS)
def test_shares_are_positive_and_sum_to_one(seconds):
    """However they are made."""
    for shares in (
        equal_shares(len(seconds)),
        shares_by_speed(seconds),
        refined_shares(equal_shares(len(seconds)), seconds),
    ):
        assert sum(shares) == pytest.approx(1)
        assert min(shares) > 0


def test_speed_is_the_inverse_of_seconds():
    """Half the seconds, twice the share."""
    assert shares_by_speed([1.0, 2.0]) == pytest.approx((2 / 3, 1 / 3))


def test_who_is_busier_gets_less():
    """And who is as busy as the mean keeps the ratio to the others that are."""
    shares = refined_shares((0.25, 0.25, 0.25, 0.25), (2.0, 1.0, 1.0, 0.5))
    assert shares[0] < shares[1] == shares[2] < shares[3]


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=5), st.lists(st.floats(0, 0.3), min_size=5, max_size=5))
def test_rounds_lead_to_balance(speeds, fixed_s):
    """Where a worker's seconds are its share over its speed and something that no share changes."""
    shares, fixed_s = equal_shares(len(speeds)), np.array(fixed_s[: len(speeds)]) * 0.02
    busy_s = [share / speed + fixed for share, speed, fixed in zip(shares, speeds, fixed_s)]
    for _ in range(40):
        shares = refined_shares(shares, busy_s)
        busy_s = [share / speed + fixed for share, speed, fixed in zip(shares, speeds, fixed_s)]
    assert is_balanced(busy_s)


def test_balance_is_judged_by_the_busiest():
    """One that is idle does not matter, one that is late does."""
    assert is_balanced([1.0, 1.0, 0.97])
    assert not is_balanced([1.0, 1.0, 1.2])


def test_concentrated_shares_are_those_of_the_fastest():
    """One worker, two, four of five: in proportion as before, the first of equals; nobody to leave out of one."""
    found = concentrated_shares([0.1, 0.4, 0.1, 0.2, 0.2])
    assert found[0] == (0, 1, 0, 0, 0)
    assert found[1] == pytest.approx((0, 2 / 3, 0, 1 / 3, 0))
    assert found[2] == pytest.approx((1 / 9, 4 / 9, 0, 2 / 9, 2 / 9))
    assert len(found) == 3
    assert concentrated_shares([1.0]) == []


@given(SECONDS, st.integers(0, 5))
def test_refining_gives_nothing_to_who_has_nothing(seconds, idle):
    """Whatever it is busy with."""
    shares = [0.0 if rank == idle % len(seconds) and len(seconds) > 1 else 1.0 for rank in range(len(seconds))]
    refined = refined_shares(shares, seconds)
    assert [share == 0 for share in refined] == [share == 0 for share in shares]
