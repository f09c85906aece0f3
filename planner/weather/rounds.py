"""The compiled epochs behind `gnnplan.planner.weather.partial_epochs`: one run under weather.

A worker's whole epoch can be played as soon as it begins: what it waits for was sent by workers that began it
together with it, or before. So rounds are played one after another, and a worker that is left behind keeps the
moments at which it will send and be ready. The rule is the runtime's own (`gnnplan.planner.partial.rule`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gnnplan.planner.partial import rule

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_staleness_of = njit(cache=True)(rule.staleness_of)
_absence_of = njit(cache=True)(rule.absence_of)
_deadline_s = njit(cache=True)(rule.deadline_s)
_is_expected = njit(cache=True)(rule.is_expected)
_is_too_old = njit(cache=True)(rule.is_too_old)
_is_overdue = njit(cache=True)(rule.is_overdue)
_may_step = njit(cache=True)(rule.may_step)
_WARM_UP = rule.WARM_UP_EPOCHS


class Work(NamedTuple):
    """An epoch's work and what it runs under; `Sections` and `Conditions` have the shapes."""

    compute_s: Floats
    transfer_s: Floats
    backward: int
    change_s: Floats
    compute: Floats
    link: Floats
    sleep_s: Floats


class State(NamedTuple):
    """What the loop writes, of W workers and S exchanges.

    Args:
        begin_s: [W] of the epoch a worker is in.
        section_s: [W] when its section began.
        now_s: [W].
        ready_s: [W] when its gradients are made.
        arrive_s: [W, W, S] when the rows that p sent in the epoch it is in reach w.
        usual_s: [W, S + 1] usual seconds of every section, and of the epoch.
        leave_s: [W, S] when its link takes up those rows.
        free_s: [W] when its link has sent all rows.
        begun, previous: [W] epoch a worker is in, and the one it was in before.
        older: [W, S] epoch of the rows that were sent before those on their way.
        last_round: [W].
        is_new: [W] has begun this epoch.
        missed: [W, W] w has not had p's rows in time in this epoch.
        is_ready: [W].
    """

    begin_s: Floats
    section_s: Floats
    now_s: Floats
    ready_s: Floats
    arrive_s: Floats
    usual_s: Floats
    leave_s: Floats
    free_s: Floats
    begun: Ints
    previous: Ints
    older: Ints
    last_round: Ints
    is_new: NDArray[np.bool_]
    missed: NDArray[np.bool_]
    is_ready: NDArray[np.bool_]


