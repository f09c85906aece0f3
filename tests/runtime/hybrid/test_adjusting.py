"""What a worker makes from now on: the online choice, the plan's or the present one, whichever is worth setting up."""

from types import SimpleNamespace

import numpy as np
import pytest

import gnnplan.runtime.hybrid.adjusting as adjusting_module
from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.split import SplitWork
from gnnplan.runtime.full_batch import EpochRecord
from gnnplan.runtime.hybrid.adjusting import Adjusting

PRESENT, PLANNED, ONLINE = (np.array([mask]) for mask in ([False, False], [False, True], [True, False]))
EPOCH_S = 10.0  # of which 5% must be saved at least


def saving(seconds):
    """A split's work, that saves so much at any rates."""
    return SimpleNamespace(saved_s=lambda rates: seconds)


def adjusting(*, bound_s, online_s, planned_s, present_s, set_up_s):
    """One whose adjuster would cache the first of two dependencies."""
    made = Adjusting.__new__(Adjusting)
    made._monitor = SimpleNamespace(steady=None)
    adjustment = SimpleNamespace(bound_s=bound_s, cached=lambda: np.array([0]))
    made._adjuster = SimpleNamespace(adjust=lambda steady, rates: adjustment)
    made._may_cache = np.ones((1, 2), bool)
    made.cached, made._work = PRESENT, saving(present_s)
    made._planned, made._planned_work = PLANNED, saving(planned_s)
    made._online = PLANNED, saving(planned_s)
    made._work_of = lambda cached: saving(online_s)
    made.set_up_s, made._epoch_s = set_up_s, [EPOCH_S]
    return made


@pytest.mark.parametrize(
    ("expected", "saved_s", "online_s", "planned_s", "present_s", "bound_s", "set_up_s", "change_s"),
    [
        pytest.param(ONLINE, 4.0, 4.0, 1.0, 0.0, 5.0, 0.0, 0.0, id="online saves most"),
        pytest.param(PLANNED, 4.0, 1.0, 4.0, 0.0, 5.0, 0.0, 0.0, id="the plan saves most"),
        pytest.param(PRESENT, 4.0, 4.4, 1.0, 4.0, 5.0, 0.0, 0.0, id="less than 5% more"),
        pytest.param(PRESENT, 4.0, 9.0, 1.0, 4.0, 4.4, 0.0, 0.0, id="nothing could save 5% more"),
        pytest.param(PRESENT, 0.0, 4.0, 1.0, 0.0, 9.0, 25.0, 0.0, id="not paid back within five epochs"),
        pytest.param(ONLINE, 6.0, 6.0, 1.0, 0.0, 9.0, 25.0, 0.0, id="paid back within five epochs"),
        pytest.param(PRESENT, 0.0, 6.0, 1.0, 0.0, 9.0, 25.0, 6.0, id="others have to wait, too"),
    ],
)
def test_a_split_is_changed_where_that_is_worth_it(
    expected, saved_s, online_s, planned_s, present_s, bound_s, set_up_s, change_s
):
    """It saves 5% of an epoch more, and within five epochs what changing costs."""
    saves = {"online_s": online_s, "planned_s": planned_s, "present_s": present_s}
    made = adjusting(bound_s=bound_s, set_up_s=set_up_s, **saves)
    best, work, bound = made._choose(None, made._worth_s(change_s))
    assert best.tolist() == expected.tolist()
    assert work.saved_s(None) == saved_s
    assert bound == bound_s


def test_parts_take_longer_by_what_the_plan_has_less_of():
    """At the plan's own rates, whatever was measured since."""
    made = adjusting(bound_s=0.0, online_s=0.0, planned_s=0.0, present_s=0.0, set_up_s=0.0)
    made._planned_work = SplitWork(10.0, 100.0, np.array([0.0, 6.0]), 0.0)
    made._work = SplitWork(13.0, 90.0, np.array([5.0, 2.0]), 0.0)
    made._planned_rates = Rates(vertex_s=2.0, edge_s=1.0, row_s=(1.0, 0.5))
    made._monitor.rates = Rates(vertex_s=20.0, edge_s=10.0, row_s=(10.0, 5.0))
    assert made.longer_s == 3 * 2.0 + 4 * 0.5


@pytest.mark.parametrize(("waited_s", "hides"), [(0.4, False), (0.6, True)])
def test_waiting_hides_what_rows_took_beyond_a_twentieth_of_an_epoch(waited_s, hides):
    """Less is always there."""
    made, seen = adjusting(bound_s=0.0, online_s=0.0, planned_s=0.0, present_s=0.0, set_up_s=0.0), []
    made._monitor.rates, made._epoch_s = None, []
    made._observe = lambda seconds, exchanged, **how: seen.append(how)
    made.look(EpochRecord(3, 0.0, EPOCH_S, 0.0), None, waited_s=waited_s)
    assert seen == [{"moved": False, "hides": hides}]


def test_rows_that_came_while_it_waited_are_taken_for_no_faster_than_planned(monkeypatch):
    """Those of owner 1 seemed to take nothing; owner 2's were slower than planned all the same."""
    step = SimpleNamespace(name="l0/aggregate", constant=True)
    exchanger, seen = SimpleNamespace(num_halo=40, recv_counts=[0, 20, 20]), []
    made = Adjusting.__new__(Adjusting)
    made.size, made.gathers, made._levels, made._planned_rates = 3, [step], None, SimpleNamespace(row_s=(0.0, 2.0, 2.0))
    made.model = SimpleNamespace(
        program=None, vertices=(), num_own_edges=0, sizes=lambda: None, exchanger_of=lambda step: exchanger,
        whole=SimpleNamespace(num_halo=40),
    )  # fmt: skip
    made._monitor = SimpleNamespace(observe=lambda pace, taken_s, *others, **how: seen.append(taken_s.tolist()))
    monkeypatch.setattr(adjusting_module, "pace_of", lambda *_: None)
    for hides in (False, True):
        made._observe(
            {}, lambda step: (np.array([0.0, 1.0, 90.0]), np.array([0.0, 20.0, 20.0])), moved=False, hides=hides
        )
    assert seen == [[0.0, 1.0, 90.0], [0.0, 40.0, 90.0]]
