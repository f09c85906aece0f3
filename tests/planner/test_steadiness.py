"""Epochs that vary by more than was predicted are told of, with both figures."""

import numpy as np
import pytest

from gnnplan.planner.compare import compare
from gnnplan.planner.steadiness import unsteady_words
from gnnplan.planner.trace import Percentiles
from tests.planner.test_compare import PREDICTED, trace_of


def predicted_of(p95_s):
    return PREDICTED.model_copy(update={"fluctuating": Percentiles(p50_s=1.0, p95_s=p95_s)})


def measured_of(share, count=100, **changes):
    """Epochs that grow evenly up to this share above the median."""
    epoch_s = tuple(np.linspace(1 - share / 0.9, 1 + share / 0.9, count + 1).tolist())  # one in twenty above 1 + share
    return trace_of("measured", [], epoch_s=epoch_s, **changes)


@pytest.mark.parametrize(("said", "was", "is_told"), [(0.05, 0.12, False), (0.05, 0.2, True), (0.2, 0.25, False)])
def test_more_than_predicted_is_told(said, was, is_told):
    """By how much it was, and was thought to be; what is as predicted is no news."""
    words = unsteady_words(predicted_of(1 + said), measured_of(was))
    assert bool(words) == is_told
    if is_told:
        assert words.startswith(
            f"one in twenty epochs took {was:.0%} more than the median, where {said:.0%} was predicted"
        )
        assert compare(predicted_of(1 + said), measured_of(was)).notes == (words,)


def test_where_nothing_can_be_told():
    """Of few epochs, of steps that went on without somebody, and where nothing was let to vary."""
    assert unsteady_words(predicted_of(1.0), measured_of(0.5))
    assert not unsteady_words(predicted_of(1.0), measured_of(0.5, count=10))
    assert not unsteady_words(predicted_of(1.0), measured_of(0.5, num_members=(1,) * 101))
    assert not unsteady_words(PREDICTED.model_copy(update={"fluctuating": None}), measured_of(0.5))
