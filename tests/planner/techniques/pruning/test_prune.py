"""Pruning evens out what a partition leaves uneven, and says what it took."""

import numpy as np
import pytest

from benchmarks._pruning import balance_rows, prune_plan
from benchmarks.oracles.best_pruning import heuristic_gap
from benchmarks.oracles.linear_cost import line_of_seconds
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.techniques.pruning.prune import cost_of, prune_halos
from gnnplan.planner.what_if import one_host, plan_variants
from tests.planner.techniques.pruning.problems import GRAPH, candidate_of, own_s, pruned


@pytest.fixture(scope="module")
def candidate():
    """Equal parts on three devices, one behind a link of a fifth."""
    return candidate_of(link=(1e8, 1e8, 2e7))


@pytest.fixture(scope="module")
def pruning(candidate):
    """What is taken from them."""
    return prune_halos(candidate)


def test_the_busiest_gets_less_to_do(pruning):
    """The largest lambda falls, and nearer to the mean."""
    assert pruning.after_s.max() < pruning.before_s.max()
    assert pruning.after_s.max() / pruning.after_s.mean() < pruning.before_s.max() / pruning.before_s.mean()
    assert 0 < (~pruning.kept).sum() < len(pruning.kept)


def test_lambda_after_is_the_pruned_candidates(candidate, pruning):
    """Its own tasks and ports, to 2%: between the sizes that were priced there are lines."""
    less = pruned(candidate, cost_of(candidate), pruning.kept)
    after = cost_of(candidate)
    left = after.pairs.loads(pruning.kept)
    assert after.compute_s(left) == pytest.approx(own_s(less), rel=0.02)
    assert pruning.after_s == pytest.approx(own_s(less) + after.communicate_s(left), rel=0.02)


def test_shares_are_of_what_there_was(candidate, pruning):
    """Entries counted in the blocks; the least influential vertices went, so less influence than vertices."""
    less = pruned(candidate, cost_of(candidate), pruning.kept)
    (before, after) = (sum(each.cycle.blocks["A@1"].num_edges) for each in (candidate, less))
    assert pruning.num_edges == before - after
    assert pruning.edge_share == pytest.approx(1 - after / before)
    assert 0 < pruning.influence_share < pruning.vertex_share


def test_rows_say_how_balance_changed(pruning):
    """One a case, with the figures above."""
    (row,) = balance_rows({"uneven": pruning})
    assert row["case"] == "uneven"
    assert row["max_s_after"] == pruning.after_s.max()
    assert row["max_over_mean_before"] == pytest.approx(pruning.before_s.max() / pruning.before_s.mean())
    assert row["max_over_mean_after"] < row["max_over_mean_before"]
    assert row["pruned_halo_share"] == pruning.vertex_share


def test_alone_there_is_nothing_to_prune():
    """One worker has no halo."""
    pruning = prune_halos(candidate_of(devices=("t4",)))
    assert len(pruning.kept) == pruning.edge_share == 0
    np.testing.assert_array_equal(pruning.before_s, pruning.after_s)


def test_a_plan_is_pruned_in_its_own_partition():
    """Lambda of the slow device falls; what is pruned are vertices that others own."""
    spec = SbmGraph(source="sbm", num_nodes=3000, average_degree=15, num_classes=4, num_features=64)
    pin = PinnedDecisions(partitioner="metis", op_order="multiply_first", balance="equal", num_workers=2)
    job, graph = Job(graph=spec, model=ModelSpec(hidden_channels=128), pin=pin), generate_sbm(spec)
    found = plan_variants({"equal": job}, one_host("box", ("rtx-3090", "gtx-1660ti")), graph)["equal"]
    pruning = prune_plan(found.plan, found.partition, graph)
    assert pruning.before_s[1] > pruning.before_s[0]
    assert pruning.after_s[1] < pruning.before_s[1]
    gone = ~pruning.kept
    assert (found.partition.part[pruning.pairs.vertex[gone]] != pruning.pairs.worker[gone]).all()
    assert (found.partition.part[pruning.pairs.vertex] == pruning.pairs.owner).all()


def test_seconds_can_be_held_against_the_optimum():
    """A few dozen halo vertices of a real partition, their seconds drawn as lines."""
    part = np.zeros(GRAPH.num_nodes, np.int32)
    part[np.argsort(np.bincount(GRAPH.edge_index[1], minlength=GRAPH.num_nodes), kind="stable")[2000:2005]] = 1
    cost = cost_of(candidate_of(devices=("t4", "t4"), link=(1e9, 1e4), part=part))
    assert 5 < len(cost.pairs.worker) < 80
    gap = heuristic_gap(cost.pairs, line_of_seconds(cost))
    assert gap.optimal_max_cost <= gap.heuristic_max_cost < gap.unpruned_max_cost
