"""Rates are what the tasks took over the work they did; a link not seen is tried again, one epoch is no weather."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.rates import Pace, RateMonitor, pace_of, predicted_rates, shares_s
from gnnplan.profiles.machine import Link
from tests.planner.hybrid.shares import CASES, Shares

PLANNED = Rates(vertex_s=1e-8, edge_s=1e-9, row_s=(0.0, 1e-8, 1e-8))
SEEN = Pace(vertex_s=1e-8, edge_s=1e-9)
MANY = np.array([0.0, 1e5, 1e5])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 1000)), min_size=1, max_size=6))
def test_shares_are_the_whole_time(pairs):
    """Who sends nothing has no part in it; the last to arrive ends it; who comes later has no less per float."""
    arrived_s, floats = (np.array(values, float) for values in zip(*pairs))
    shares = shares_s(arrived_s, floats)
    assert not shares[floats == 0].any()
    assert shares.sum() == pytest.approx(arrived_s[floats > 0].max(initial=0.0))
    rates = shares[floats > 0] / floats[floats > 0]
    assert (np.diff(rates[np.argsort(arrived_s[floats > 0], kind="stable")]) >= -1e-12).all()


def test_a_slow_link_is_told_from_the_others():
    """Two owners arrive after 1 s, the third after 5: its rows alone take the last four."""
    shares = shares_s(np.array([1.0, 1.0, 5.0]), np.array([10.0, 10.0, 10.0]))
    np.testing.assert_allclose(shares, [1 / 3, 1 / 3, 1 / 3 + 4])


def test_rows_that_begin_to_come_later_share_only_what_is_left():
    """One alone for 2 s, then both for 1 s, then nobody for 3 s, then a third for 1 s."""
    shares = shares_s(np.array([3.0, 3.0, 7.0]), np.array([10.0, 30.0, 10.0]), np.array([0.0, 2.0, 6.0]))
    np.testing.assert_allclose(shares, [2.25, 0.75, 1.0])


@pytest.mark.parametrize(("kind", "layers"), CASES)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_pace_is_seconds_over_work(kind, layers, share):
    """Tasks that take a second per dimension of work, whatever is replicated, have that pace; others do not count."""
    shares = Shares(kind, layers)
    replicas, levels = shares.replicas(shares.masks(share)), shares.levels
    own, sizes = shares.shapes[0], replicas.workers[0]
    seconds = dict.fromkeys(shares.lowering(shares.masks(share)).schedule.keys_of(0), 0.0)
    steps = {step.name: step for step in shares.program.steps}
    dense = next(name for name, step in steps.items() if step.op in ("multiply", "combine"))
    sparse = next(name for name, step in steps.items() if step.op in ("aggregate", "attend"))
    rows = [own.num_local + size.num_replicas for size in sizes.levels]
    entries = [own.local_edges + size.near_edges + size.made_edges + size.far_edges for size in sizes.levels]
    vertex_work = sum(n * width for n, width in zip(rows, levels.vertex_widths[levels.first :]))
    edge_work = sum(e * width for e, width in zip(entries, levels.row_widths[levels.first :]))
    seconds |= {f"{dense}/forward": vertex_work / 2, f"{dense}/backward": vertex_work / 2}
    seconds |= {f"{sparse}/forward": 3.0 * edge_work, "loss": 1e9}
    pace = pace_of(seconds, shares.program, levels, own.num_local, own.local_edges, sizes)
    assert pace.vertex_s == pytest.approx(1.0)
    assert pace.edge_s == pytest.approx(3.0)


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_predicted_rates_add_up_to_the_exchanges(kind, layers):
    """For the slowest worker all rows together take what the lowered exchanges take beyond their latency."""
    shares = Shares(kind, layers, link=Link(bytes_per_s=1e6, latency_s=1e-4))
    lowering = shares.lowering(shares.masks(0.0))
    rates, latency_s = predicted_rates(lowering, shares.levels)
    exchanges = [task.seconds for task in lowering.schedule.tasks if task.worker == 0 and "/exchange/" in task.key]
    spans = range(shares.levels.first, shares.levels.count)
    floats = sum(lowering.replicas.counts(level) * shares.levels.row_widths[level] for level in spans).T
    taken_s = [float(np.dot(rates[rank].row_s, floats[rank])) for rank in range(3)]
    assert latency_s >= 2e-4
    assert max(taken_s) == pytest.approx(sum(exchanges) - len(exchanges) * latency_s)
    assert all(rate.vertex_s > 0 and rate.edge_s > 0 and rate.row_s[rank] == 0 for rank, rate in enumerate(rates))


def test_the_first_epoch_replaces_what_was_planned():
    """From then on it is the median of three."""
    monitor = RateMonitor(PLANNED, MANY)
    for factor, expected in ((7.0, 7.0), (1.0, 4.0), (1.0, 1.0), (90.0, 1.0), (80.0, 80.0)):
        monitor.observe(Pace(factor, factor), factor * MANY, MANY)
        assert monitor.rates.vertex_s == monitor.rates.edge_s == pytest.approx(expected)
        assert monitor.rates.row_s == pytest.approx((0.0, expected, expected))


def test_the_proportion_to_sort_by_does_not_swing():
    """It changes after three epochs and then every fifteen, however the rates do; what both take together stays."""
    monitor, seen = RateMonitor(PLANNED, MANY), []
    for epoch in range(30):
        monitor.observe(Pace(vertex_s=1e-8, edge_s=(1.0 + epoch % 3) * 1e-9), 1e-8 * MANY, MANY)
        rates, steady = monitor.rates, monitor.steady
        assert steady.vertex_s * steady.edge_s == pytest.approx(rates.vertex_s * rates.edge_s)
        seen.append(steady.edge_s / steady.vertex_s)
    assert seen[:2] == pytest.approx([0.1] * 2)
    assert seen[2:] == pytest.approx([0.2] * 28)


def test_a_drifting_proportion_is_followed_every_fifteen_epochs():
    """By the median of all fifteen; only the first, after three epochs, rests on fewer."""
    monitor, seen = RateMonitor(PLANNED, MANY), []
    for epoch in range(1, 48):
        monitor.observe(Pace(vertex_s=1e-8, edge_s=epoch * 1e-9), 1e-8 * MANY, MANY)
        steady = monitor.steady
        seen.append(steady.edge_s / steady.vertex_s)
    expected = [0.1] * 2 + [0.2] * 12 + [0.8] * 15 + [2.3] * 15 + [3.8] * 3
    assert seen == pytest.approx(expected)


def test_few_rows_say_little():
    """A tenth of what would show all moves a rate by a tenth, however long an exchange took with them."""
    monitor = RateMonitor(PLANNED, MANY)
    for _ in range(3):
        monitor.observe(SEEN, 2e-8 * MANY, MANY)
    few = 0.025 * MANY
    for _ in range(2):
        monitor.observe(SEEN, 1e-6 * few, few)
    assert 2e-8 < monitor.rates.row_s[1] < 0.15 * 1e-6


def test_what_is_not_seen_goes_back_to_the_plan():
    """Bit by bit for links; work that was not done changes nothing."""
    monitor = RateMonitor(PLANNED, MANY)
    monitor.observe(SEEN, 1e-3 * MANY, MANY)
    nothing, before = np.zeros(3), monitor.rates.row_s[1]
    assert before == pytest.approx(1e-3)
    for _ in range(3):
        monitor.observe(Pace(None, None), nothing, nothing)
        assert PLANNED.row_s[1] < monitor.rates.row_s[1] < before
        before = monitor.rates.row_s[1]
    assert (monitor.rates.vertex_s, monitor.rates.edge_s) == (1e-8, 1e-9)
    for _ in range(200):
        monitor.observe(SEEN, nothing, nothing)
    assert monitor.rates.row_s[1] == pytest.approx(PLANNED.row_s[1], rel=1e-3)
    monitor.observe(SEEN, 1e-5 * MANY, MANY)
    assert monitor.rates.row_s[1] == pytest.approx(1e-5)


def test_what_changed_counts_at_once_where_epochs_moved():
    """Rates far from before are then of this epoch alone; others stay medians, and so do all where nothing moved."""
    monitor = RateMonitor(PLANNED, MANY)
    for _ in range(3):
        monitor.observe(SEEN, 1e-8 * MANY, MANY)
    slower = Pace(vertex_s=4e-8, edge_s=1.1e-9)
    monitor.observe(slower, np.array([0.0, 5e-8, 1e-8]) * MANY, MANY)
    assert monitor.rates == PLANNED
    monitor.observe(slower, np.array([0.0, 5e-8, 1.2e-8]) * MANY, MANY, moved=True)
    assert monitor.rates.row_s == pytest.approx((0.0, 5e-8, 1e-8))
    assert (monitor.rates.vertex_s, monitor.rates.edge_s) == pytest.approx((4e-8, 1.1e-9))
    monitor.observe(SEEN, 1e-8 * MANY, MANY, moved=True)
    assert monitor.rates.row_s == pytest.approx((0.0, 1e-8, 1e-8))
    assert monitor.rates.vertex_s == pytest.approx(1e-8)
