"""What checkpoints cost is told from how fast epochs are around them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._checkpoint_cost import Watched, between, lost_s

_WINDOWS = [(10.0, 10.2), (20.0, 20.2), (30.0, 30.2)]


def told(epoch_s: float, windows=(), pause_s: float = 0.0, seconds: float = 40.0):
    """Ticks a quarter of a second apart, of a run that stands still when each window begins."""
    at_s = np.arange(epoch_s, seconds, epoch_s)
    late_s = at_s + pause_s * sum(at_s > begin_s for begin_s, _ in windows)
    every = max(int(0.25 / epoch_s), 1)
    return [(float(s), number) for number, s in enumerate(late_s, 1)][::every]


@given(epoch_s=st.floats(0.004, 0.2), pause_s=st.floats(0.0, 0.2))
def test_what_stands_still_is_lost(epoch_s, pause_s):
    """Each pause is found, whole, whatever an epoch takes; none are found where none were."""
    windows = [(begin_s + i * pause_s, end_s + i * pause_s) for i, (begin_s, end_s) in enumerate(_WINDOWS)]
    ticks = told(epoch_s, _WINDOWS, pause_s)
    assert lost_s(ticks, windows) == pytest.approx(3 * pause_s, abs=1e-6)
    assert lost_s(told(epoch_s), _WINDOWS) == pytest.approx(0.0, abs=1e-6)


def test_drift_is_not_lost():
    """A run that becomes twice as slow halfway loses nothing by what is written before and after."""
    slow = [(20.0 + 2 * (at_s - 20.0) if at_s > 20 else at_s, number) for at_s, number in told(0.01)]
    assert lost_s(slow, [(10.0, 10.2), (40.0, 40.2)]) == pytest.approx(0.0, abs=0.02)


def test_the_control_lies_between():
    """Moments as far as can be from what is written, and as long."""
    found = between(_WINDOWS)
    assert np.allclose(found, [(15.0, 15.2), (25.0, 25.2)])
    assert between(_WINDOWS[:1]) == []


def test_a_run_is_watched_by_its_events():
    """A checkpoint that could not be written is none."""
    now = iter([1.0, 5.0, 9.0])
    watched = Watched(clock=lambda: next(now))
    watched({"event": "epoch", "epoch": 0})
    watched({"event": "checkpoint", "fault": "", "seconds": 0.5})
    watched({"event": "checkpoint", "fault": "no room", "seconds": 0.5})
    watched({"event": "note", "words": ""})
    watched({"event": "epoch", "epoch": 8})
    assert watched.checkpoints == [(4.5, 5.0)]
    assert (watched.seconds, watched.epoch_s) == (8.0, 1.0)
