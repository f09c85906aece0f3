"""Rows of partial reduce on a link: one exchange after another, the newest in the place of those that wait."""

import numpy as np
import pytest

from gnnplan.planner.weather.rounds import Work, _send, new_state

NUM_EXCHANGES = 4


@pytest.fixture
def work():
    """Exchanges of 0.1 s between two workers, the first behind a link at a tenth of its rate."""
    return Work(
        compute_s=np.zeros((2, NUM_EXCHANGES + 2)),
        transfer_s=np.full(NUM_EXCHANGES + 1, 0.1),
        backward=2,
        change_s=np.empty((2, 0)),
        compute=np.ones((2, 1)),
        link=np.array([[0.1], [1.0]]),
        sleep_s=np.zeros((2, 2)),
    )


def begin(state, epoch):
    state.previous[:], state.begun[:], state.is_new[:] = state.begun, epoch, True


def send(work, state, section, now_s):
    state.now_s[:] = now_s
    _send(work, state, section)


def test_rows_queue_on_a_slow_link(work):
    """Each exchange takes the link for a second, though a new one comes every 0.2 s; a fast one has no queue."""
    state = new_state(2, NUM_EXCHANGES)
    begin(state, 0)
    for section in range(NUM_EXCHANGES):
        send(work, state, section, 0.2 * section)
    np.testing.assert_allclose(state.arrive_s[0, 1], [1, 2, 3, 4])
    np.testing.assert_allclose(state.arrive_s[1, 0], [1, 1.2, 1.4, 1.6])


def test_newer_rows_take_the_place_of_those_that_wait(work):
    """What the link has taken up is sent first; what still waits was never there."""
    state = new_state(2, NUM_EXCHANGES)
    begin(state, 0)
    for section in range(NUM_EXCHANGES):
        send(work, state, section, 0.2 * section)
    begin(state, 1)
    send(work, state, 0, 2.5)
    send(work, state, 3, 2.9)
    np.testing.assert_allclose(state.arrive_s[0, 1], [5, 2, 3, 4])
    assert state.older[0].tolist() == [0, -1, -1, -1]
    assert state.older[1].tolist() == [0, -1, -1, 0]
