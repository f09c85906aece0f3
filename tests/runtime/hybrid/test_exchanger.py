"""A level exchanges what receivers do not make: they tell the owners, and time whose rows were there when."""

from functools import partial
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gnnplan.runtime.hybrid import exchanger
from gnnplan.runtime.hybrid.exchanger import LevelExchanger
from gnnplan.runtime.recorder import Recorder
from tests.runtime.partial.meshed import in_threads

NUM_LOCAL, STEP = 6, "l0/aggregate"
COUNTS = np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 0], [1, 4, 0, 0]])  # rows from p to q; 2 has no neighbour


def exchanger_of(send_rows, send_counts, recv_counts, **changes):
    return LevelExchanger(send_rows, send_counts, recv_counts, NUM_LOCAL, Recorder(torch.device("cpu")), **changes)


def exchangers_of(counts):
    """One for each worker, that exchange among threads; every worker sends its first rows."""
    size, made = len(counts), []
    posted, all_here = [None] * size, Barrier(size, timeout=20)

    def all_to_all(rank, rows, recv_counts, send_counts):
        posted[rank] = rows.split(send_counts)
        all_here.wait()
        received = [posted[peer][rank] for peer in range(size)]
        assert [len(part) for part in received] == recv_counts
        return torch.cat(received)

    for rank, sent in enumerate(counts):
        send_rows = torch.cat([torch.arange(int(count)) for count in sent])
        made.append(exchanger_of(send_rows, sent.tolist(), counts[:, rank].tolist()))
        made[-1]._all_to_all = partial(all_to_all, rank)
    return made


def test_a_part_has_the_chosen_rows_of_every_worker():
    """In their order; without gloo it does not look when they come."""
    whole = exchanger_of(torch.tensor([4, 0, 2, 1, 5]), [0, 3, 2], [0, 1, 4])
    sent, received = np.array([1, 0, 1, 0, 1], bool), np.array([0, 1, 0, 0, 1], bool)
    part = whole.part(sent, received, times_arrivals=True)
    assert part.send_rows.tolist() == [4, 2, 5]
    assert (part.send_counts, part.recv_counts, part.num_halo) == ([0, 2, 1], [0, 0, 2], 2)
    assert (part.num_local, part.recorder) == (NUM_LOCAL, whole.recorder)
    assert not part.times_arrivals


def test_where_all_is_made_no_row_is_exchanged():
    """Also of a worker that has no halo to begin with."""
    for counts in ([0, 3, 2], [0]):
        whole = exchanger_of(torch.arange(sum(counts)), counts, counts)
        nothing = np.zeros(sum(counts), bool)
        part = whole.part(nothing, nothing, times_arrivals=False)
        assert (len(part.send_rows), part.num_halo) == (0, 0)
        assert part.send_counts == part.recv_counts == [0] * len(counts)


@pytest.mark.parametrize("num_levels", [1, 8, 9])
def test_owners_are_told_what_each_receiver_wants(num_levels):
    """Of every row that they might send, level by level, however many there are."""
    made, rng = exchangers_of(COUNTS), np.random.default_rng(num_levels)
    wanted = [rng.random((num_levels, each.num_halo)) < 0.5 for each in made]
    told = in_threads([lambda each=each, own=own: each.agree(own) for each, own in zip(made, wanted)])
    by_owner = [np.split(own, np.cumsum(COUNTS[:, receiver])[:-1], axis=1) for receiver, own in enumerate(wanted)]
    for owner, found in enumerate(told):
        assert found.dtype == bool
        np.testing.assert_array_equal(found, np.concatenate([parts[owner] for parts in by_owner], axis=1))


def test_where_no_level_travels_nobody_is_asked():
    """There is no process group here that it could ask."""
    whole = exchanger_of(torch.arange(5), [0, 5], [0, 3])
    assert whole.agree(np.empty((0, 3), bool)).shape == (0, 5)


@pytest.fixture
def coming(monkeypatch):
    """Seconds from the begin of the next exchange until each peer's rows are here; worker 0's clock waits for them."""
    now_s, come_s = [100.0], {}

    def irecv(rows, peer):
        rows.fill_(float(peer))
        at_s = now_s[0] + come_s[peer]

        def wait():
            now_s[0] = max(now_s[0], at_s)

        return SimpleNamespace(wait=wait)

    def isend(rows, peer):
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(
        exchanger,
        "dist",
        SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda: 3, irecv=irecv, isend=isend),
    )
    monkeypatch.setattr(exchanger, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return come_s


def test_who_was_late_before_is_waited_for_last(coming):
    """Only who is waited for is seen to come: behind a late peer all others look as late, in the first exchange."""
    made = exchanger_of(torch.tensor([1, 0]), [0, 1, 1], [0, 2, 1], times_arrivals=True)
    arrived_s = []
    for come_s in ((1.0, 5.0), (1.0, 5.0), (7.0, 1.0), (7.0, 1.0)):
        coming.update({1: come_s[0], 2: come_s[1]})
        halo = made.fetch(torch.zeros(NUM_LOCAL, 2), STEP)
        assert halo.tolist() == [[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]
        arrived_s.append(made.arrived_s[STEP].tolist())
    assert arrived_s == [[0, 5, 5], [0, 1, 5], [0, 7, 7], [0, 7, 1]]
    assert made.recorder.sent_bytes == 4 * 2 * 2 * 4


def test_who_sends_nothing_is_not_waited_for(coming):
    """Its seconds are none, and what this worker sends it is no reason to hear from it."""
    coming[2] = 3.0
    made = exchanger_of(torch.tensor([1, 0]), [0, 2, 0], [0, 0, 1], times_arrivals=True)
    made.fetch(torch.zeros(NUM_LOCAL, 2), STEP)
    assert made.arrived_s[STEP].tolist() == [0, 0, 3]
