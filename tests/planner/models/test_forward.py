"""Models are PyG's: their parameters by name and shape, their widths, and what is dropped and counted when."""

import numpy as np
import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle, layer_widths, num_levels
from gnnplan.planner.models.layers import LAYERS
from gnnplan.planner.models.pyg_models import build_pyg_model
from tests.planner.program.cases import MODELS, NUM_CLASSES, NUM_FEATURES, Case

SPECS = [
    ModelSpec(kind=kind, num_layers=layers, hidden_channels=8, heads=heads, num_hops=hops, dropout=0.5)
    for kind in LAYERS
    for layers, heads, hops in ((1, 1, 1), (2, 4, 3), (4, 2, 2))
]


def cycle_of(model: ModelSpec):
    return Case(model, 1).forward()


@pytest.mark.parametrize("model", SPECS, ids=lambda m: f"{m.kind}-{m.num_layers}")
def test_parameters_are_those_of_the_state_dict(model):
    """By key and by shape, so checkpoints load in PyG; GIN's epsilon, which is not trained, stays zero there."""
    net = build_pyg_model(model, NUM_FEATURES, NUM_CLASSES, 0)
    want = {name: tuple(value.shape) for name, value in net.named_parameters()}
    got = cycle_of(model).parameters
    assert got == want
    assert all(name.endswith(".eps") and not value.any() for name, value in net.named_buffers())


@pytest.mark.parametrize("model", SPECS, ids=lambda m: f"{m.kind}-{m.num_layers}")
def test_levels_count_aggregations(model):
    """From the features at level 0 to the logits at the last."""
    cycle = cycle_of(model)
    levels = num_levels(model)
    each = model.num_hops if model.kind in ("tagcn", "sgc") else 1
    assert levels == (model.num_hops if model.is_decoupled else model.num_layers * each)
    assert {space.level for space in cycle.spaces.values() if space.is_of_vertices} == set(range(levels + 1))
    (loss,) = (op for op in cycle.programs["train"] if op.kind == "loss")
    logits = cycle.values[loss.reads[0]]
    assert (logits.space, logits.width) == (f"v@{levels}", NUM_CLASSES)
    gathers = [op.attributes["block"] for op in cycle.programs["train"] if op.kind in ("aggregate", "weigh")]
    assert gathers == [f"A@{level}" for level in range(levels)]


@pytest.mark.parametrize("model", SPECS, ids=lambda m: f"{m.kind}-{m.num_layers}")
def test_dropout_is_training_s_alone(model):
    """Between layers, in training and not in evaluation; the last layer makes logits, without ReLU."""
    cycle = cycle_of(model.model_copy(update={"input_dropout": 0.2}))
    dropped = {}
    for name, program in cycle.programs.items():
        outer = [op for op in program if op.kind == "activate" and not op.key.endswith("inner")]
        assert [op.attributes["relu"] for op in outer] == [True] * (model.num_layers - 1) + [False]
        dropped[name] = [op.attributes["dropout"] for op in outer]
        assert any(op.kind == "dropout" for op in program) == (name == "train")
    assert dropped == {"train": [0.5] * (model.num_layers - 1) + [0.0], "evaluate": [0.0] * model.num_layers}


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_counts_what_is_right(name):
    """For every split, of what was trained."""
    run = Case(MODELS[name], 1).play()
    graph = run.case.graph
    hits = run.executor.run("evaluate")["hits"][0]
    oracle, _ = run.case.oracle()
    right = oracle.evaluate().argmax(1).numpy() == graph.y
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    assert hits.tolist() == [[right[mask].sum(), mask.sum()] for mask in masks]


def test_independent_labels_count_true_positives_twice():
    """The two columns are the numerator and the denominator of micro-averaged F1."""
    case = Case(MODELS["gcn"], 1, multilabel=True)
    run = case.play()
    oracle, _ = case.oracle()
    said, graph = oracle.evaluate().numpy() > 0, case.graph
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    want = [[2 * (said & (graph.y > 0))[m].sum(), said[m].sum() + (graph.y > 0)[m].sum()] for m in masks]
    assert run.executor.run("evaluate")["hits"][0].tolist() == want
    assert np.sum(want) > 0


def test_the_loss_is_divided_by_what_counts():
    """Training vertices, times classes where labels are independent."""
    matrix = Case(MODELS["gcn"], 1).forward().arrays.matrices["A@0"][0]
    masks = tuple(np.arange(36) % 3 == i for i in range(3))
    one, many = (Task(matrix, 5, 7, masks, is_multilabel=multilabel) for multilabel in (False, True))
    assert (one.loss_denominator, many.loss_denominator) == (12, 84)
    assert forward_cycle(MODELS["gcn"], many, seed=0).values["y"].width == 7
    assert one.num_nodes == 36


def test_widths_go_from_features_to_classes():
    """Hidden ones in between; GAT's count all heads."""
    model = ModelSpec(kind="gat", num_layers=3, hidden_channels=8, heads=2)
    assert layer_widths(model, 5, 3) == [(5, 8), (8, 8), (8, 3)]
    cycle = cycle_of(model)
    products = [cycle.values[op.writes[0]].width for op in cycle.programs["train"] if op.kind == "multiply"]
    assert products == [8, 8, 2 * 3]
