"""What a worker makes from now on: the online choice, the plan's or the present one, whichever is worth setting up."""

from types import SimpleNamespace

import numpy as np
import pytest

from planner.hybrid.dependencies import Rates
from runtime.full_batch import EpochRecord
from runtime.hybrid.adjusting import Adjusting

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
    ("expected", "saved_s", "online_s", "planned_s", "present_s", "bound_s", "set_up_s", "waiting_s"),
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
    expected, saved_s, online_s, planned_s, present_s, bound_s, set_up_s, waiting_s
):
    """It saves 5% of an epoch more, and within five epochs what changing costs."""
    saves = {"online_s": online_s, "planned_s": planned_s, "present_s": present_s}
    made = adjusting(bound_s=bound_s, set_up_s=set_up_s, **saves)
    best, work, bound = made._choose(None, None, made._worth_s(waiting_s))
    assert best.tolist() == expected.tolist()
    assert work.saved_s(None) == saved_s
    assert bound == bound_s


@pytest.mark.parametrize(("waited_s", "expected"), [(0.4, (0.0, 1.0, 4.0)), (0.6, (0.0, 2.0, 4.0))])
def test_rows_that_came_while_it_waited_for_others_are_not_taken_for_fast_ones(waited_s, expected):
    """Beyond a twentieth of an epoch no link counts as faster than planned; slower ones do."""
    made, seen = adjusting(bound_s=0.0, online_s=0.0, planned_s=0.0, present_s=0.0, set_up_s=0.0), []
    rates = Rates(vertex_s=1.0, edge_s=1.0, row_s=(0.0, 1.0, 4.0))
    made._monitor, made._planned_row_s = SimpleNamespace(rates=rates, steady=rates), (0.0, 2.0, 2.0)
    made._observe = lambda *observed: None
    made._choose = lambda *given: seen.append(given[:2]) or (PRESENT, made._work, 0.0)
    made._epoch_s = []
    choice = made.look(EpochRecord(3, 0.0, EPOCH_S, 0.0), None, waited_s=waited_s)
    assert not choice.is_other
    assert [each.row_s for each in seen[0]] == [expected] * 2