def new_state(num_workers: int, num_exchanges: int) -> State:
    """Before the first epoch: nothing was sent, all take part."""

    def floats(*shape: int) -> Floats:
        return np.zeros(shape)

    def flags(*shape: int) -> NDArray[np.bool_]:
        return np.zeros(shape, np.bool_)

    w, s = num_workers, num_exchanges
    never = np.full(w, -1)
    return State(
        floats(w), floats(w), floats(w), floats(w), floats(w, w, max(s, 1)), floats(w, s + 1), floats(w, s), floats(w),
        never.copy(), never.copy(), np.full((w, s), -1), never.copy(), flags(w), flags(w, w), flags(w),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _end_of_work(now_s, work_s, change_s, share):
    """When work that takes `work_s` at the fair rate is done."""
    piece = np.searchsorted(change_s, now_s, side="right")
    while piece < change_s.size:
        done_s = (change_s[piece] - now_s) * share[piece]
        if work_s <= done_s:
            break
        work_s -= done_s
        now_s = change_s[piece]
        piece += 1
    return now_s + work_s / share[piece]


@njit(cache=True, nogil=True)
def _compute(work, state, section, epoch):
    """Every worker that began this epoch works through a section; half its sleep lies before each pass."""
    for w in range(state.now_s.size):
        if not state.is_new[w]:
            continue
        if section == 0:
            state.now_s[w] += work.sleep_s[w, epoch] / 2
        if section == work.backward:
            state.now_s[w] += work.sleep_s[w, epoch] / 2
        seconds = work.compute_s[w, section]
        state.now_s[w] = _end_of_work(state.now_s[w], seconds, work.change_s[w], work.compute[w])


@njit(cache=True, nogil=True)
def _send(work, state, section):
    """Rows are there when both ends' links have had the time for them, the sender's for one exchange after another.

    Where older ones still wait for the link, new ones take their place, as in the runtime.
    """
    seconds = work.transfer_s[section]
    for p in range(state.now_s.size):
        if not state.is_new[p] or state.leave_s[p, section] > state.now_s[p]:
            continue
        begin_s = max(state.now_s[p], state.free_s[p])
        state.leave_s[p, section], state.older[p, section] = begin_s, state.previous[p]
        state.free_s[p] = _end_of_work(begin_s, seconds, work.change_s[p], work.link[p])
        for w in range(state.now_s.size):
            received_s = _end_of_work(begin_s, seconds, work.change_s[w], work.link[w])
            state.arrive_s[p, w, section] = max(state.free_s[p], received_s)


@njit(cache=True, nogil=True)
def _wait(state, w, section, epoch, alpha, staleness):
    """Worker w waits for its peers' rows; returns how old the oldest are that it takes."""
    num_workers, here_s = state.now_s.size, state.now_s[w]
    deadline_s = max(_deadline_s(state.section_s[w], state.usual_s[w, section], alpha), here_s)
    until_s = here_s
    if staleness > 0:
        for p in range(num_workers):
            latest = epoch if state.is_new[p] and state.arrive_s[p, w, 0] <= here_s else -1
            if p == w or not _is_expected(state.is_new[p], state.missed[w, p], latest, epoch):
                continue
            if state.arrive_s[p, w, section] > deadline_s:
                state.missed[w, p] = True
            until_s = max(until_s, min(state.arrive_s[p, w, section], deadline_s))
    oldest = 0
    for p in range(num_workers):
        if p == w:
            continue
        version = state.begun[p] if state.arrive_s[p, w, section] <= until_s else state.older[p, section]
        if _is_too_old(version, epoch, staleness):
            until_s, version = max(until_s, state.arrive_s[p, w, section]), state.begun[p]
        oldest = max(oldest, epoch - version)
    state.now_s[w] = until_s
    return oldest


@njit(cache=True, nogil=True)
def _may_step_at(state, at_s, round_s, number, alpha, absence, min_group):
    """Whether some worker that is ready finds that the ready ones may step."""
    num_workers, num_ready, has_overdue = state.now_s.size, 0, True
    for w in range(num_workers):
        state.is_ready[w] = state.ready_s[w] <= at_s
        num_ready += state.is_ready[w]
        if _is_overdue(state.last_round[w], number, absence) and not state.is_ready[w]:
            has_overdue = False
    for w in range(num_workers):
        if not state.is_ready[w]:
            continue
        has_expected = True
        for p in range(num_workers):
            missed = state.is_new[w] and state.missed[w, p]
            latest = number if state.is_new[p] and state.arrive_s[p, w, 0] <= at_s else -1
            if _is_expected(state.is_new[p], missed, latest, number) and not state.is_ready[p]:
                has_expected = False
        begin_s = state.begin_s[w] if state.is_new[w] else round_s
        past_deadline = at_s >= _deadline_s(begin_s, state.usual_s[w, -1], alpha)
        if _may_step(num_ready, min_group, has_overdue, has_expected, past_deadline):
            return True
    return False


@njit(cache=True, nogil=True)
def _step_s(state, round_s, number, alpha, absence, min_group):
    """When the group of this round forms; `state.is_ready` says of whom."""
    num_workers = state.now_s.size
    moments = np.empty(2 * num_workers)
    for w in range(num_workers):
        begin_s = state.begin_s[w] if state.is_new[w] else round_s
        moments[w] = state.ready_s[w]
        moments[num_workers + w] = max(_deadline_s(begin_s, state.usual_s[w, -1], alpha), state.ready_s[w])
    moments.sort()
    for at_s in moments:
        if _may_step_at(state, at_s, round_s, number, alpha, absence, min_group):
            return at_s
    return moments[-1]


@njit(cache=True, nogil=True)
def _measure(state, column, since_s, epoch):
    """What is usual is the least of the warm-up, whose first epoch does not count."""
    if 0 < epoch < _WARM_UP:
        for w in range(state.now_s.size):
            taken_s = state.now_s[w] - since_s[w]
            state.usual_s[w, column] = taken_s if epoch == 1 else min(state.usual_s[w, column], taken_s)


@njit(cache=True, nogil=True)
def _begin(state, epoch):
    """Members of the round before begin the epoch; the others stay in theirs."""
    for w in range(state.now_s.size):
        state.is_new[w] = state.last_round[w] == epoch - 1
        if state.is_new[w]:
            state.previous[w], state.begun[w] = state.begun[w], epoch
            state.now_s[w] = state.section_s[w] = state.begin_s[w]
            state.missed[w, :] = False


@njit(cache=True, nogil=True)
def _propagate(work, state, epoch, alpha, staleness):
    """Forward and backward pass, to when each gradient is made; returns how old the oldest rows used are."""
    num_workers, num_exchanges, oldest = state.now_s.size, work.transfer_s.size - 1, 0
    for section in range(num_exchanges):
        _compute(work, state, section, epoch)
        _send(work, state, section)
        for w in range(num_workers):
            if state.is_new[w]:
                oldest = max(oldest, _wait(state, w, section, epoch, alpha, staleness))
        _measure(state, section, state.section_s, epoch)
        for w in range(num_workers):
            if state.is_new[w]:
                state.section_s[w] = state.now_s[w]
    _compute(work, state, num_exchanges, epoch)
    for w in range(num_workers):
        if state.is_new[w]:
            state.ready_s[w] = state.now_s[w]
    return oldest


@njit(cache=True, nogil=True)
def _step(work, state, round_s, number):
    """The ready ones reduce and step; returns when the last is done, and the age of the oldest gradient."""
    reduced_s, end_s, oldest = round_s, 0.0, 0
    for w in range(state.now_s.size):
        if state.is_ready[w]:
            done_s = _end_of_work(round_s, work.transfer_s[-1], work.change_s[w], work.link[w])
            reduced_s = max(reduced_s, done_s)
    for w in range(state.now_s.size):
        if state.is_ready[w]:
            state.now_s[w] = _end_of_work(reduced_s, work.compute_s[w, -1], work.change_s[w], work.compute[w])
            state.last_round[w] = number
            end_s, oldest = max(end_s, state.now_s[w]), max(oldest, number - state.begun[w])
    _measure(state, work.transfer_s.size - 1, state.begin_s, number)
    for w in range(state.now_s.size):
        if state.is_ready[w]:
            state.begin_s[w] = state.now_s[w]
    return end_s, oldest


@njit(cache=True, nogil=True)
def play_run(work, state, alpha, max_staleness, min_group, closing_from, interval, end_s, num_members, oldest):
    """Plays a run of E epochs and fills, by epoch, when its step has ended, by how many, and the oldest rows used."""
    num_epochs, round_s = end_s.size, 0.0
    for epoch in range(num_epochs):
        staleness = _staleness_of(epoch, closing_from, max_staleness)
        absence = _absence_of(epoch, closing_from, max_staleness, interval)
        _begin(state, epoch)
        oldest_rows = _propagate(work, state, epoch, alpha, staleness)
        round_s = _step_s(state, round_s, epoch, alpha, absence, min_group)
        num_members[epoch] = state.is_ready.sum()
        end_s[epoch], oldest_gradient = _step(work, state, round_s, epoch)
        oldest[epoch] = max(oldest_rows, oldest_gradient)
