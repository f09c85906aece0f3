"""Which epoch is meant: one, or each of many."""

import pytest

from gnnplan.planner.prediction import Prediction, WorkerLoad
from gnnplan.planner.trace import Percentiles


def prediction_of(**fields):
    """Of one worker that computes."""
    load = WorkerLoad(peak_bytes=6, capacity_bytes=8, sent_bytes=30, reuse_sent_bytes=0)
    bounds = {"bound_s": 0.01, "bound_resource": "r", "schedule_bound_s": 0.01, "schedule_bound_resource": "r"}
    seconds = {"epoch_s": 0.076, "compute_s": 0.076, "communicate_s": 0.0, "host_s": 0.0}
    return Prediction(**seconds, **bounds, workers=(load,), **fields)


@pytest.mark.parametrize("mean_s", [0.059, 0.09])
def test_under_a_quota_each_of_many_epochs_takes_their_mean(mean_s):
    """The median one may be longer, where most of them have a pause, or shorter."""
    found = prediction_of(mean_epoch_s=mean_s, fluctuating=Percentiles(p50_s=0.075, p95_s=0.08))
    assert found.each_of_many_s == found.long_run_epoch_s == mean_s
    assert found.expected_epoch_s == 0.075


def test_without_one_it_is_the_epoch_that_is_expected():
    """As tasks vary."""
    found = prediction_of(fluctuating=Percentiles(p50_s=0.08, p95_s=0.09))
    assert (found.each_of_many_s, found.p95_s) == (0.08, 0.09)


def test_of_a_refresh_interval_bytes_are_the_mean():
    """Sent in the first epoch of three, and none in the others; three quarters of the memory are used."""
    (load,) = prediction_of().workers
    assert load.mean_sent_bytes(3) == 10
    assert load.used_share == 0.75
