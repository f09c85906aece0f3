"""Every program is a well-formed list of steps over the parameters of the PyG model."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import LayerDecision, build_program, layer_widths, num_hops
from gnnplan.runtime.reference import build_pyg_model

FEATURES, CLASSES, HIDDEN = 7, 5, 12
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]
MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)


def model_of(kind, num_layers=2, **extra):
    """A small model of a kind."""
    return ModelSpec(kind=kind, num_layers=num_layers, hidden_channels=HIDDEN, heads=3, num_hops=2, **extra)


def program_of(kind, *layers, sparse=False, **extra):
    """The program of a small model under the given decisions."""
    model = model_of(kind, len(layers), **extra)
    return build_program(model, layers, num_features=FEATURES, num_classes=CLASSES, sparse_input=sparse)


@st.composite
def programs(draw):
    """(kind, program, layers) over every order the planner may choose."""
    kind = draw(st.sampled_from(KINDS))
    first = [MULTIPLY] if kind == "gat" else [MULTIPLY, AGGREGATE, ONCE]
    later = [MULTIPLY] if kind == "gat" else [MULTIPLY, AGGREGATE]
    rest = draw(st.lists(st.sampled_from(later), max_size=3))
    layers = (draw(st.sampled_from(first)), *rest)
    dropout = draw(st.sampled_from([0.0, 0.5]))
    return kind, program_of(kind, *layers, sparse=draw(st.booleans()), dropout=dropout), layers


def every_choice():
    """(kind, layers) for one to three layers."""
    for kind in KINDS:
        orders = [MULTIPLY] if kind == "gat" else [MULTIPLY, AGGREGATE]
        for num_layers in (1, 2, 3):
            for first in [*orders, *([] if kind == "gat" else [ONCE])]:
                for rest in product(orders, repeat=num_layers - 1):
                    yield kind, (first, *rest)


@settings(deadline=None, max_examples=200)
@given(programs())
def test_inputs_are_defined_before_use(drawn):
    """Steps read only the input, what is precomputed, and what earlier steps made; nothing is made twice."""
    _, program, _ = drawn
    defined = set(program.precomputed) if program.num_hops_precomputed else {"x"}
    for step in program.steps:
        used = {*step.inputs, *([step.base] if step.base else [])}
        assert used <= defined, step
        made = [*step.outputs, *([step.keep] if step.keep else [])]
        assert not set(made) & defined, step
        defined |= set(made)
    assert program.steps[-1].outputs == ("logits",)


@settings(deadline=None, max_examples=200)
@given(programs())
def test_step_names_are_unique(drawn):
    """Task keys are made of step names, so no two steps share one."""
    _, program, layers = drawn
    names = [step.name for step in program.steps]
    assert len(set(names)) == len(names)
    assert {step.layer for step in program.steps} == set(range(len(layers)))
    assert all(step.name.startswith(f"l{step.layer}/") for step in program.steps)


@settings(deadline=None, max_examples=200)
@given(programs())
def test_widths_fit_from_step_to_step(drawn):
    """Every value has the width its reader expects, and every weight the widths of its step."""
    _, program, _ = drawn
    width = {"x": FEATURES, **dict.fromkeys(program.precomputed, FEATURES)}
    for step in program.steps:
        assert all(width[name] == step.in_width for name in step.inputs), step
        if step.base:
            assert width[step.base] == step.out_widths[0]
        width |= dict(zip(step.outputs, step.out_widths, strict=True))
        if step.keep:
            width[step.keep] = step.in_width
        if step.op in ("multiply", "combine"):
            outs = step.out_widths * (len(step.weights) if step.op == "combine" else 1)
            shapes = [program.weight_shapes[key] for key in step.weights]
            assert shapes == [(out, step.in_width) for out in outs]
    assert width["logits"] == CLASSES


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_the_pyg_model(kind, num_layers):
    """Keys and shapes equal the PyG model's state_dict under every order, so checkpoints load there."""
    net = build_pyg_model(model_of(kind, num_layers), FEATURES, CLASSES, seed=0)
    trained = {key: tuple(value.shape) for key, value in net.named_parameters()}
    for _, layers in (choice for choice in every_choice() if choice[0] == kind and len(choice[1]) == num_layers):
        program = program_of(kind, *layers)
        assert program.weight_shapes == trained
        assert program.weight_shapes.keys() <= net.state_dict().keys()
        assert program.num_parameters == sum(parameter.numel() for parameter in net.parameters())


