"""Which collectives go over the mailbox, and that what was handed to it stays as it was."""

import pytest
import torch

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.parts import Operator
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import Mailbox, Slot
from gnnplan.runtime.partial.peers import PartialWorkers
from gnnplan.runtime.recorder import Recorder

KEY, WIDTH = "l0/exchange", 3


class Held:
    """A mesh whose peers do not read yet."""

    def __init__(self):
        self.messages = []

    def post(self, peer, message, key):
        self.messages.append(message)


def exchange(*, lane="compute", **attributes):
    return Operator(KEY, "exchange", ("rows",), ("halo",), attributes, lane)


@pytest.fixture
def worker():
    """Worker 0 of two, which sends two rows and receives none; (peers, mesh)."""
    box, mesh = Mailbox(0, 2, [Slot(KEY, [0, 0], [0, 2], WIDTH)]), Held()
    box.open(mesh)
    late = Lateness.of(box, PartialReduceDecision(min_group=1), 100, 5.0)
    late.begin(7)
    return PartialWorkers(Recorder(torch.device("cpu")), late, lambda flat: flat * 2), mesh


@pytest.mark.parametrize("lane", ["compute", "network"])
def test_rows_are_sent_as_they_were(worker, lane):
    """A program may write over rows in place while they wait to be sent."""
    peers, mesh = worker
    rows = torch.arange(2.0 * WIDTH).view(2, WIDTH)
    with peers.on(exchange(lane=lane, late=True)):
        peers.exchange(torch.empty(0, WIDTH), rows, [0, 0], [0, 2])
    rows.fill_(-1)
    (message,) = mesh.messages
    assert torch.frombuffer(message.payload, dtype=torch.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert message.number == 7


def test_only_a_group_sums_by_who_is_ready(worker):
    """Another sum, as of a process that trains alone, is what it was."""
    peers, _ = worker
    flat = torch.ones(1, 4)
    with peers.on(Operator("reduce", "all_reduce", ("flat",), ("sum",), {"group": True})):
        assert peers.all_reduce(flat).tolist() == [[2.0] * 4]
    with peers.on(Operator("other", "all_reduce", ("flat",), ("sum",))):
        assert peers.all_reduce(flat).tolist() == [[1.0] * 4]
