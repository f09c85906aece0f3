"""What a worker makes from now on: the online choice, the plan's or the present one, whichever is worth setting up."""

from types import SimpleNamespace

import numpy as np
import pytest

from runtime.hybrid.adjusting import Adjusting

PRESENT, PLANNED, ONLINE = (np.array([mask]) for mask in ([False, False], [False, True], [True, False]))
EPOCH_S = 10.0  # of which 2% must be saved at least


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
    made.set_up_s = set_up_s
    return made


@pytest.mark.parametrize(
    ("expected", "saved_s", "online_s", "planned_s", "present_s", "bound_s", "set_up_s"),
    [
        pytest.param(ONLINE, 4.0, 4.0, 1.0, 0.0, 5.0, 0.0, id="online saves most"),
        pytest.param(PLANNED, 4.0, 1.0, 4.0, 0.0, 5.0, 0.0, id="the plan saves most"),
        pytest.param(PRESENT, 4.0, 4.1, 1.0, 4.0, 5.0, 0.0, id="less than 2% more"),
        pytest.param(PRESENT, 4.0, 9.0, 1.0, 4.0, 4.1, 0.0, id="nothing could save 2% more"),
        pytest.param(PRESENT, 0.0, 4.0, 1.0, 0.0, 9.0, 25.0, id="not paid back within five epochs"),
        pytest.param(ONLINE, 6.0, 6.0, 1.0, 0.0, 9.0, 25.0, id="paid back within five epochs"),
    ],
)
def test_a_split_is_changed_where_that_is_worth_it(
    expected, saved_s, online_s, planned_s, present_s, bound_s, set_up_s
):
    """It saves 2% of an epoch more, and within five epochs what setting up the last one took."""
    saves = {"online_s": online_s, "planned_s": planned_s, "present_s": present_s}
    made = adjusting(bound_s=bound_s, set_up_s=set_up_s, **saves)
    best, work, bound = made._choose(None, EPOCH_S)
    assert best.tolist() == expected.tolist()
    assert work.saved_s(None) == saved_s
    assert bound == bound_s
