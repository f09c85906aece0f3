"""Attention in slices: two numbers a vertex and head are shared, and its weights train as in one process."""

import pytest
import torch

from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.runtime.reference import dense_features, loss_of, pyg_forward
from tests.planner.program.cases import EXACT, MODELS, NUM_CLASSES, NUM_FEATURES, NUM_NODES, SEED, Case, worst
from tests.planner.techniques.feature_slices.sliced import sliced

FLOAT_BYTES = 4


def model_of(heads, num_layers=2):
    return MODELS["gat"].model_copy(update={"heads": heads, "num_layers": num_layers, "dropout": 0.0})


def gradients_by_autograd(model, graph):
    """Of every parameter, in float64."""
    net = build_pyg_model(model, NUM_FEATURES, NUM_CLASSES, SEED).double()
    x, edge_index = torch.from_numpy(dense_features(graph)).double(), torch.from_numpy(graph.edge_index).long()
    loss_of(pyg_forward(net, x, edge_index), torch.from_numpy(graph.y), torch.from_numpy(graph.train_mask)).backward()
    return {name: each.grad for name, each in net.named_parameters()}


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
def test_attention_weights_have_the_gradients_of_autograd(num_workers, heads):
    """On every worker, with uneven slices; no gradient is nothing."""
    case = Case(model_of(heads), num_workers)
    run = case.play(sliced(case), epochs=1)
    want = gradients_by_autograd(case.model, case.graph)
    vectors = [name for name in want if ".att_" in name]
    assert len(vectors) == 4
    for name in vectors:
        assert float(want[name].norm()) > 1e-4
        for got in run.grads[0][name]:
            assert worst(got.reshape(want[name].shape), want[name]) < EXACT, name


@pytest.mark.parametrize("num_layers", [2, 3])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_scores_share_two_numbers_a_vertex_and_head(heads, num_layers):
    """2 * V * heads floats come to each other worker in every layer, none for any edge, and as many go back."""
    case = Case(model_of(heads, num_layers), 3)
    cycle = sliced(case, shares=(1.0, 1.0, 1.0))
    found = exchanges_bytes(cycle, "train")
    shared = {op.key: op.attributes.get("back", False) for op in cycle.programs["train"] if op.kind == "exchange"}
    for way in (False, True):
        moved = sum(found[key].sum() for key, back in shared.items() if back == way)
        assert moved == num_layers * 2 * NUM_NODES * heads * (3 - 1) * FLOAT_BYTES
