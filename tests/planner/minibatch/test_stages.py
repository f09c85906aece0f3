"""Stage times are seconds that can be planned with."""

import pytest
from pydantic import ValidationError

from gnnplan.planner.minibatch.stages import SideBySide, StageTimes

MEASURED = {"cpu_batching_s": 0.04, "gpu_batching_s": 0.03, "dma_s": 0.02, "model_s": 0.01}


def test_what_does_not_fit_the_device_has_no_time():
    """Unless it was measured; copies may take no time, as without a device."""
    assert StageTimes(**MEASURED).resident_batching_s is None
    assert StageTimes(**(MEASURED | {"dma_s": 0.0})).dma_s == 0


def test_where_both_make_batches_their_own_times_count():
    """And where these were not measured, each route's."""
    alone = StageTimes(**MEASURED, model_alone_s=0.006)
    assert alone.where_both_make == alone
    both = {name: 1.5 * seconds for name, seconds in MEASURED.items()}
    measured = alone.model_copy(update={"together": SideBySide(**both)})
    assert measured.where_both_make == StageTimes(**both, model_alone_s=0.006)


@pytest.mark.parametrize("name", [*MEASURED, "resident_batching_s", "model_alone_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "soon"])
def test_times_that_cannot_be_are_refused(name, value):
    """Nothing is planned from them."""
    with pytest.raises(ValidationError, match=name):
        StageTimes(**(MEASURED | {name: value}))


@pytest.mark.parametrize("name", ["cpu_batching_s", "gpu_batching_s", "model_s", "resident_batching_s"])
def test_only_a_copy_takes_no_time(name):
    """The relaxed problem divides by the others."""
    with pytest.raises(ValidationError, match=name):
        StageTimes(**(MEASURED | {name: 0.0}))


def test_a_step_beside_resting_threads_takes_as_long_as_measured():
    """And as beside those at work where it was not."""
    assert StageTimes(**MEASURED).gpu_only_model_s == MEASURED["model_s"]
    assert StageTimes(**MEASURED, model_alone_s=0.006).gpu_only_model_s == 0.006
