"""Small sums in one step: the same numbers, chosen where they are predicted to be faster, and for no GPU."""

import pytest

from gnnplan.planner.cluster import resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.network import Network
from gnnplan.planner.readers.temporaries import temporary_bytes
from gnnplan.planner.search.decide import decide
from gnnplan.planner.techniques.direct_sum.kinds import seconds
from gnnplan.planner.techniques.direct_sum.technique import sums_bytes
from tests.planner.link_model import KIB, MBIT, MIB, LinkModel
from tests.planner.program.cases import EXACT
from tests.planner.techniques.halos import CASE, chosen, cycle_with

GRAPH = SbmGraph(source="sbm", num_nodes=200, average_degree=6, num_features=12, num_classes=3)
LATE = LinkModel((1, 1, 1, 1), (100 * MBIT,) * 4, latency_s=1e-3)


def cluster(folder, kind):
    """Four hosts whose sums wait for twice the latency of an exchange, on devices of a kind."""
    changes = {"device_kind": kind, "num_threads": 1}
    return resolve(LATE.cluster(folder, [profile.model_copy(update=changes) for profile in LATE.profiles()]))


def found(folder, kind="cpu", hidden=16, **pins):
    """What is chosen of direct sums on all four hosts."""
    pin = PinnedDecisions(num_workers=4, **pins)
    job = Job(graph=GRAPH, model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=hidden), pin=pin)
    best = decide(job, cluster(folder, kind), generate_sbm(GRAPH)).best
    return best, best.choice("direct_sum")


def test_training_is_the_same():
    """As in dense autograd, and with a lane of its own for what travels."""
    cycle = cycle_with(CASE, chosen("direct_sum"), chosen("overlap"))
    assert [op.kind for op in cycle.programs[cycle.order[0]] if op.key == "reduce"] == ["direct_sum"]
    assert CASE.off(cycle) < EXACT


def test_larger_sums_stay_rings():
    """Of two sizes the smaller one is direct."""
    (size,) = sums_bytes(cycle_with(CASE))
    for most, kind in ((size - 1, "all_reduce"), (size, "direct_sum")):
        cycle = cycle_with(CASE, chosen("direct_sum", most_bytes=most))
        assert {op.kind for op in cycle.programs[cycle.order[0]] if op.key == "reduce"} == {kind}


@pytest.mark.long
def test_it_is_chosen_where_a_step_costs_more_than_bytes(tmp_path):
    """By the tables of the profiles; where sums are large, and on GPUs, nothing is proposed."""
    network = Network(cluster(tmp_path, "cpu"))
    assert seconds(network, KIB) < network.all_reduce(KIB).seconds
    assert seconds(network, 4 * MIB) > network.all_reduce(4 * MIB).seconds
    best, choice = found(tmp_path)
    assert choice is not None
    assert choice.decision.most_bytes == max(sums_bytes(best.cycle))
    assert found(tmp_path, hidden=100_000)[1] is None
    assert found(tmp_path, "cuda")[1] is None
    assert found(tmp_path, techniques={"direct_sum": False})[1] is None
    assert found(tmp_path, "cuda", techniques={"direct_sum": True})[1] is not None


def test_copies_for_all_are_counted():
    """One for every worker, sent and received."""
    (size,) = sums_bytes(cycle_with(CASE))
    cycle = cycle_with(CASE, chosen("direct_sum"))
    op = next(op for op in cycle.programs[cycle.order[0]] if op.kind == "direct_sum")
    assert temporary_bytes(cycle, op, 0, on_cuda=False) == [3 * size, 3 * size]


def test_no_sum_is_faster_than_the_bound_says(tmp_path):
    """Neither way."""
    network = Network(cluster(tmp_path, "cpu"))
    for num_bytes in (4.0, KIB, 64 * KIB, MIB, 4 * MIB):
        both = network.all_reduce(num_bytes).seconds, seconds(network, num_bytes)
        assert network.least_sum_s(num_bytes) == pytest.approx(min(both))
