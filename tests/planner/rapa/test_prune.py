"""Pruning evens out what a partition leaves uneven, and says what it took."""

import numpy as np
import pytest

from gnnplan.planner.halo import prune_halo
from gnnplan.planner.rapa.linear import LinearCost
from gnnplan.planner.rapa.optimum import heuristic_gap
from gnnplan.planner.rapa.pairs import HaloPairs
from gnnplan.planner.rapa.prune import balance_rows, prune_halos
from gnnplan.planner.rapa.seconds import SecondsCost
from tests.planner.rapa.problems import GRAPH, MULTIPLY, problem_of, trial_of

LAYERS = (MULTIPLY, MULTIPLY)


@pytest.fixture(scope="module")
def trial():
    """Equal parts on three devices, one behind a link of a fifth."""
    return trial_of(problem_of(link=(1e8, 1e8, 2e7)))


@pytest.fixture(scope="module")
def pruning(trial):
    """What is taken from them."""
    return prune_halos(trial, LAYERS)


def test_the_busiest_gets_less_to_do(pruning):
    """The largest lambda falls, and nearer to the mean."""
    assert pruning.after_s.max() < pruning.before_s.max()
    assert pruning.after_s.max() / pruning.after_s.mean() < pruning.before_s.max() / pruning.before_s.mean()
    assert 0 < pruning.pruned.shape[1] < pruning.num_pairs


def test_lambda_after_is_the_pruned_partitions(trial, pruning):
    """As a partition of its own."""
    less = trial_of(trial.problem, trial.part, prune_halo(trial.halo, pruning.pruned))
    pairs = HaloPairs.of(GRAPH, less.halo)
    assert SecondsCost(less, LAYERS)(pairs.loads(pairs.everything)) == pytest.approx(pruning.after_s)


def test_shares_are_of_what_there_was(trial, pruning):
    """Entries counted in the matrix; the least influential vertices went, so less influence than vertices."""
    less = prune_halo(trial.halo, pruning.pruned)
    dropped = sum(a.remote.nnz - b.remote.nnz for a, b in zip(trial.halo.blocks, less.blocks, strict=True))
    assert pruning.edge_share == pytest.approx(dropped / sum(shape.num_edges for shape in trial.shapes))
    assert 0 < pruning.influence_share < pruning.pruned.shape[1] / pruning.num_pairs


def test_rows_say_how_balance_changed(pruning):
    """One a case, with the figures above."""
    (row,) = balance_rows({"uneven": pruning})
    assert row["case"] == "uneven"
    assert row["max_s_after"] == pruning.after_s.max()
    assert row["max_over_mean_before"] == pytest.approx(pruning.before_s.max() / pruning.before_s.mean())
    assert row["max_over_mean_after"] < row["max_over_mean_before"]
    assert row["pruned_halo_share"] == pruning.pruned.shape[1] / pruning.num_pairs


def test_alone_there_is_nothing_to_prune():
    """One worker has no halo."""
    pruning = prune_halos(trial_of(problem_of(devices=("t4",))), LAYERS)
    assert pruning.pruned.shape == (2, 0)
    assert pruning.edge_share == 0
    np.testing.assert_array_equal(pruning.before_s, pruning.after_s)


def test_seconds_can_be_held_against_the_optimum():
    """A few dozen halo vertices of a real partition, their seconds drawn as lines."""
    part = np.zeros(GRAPH.num_nodes, np.int32)
    part[np.argsort(np.bincount(GRAPH.edge_index[1], minlength=GRAPH.num_nodes), kind="stable")[2000:2005]] = 1
    trial = trial_of(problem_of(devices=("t4", "t4"), link=(1e9, 1e4)), part)
    pairs = HaloPairs.of(GRAPH, trial.halo)
    assert 5 < len(pairs.worker) < 80
    gap = heuristic_gap(pairs, LinearCost.through(SecondsCost(trial, LAYERS), pairs.loads(pairs.everything)))
    assert gap.optimal_max_cost <= gap.heuristic_max_cost < gap.unpruned_max_cost