@settings(deadline=None, max_examples=200)
@given(programs())
def test_every_weight_is_used_exactly_once(drawn):
    """No parameter is left out of the program, none is applied twice."""
    _, program, _ = drawn
    used = [key for step in program.steps for key in (*step.weights, *([step.bias] if step.bias else []))]
    assert sorted(used) == sorted(program.weight_shapes)


@pytest.mark.parametrize(
    ("kind", "precomputed"),
    [("gcn", ("x1",)), ("gin", ("x1",)), ("sage", ("x0", "x1")), ("tagcn", ("x0", "x1", "x2"))],
)
def test_precomputed_are_the_hops_the_first_layer_reads(kind, precomputed):
    """GCN and GIN need the aggregated features alone, SAGE and TAGCN every hop beside the features."""
    program = program_of(kind, ONCE, AGGREGATE)
    assert program.precomputed == precomputed
    assert program.num_hops_precomputed == num_hops(model_of(kind))
    assert not any(step.op == "aggregate" for step in program.steps if step.layer == 0)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_precomputed_unless_decided(kind):
    """Without the decision the program starts from `x`."""
    program = program_of(kind, MULTIPLY, MULTIPLY)
    assert program.precomputed == ()
    assert program.num_hops_precomputed == 0
    assert any("x" in step.inputs for step in program.steps)


@pytest.mark.parametrize(("kind", "layers"), list(every_choice()))
def test_constants_are_what_comes_from_the_features_alone(kind, layers):
    """A step is constant where no parameter stands before it, so only such steps skip their input's gradient."""
    program = program_of(kind, *layers, sparse=True)
    depends = set()
    for step in program.steps:
        inputs = {*step.inputs, *([step.base] if step.base else [])}
        trained_before = bool(inputs & depends)
        assert step.constant == (not trained_before), step
        assert step.sparse == step.constant, step
        if trained_before or step.weights or step.bias:
            depends |= set(step.outputs)
    assert "logits" in depends


@pytest.mark.parametrize("kind", KINDS)
def test_relu_and_dropout_stand_between_layers_only(kind):
    """The last layer's output is neither cut nor dropped; GIN's inner ReLU never drops."""
    program = program_of(kind, MULTIPLY, MULTIPLY, MULTIPLY, dropout=0.25)
    ends = [step for step in program.steps if step.name.endswith("/activate")]
    assert [(step.relu, step.dropout) for step in ends] == [(True, 0.25), (True, 0.25), (False, 0.0)]
    inner = [step for step in program.steps if step.name.endswith("/activate_inner")]
    assert all(step.relu and step.dropout == 0.0 for step in inner)
    assert len(inner) == (3 if kind == "gin" else 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [MULTIPLY, AGGREGATE])
def test_every_layer_aggregates_as_often_as_it_has_hops(kind, order):
    """Either order exchanges equally often; GAT exchanges once a layer."""
    program = program_of(kind, *([MULTIPLY] * 3 if kind == "gat" else [order] * 3))
    counted = [sum(step.op in ("aggregate", "exchange") for step in program.steps if step.layer == k) for k in range(3)]
    assert counted == [num_hops(model_of(kind))] * 3


def test_order_sets_the_width_that_is_aggregated():
    """Multiplied first the output's width is aggregated, else the input's."""
    widths = {}
    for order in (MULTIPLY, AGGREGATE):
        steps = program_of("gcn", order, order).steps
        widths[order.op_order] = [step.in_width for step in steps if step.op == "aggregate"]
    assert widths == {"multiply_first": [HIDDEN, CLASSES], "aggregate_first": [FEATURES, HIDDEN]}


def test_layer_widths_run_from_features_to_classes():
    """One layer goes straight from features to classes."""
    assert layer_widths(model_of("gcn", 3), 7, 5) == [(7, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 5)]
    assert layer_widths(model_of("gcn", 1), 7, 5) == [(7, 5)]
