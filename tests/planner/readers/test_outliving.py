"""What operators hold beside the program: as many copies as they say, once for every key."""

import pytest

from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.readers.outliving import outliving_bytes
from tests.planner.composition.chosen import Chosen, composed

FLOAT_BYTES, K = 4, 3


def cycle_of(*techniques, average_epochs=0):
    """Techniques with partial reduce beside them."""
    chosen = Chosen("gcn", techniques)
    decision = PartialReduceDecision(max_staleness=K, min_group=2, average_epochs=average_epochs)
    return composed(chosen.case, [*chosen.choices(), Choice("partial_reduce", decision)])


def bytes_by_hand(cycle, worker):
    """Of an epoch that sends all rows: twice those of every exchange, and K times the sum's two vectors."""
    found = 0
    for op in cycle.programs[cycle.order[0]]:
        copies = {"exchange": 2, "all_reduce": K}.get(op.kind, 0)
        for name in (*op.reads, *op.writes) if copies else ():
            value = cycle.values[name]
            found += copies * FLOAT_BYTES * cycle.spaces[value.space].sizes[worker] * value.width
    return found


@pytest.mark.parametrize("techniques", [("halo_exchange",), ("joint_cache",), ("overlap",)], ids="+".join)
def test_copies_are_counted_once(techniques):
    """Rows that two programs exchange lie in one mailbox; on a GPU's worker the host has them."""
    cycle = cycle_of(*techniques)
    assert len(cycle.order) == (2 if techniques == ("joint_cache",) else 1)
    for worker in cycle.workers:
        assert outliving_bytes(cycle, worker) == bytes_by_hand(cycle, worker) > 0
        assert outliving_bytes(cycle, worker, on_cuda=True) == 0


def test_the_mean_of_the_weights_is_on_the_device():
    """Beside the parameters, as large as they are."""
    plain, averaged = cycle_of("halo_exchange"), cycle_of("halo_exchange", average_epochs=2)
    weights = sum(plain.num_bytes(name, 0) for name in plain.parameters)
    assert outliving_bytes(averaged, 0) - outliving_bytes(plain, 0) == weights
    assert outliving_bytes(averaged, 0, on_cuda=True) == weights


def test_nothing_outlives_where_all_wait_for_all():
    """Without partial reduce operators hold nothing."""
    chosen = Chosen("gcn", ("overlap",))
    assert outliving_bytes(composed(chosen.case, chosen.choices()), 0) == 0
