"""Shares are tried by speed, refined while that gains, and concentrated where some workers cost more than they do."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.strategies.balance import NUM_ROUNDS, concentrated_shares, equal_shares
from gnnplan.planner.strategies.shares import epoch_s_of, search_shares

LEAST_S = 0.01  # even one vertex keeps a worker busy


class Workers:
    """Busy for their share over their speed, ports for so much longer where there is a share; and what was asked."""

    def __init__(self, speeds, ports_s=None):
        self.speeds, self.ports_s, self.asked = speeds, ports_s or (0.0,) * len(speeds), []

    def of_shares(self, balance, weights):
        self.asked.append((balance, weights))
        busy_s = [LEAST_S + share / speed for share, speed in zip(weights, self.speeds)]
        ports_s = [busy + (port if share else 0.0) for busy, port, share in zip(busy_s, self.ports_s, weights)]
        trial = SimpleNamespace(busy_s=lambda layers, cache, *, ports: ports_s if ports else busy_s)
        decision = SimpleNamespace(layers=(), cache=None, balance=balance, target_weights=weights)
        return [(max(ports_s), trial, decision)]


@pytest.mark.parametrize("pinned", ["equal", "speed"])
def test_pinned_shares_are_the_only_ones(pinned):
    """However uneven the workers are then."""
    workers = Workers((1.0, 3.0))
    (entry,) = search_shares(pinned, (0.5, 0.5), workers.of_shares)
    assert workers.asked == [(pinned, (0.5, 0.5))]
    assert epoch_s_of(entry) == pytest.approx(LEAST_S + 0.5)


@pytest.mark.parametrize("pinned", [None, "speed", "refined", "concentrated"])
def test_one_worker_gets_everything(pinned):
    """There is nothing to refine, and nobody to leave out."""
    workers = Workers((2.0,), (1.0,))
    assert len(search_shares(pinned, (1.0,), workers.of_shares)) == 1
    assert workers.asked == [("speed", (1.0,))]


@pytest.mark.parametrize("pinned", ["refined", "concentrated"])
def test_a_kind_that_is_pinned_is_the_only_one_given(pinned):
    """Others are looked at on the way there."""
    workers = Workers((1.0, 3.0))
    found = search_shares(pinned, (0.5, 0.5), workers.of_shares)
    assert {decision.balance for _, _, decision in found} == {pinned}
    assert workers.asked[0] == ("speed", (0.5, 0.5))


def test_refined_shares_even_out_what_speeds_left_uneven():
    """The faster worker gets more, and the epoch is shorter."""
    workers = Workers((1.0, 3.0))
    best_s, _, decision = min(search_shares("refined", (0.5, 0.5), workers.of_shares), key=epoch_s_of)
    assert best_s < LEAST_S + 0.5
    assert decision.target_weights[0] < 0.5 < decision.target_weights[1]


def test_where_all_are_busy_alike_the_first_shares_stand():
    """Nothing else is asked for, though refined ones are pinned."""
    workers = Workers((1.0, 2.0, 1.0))
    (entry,) = search_shares("refined", (0.25, 0.5, 0.25), workers.of_shares)
    assert workers.asked == [("speed", (0.25, 0.5, 0.25))]
    assert entry[2].balance == "speed"


@pytest.mark.parametrize(("shortens", "num_rounds"), [(False, 1), (True, NUM_ROUNDS)])
def test_refining_ends_with_the_round_that_gains_nothing(shortens, num_rounds):
    """Or after a few, of each of its two kinds."""
    asked = []

    def of_shares(balance, weights):
        asked.append(balance)
        trial = SimpleNamespace(busy_s=lambda layers, cache, *, ports: [1.0, 2.0])
        decision = SimpleNamespace(layers=(), cache=None, target_weights=weights)
        return [(1 / len(asked) if shortens else 1.0, trial, decision)]

    search_shares("refined", (0.5, 0.5), of_shares)
    assert asked == ["speed", *["refined"] * (2 * num_rounds)]


def test_a_worker_that_costs_more_than_it_computes_is_given_nothing():
    """Ten seconds behind a slow link, whatever its share is: only none at all is faster."""
    workers = Workers((3.0, 1.0, 1.0), (0.0, 0.0, 10.0))
    found = search_shares(None, (0.6, 0.2, 0.2), workers.of_shares)
    best_s, _, decision = min(found, key=epoch_s_of)
    assert best_s < 1
    assert decision.balance == "concentrated"
    assert decision.target_weights[2] == 0
    assert all(shares[2] == 0 for balance, shares in workers.asked if balance == "concentrated")


def test_concentrated_shares_that_gain_nothing_are_not_refined():
    """Three equal workers are best together: one of them and two are looked at, and no more."""
    workers, weights = Workers((1.0, 1.0, 1.0)), equal_shares(3)
    search_shares(None, weights, workers.of_shares)
    assert [shares for balance, shares in workers.asked if balance != "speed"] == concentrated_shares(weights)


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 5)), min_size=1, max_size=5))
def test_a_free_search_finds_what_the_best_pin_does(workers):
    """All that it asked for is given, and every time the whole graph is shared out."""
    speeds, ports_s = zip(*workers)
    least_s = {}
    for pinned in (None, "speed", "refined", "concentrated"):
        made = Workers(speeds, ports_s)
        found = search_shares(pinned, equal_shares(len(speeds)), made.of_shares)
        least_s[pinned] = min(map(epoch_s_of, found))
        assert all(sum(shares) == pytest.approx(1) for _, shares in made.asked)
        assert pinned or len(found) == len(made.asked)
    free_s = least_s.pop(None)
    assert free_s == min(least_s.values())
