"""Link prediction gives the numbers of PyG in one process, however its vertices are shared out."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gnnplan.planner.composition.unable import unable
from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.link.split import link_graph
from gnnplan.planner.techniques.registry import techniques
from tests.planner.link.link_modules import CONVS, graph_with_pairs, net
from tests.planner.models.trained_modules import by_program, by_pyg, forward_of, workers_and_techniques
from tests.planner.program.cases import small_graph

EPOCHS = 4


@cache
def by_autograd(name):
    return by_pyg(net(name), graph_with_pairs(), EPOCHS)


@pytest.mark.parametrize(("num_workers", "technique"), workers_and_techniques(), ids=str)
@pytest.mark.parametrize("name", CONVS)
def test_trains_as_pyg_does(name, num_workers, technique):
    """Losses, parameters, and the ranks of edges; every pair is one worker's."""
    if name == "own code" and technique == "feature_slices":
        pytest.skip("slices of columns know sums over edges alone")
    got = by_program(net(name), graph_with_pairs(), num_workers, technique, EPOCHS)
    assert got.off(by_autograd(name)) <= 1e-5
    assert np.allclose(got.hits, by_autograd(name).hits, rtol=1e-6)


def test_pairs_are_trained_on():
    """The loss falls, and other pairs make other numbers."""
    losses = by_autograd("sage").losses
    assert losses[-1] < losses[0]
    other = link_graph(small_graph(), LinkSpec(width=5), 2)
    other = replace(graph_with_pairs(), pairs=other.pairs)
    assert by_pyg(net("sage"), other, EPOCHS).off(by_autograd("sage")) > 1e-3


def test_what_leaves_edges_out_is_refused():
    """Every pair counts."""
    forward = forward_of(net("gcn"), graph_with_pairs())
    refused = {each.name: words for each in techniques().values() if (words := unable(each, forward))}
    assert refused.keys() == {"pruning", "boundary_sampling", "source_chunks"}
    assert "a link prediction needs every pair" in refused["pruning"]
