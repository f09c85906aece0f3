"""Clocks that differ are told from each other by messages there and back."""

import threading
import time
from queue import Queue
from types import SimpleNamespace

import pytest
import torch

from gnnplan.runtime.hybrid import clocks
from tests.runtime.partial.meshed import in_threads

AHEAD_S = (0.0, 12.5, -3600.0)
SIZE = len(AHEAD_S)


@pytest.fixture
def clocks_of_threads(monkeypatch):
    """Threads with a clock each, and messages between them that take a moment."""
    own, boxes = threading.local(), {(a, b): Queue() for a in range(SIZE) for b in range(SIZE)}

    def send(tensor, peer):
        time.sleep(0.002)
        boxes[own.rank, peer].put(tensor.clone())

    def recv(tensor, peer):
        tensor.copy_(boxes[peer, own.rank].get(timeout=20))

    monkeypatch.setattr(
        clocks,
        "dist",
        SimpleNamespace(get_rank=lambda: own.rank, get_world_size=lambda: SIZE, send=send, recv=recv),
    )
    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + AHEAD_S[own.rank]))
    return own


def test_each_learns_how_far_it_is_behind(clocks_of_threads):
    """To within what the quickest message took."""

    def one(rank):
        clocks_of_threads.rank = rank
        return clocks.seconds_behind(torch.device("cpu"))

    found = in_threads([lambda rank=rank: one(rank) for rank in range(SIZE)])
    assert found == pytest.approx([-seconds for seconds in AHEAD_S], abs=0.5)
    assert found[0] == 0.0
