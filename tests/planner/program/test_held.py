"""Bytes held: each storage of a temporary once, nothing that stays, and only in a worker's own memory."""

import torch

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Value
from gnnplan.planner.program.sequential.held import HeldBytes


def held(**stored):
    """Of one worker, whose values a, b and c are temporaries; `cell` stays, and `away` lies on the host."""
    values = {name: Value(name, "v", 2) for name in "abc"}
    values |= {"cell": Value("cell", "v", 2, role="cell"), "away": Value("away", "v", 2, tier="host")}
    return HeldBytes(Cycle(1, values=values), {name: [each] for name, each in stored.items()})


def rows(count):
    """Of two columns, in float64: they count as they are trained, by four bytes an element."""
    return torch.zeros(count, 2, dtype=torch.float64)


def test_a_storage_counts_once_and_until_its_last_name_ends():
    """A view holds all of it."""
    bytes_of, whole = held(), rows(10)
    bytes_of.put("a", [whole])
    bytes_of.put("b", [whole[:3]])
    bytes_of.put("c", [rows(5)])
    assert bytes_of.num_bytes() == [4 * 2 * 15]
    bytes_of.drop("a")
    assert bytes_of.num_bytes() == [4 * 2 * 15]
    bytes_of.drop("b")
    assert bytes_of.num_bytes() == [4 * 2 * 5]


def test_what_stays_is_no_temporary():
    """Neither what stayed from before nor what is written to stay, by whatever name it is read."""
    before, after = rows(10), rows(7)
    bytes_of = held(cell=before)
    bytes_of.put("a", [before[2:]])
    assert bytes_of.num_bytes() == [0]
    bytes_of.put("cell", [after])
    assert bytes_of.num_bytes() == [4 * 2 * 10]  # what it was is held by the view alone
    bytes_of.put("b", [after])
    assert bytes_of.num_bytes() == [4 * 2 * 10]


def test_other_memory_and_nothing_count_for_nothing():
    """The host's, sparse rows, and values of a worker that is not here, which replace what it had."""
    bytes_of = held()
    bytes_of.put("away", [rows(10)])
    bytes_of.put("a", [torch.eye(3).to_sparse_csr()])
    bytes_of.put("b", [rows(4)])
    assert bytes_of.num_bytes() == [4 * 2 * 4]
    bytes_of.put("b", [None])
    assert bytes_of.num_bytes() == [0]
