"""A search without pins ends nowhere worse than one in which a technique is left out."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.model_spec import ModelSpec
from tests.planner.search.searched import found, sparse_graph

LEFT_OUT = ["first_aggregation", "replicas"]
CLOSE = 1 + 2e-3  # a descent gives up where a round gains a thousandth


def crowded():
    """Most rows are halo rows, and features are sparse: once aggregated they fill up."""
    spec = SbmGraph(source="sbm", num_nodes=1500, average_degree=60, num_classes=4, num_features=8, homophily=0.4)
    graph, features = generate_sbm(spec), sparse_graph(1500, 0.004).x
    rows = np.random.default_rng(0).integers(0, features.shape[0], graph.num_nodes)
    return replace(graph, x=features[rows])


@pytest.mark.long
@pytest.mark.parametrize("name", LEFT_OUT)
def test_no_plan_without_a_technique_is_faster(name):
    """Though rows that workers make suit what they were chosen beside."""
    graph, model = crowded(), ModelSpec(num_layers=3, hidden_channels=64)
    free = found(graph, model=model, on={"bytes_per_s": 2e8})
    without = found(graph, model=model, on={"bytes_per_s": 2e8}, techniques={name: False})
    assert free.best.epoch_s <= without.best.epoch_s * CLOSE
