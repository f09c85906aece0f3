"""Predicted bytes grow with the model, shrink with the share, and count what must be there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import ModelSpec, SbmGraph
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.memory import estimate_memory
from gnnplan.planner.partition import partition
from gnnplan.planner.shapes import WorkerShape, worker_shapes
from gnnplan.planner.steps import LayerDecision, build_program, num_hops
from gnnplan.profiles.catalog import catalog_profile

PROFILE = catalog_profile("rtx-3090")
MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]
CASES = [(kind, order) for kind in KINDS for order in ([MULTIPLY] if kind == "gat" else [MULTIPLY, AGGREGATE, ONCE])]
SHAPE = WorkerShape(
    num_local=1000, num_halo=200, num_sent=150, local_edges=9000, remote_edges=900, num_train=600,
    hop_entries=(32_000,) * 4,
)  # fmt: skip


def memory_of(
    kind="gcn", order=MULTIPLY, *, hidden=64, shape=SHAPE, sparse=False, num_layers=2, profile=PROFILE, adam=True
):
    """The estimate of a model with 32 features and 8 classes."""
    model = ModelSpec(kind=kind, hidden_channels=hidden, num_layers=num_layers)
    layers = (order, *[MULTIPLY if order is MULTIPLY else AGGREGATE] * (num_layers - 1))
    program = build_program(model, layers, num_features=32, num_classes=8, sparse_input=sparse)
    return estimate_memory(
        program, shape, profile, num_features=32, num_classes=8, num_workers=2, has_optimizer_state=adam
    )


@pytest.mark.parametrize(("kind", "order"), CASES)
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200))
def test_grows_with_the_hidden_width(kind, order, width, more):
    """Wider hidden layers need more weights and more activations."""
    small, large = (memory_of(kind, order, hidden=4 * extent) for extent in (width, width + more))
    assert small.parameter_bytes < large.parameter_bytes
    assert small.epoch_bytes < large.epoch_bytes
    assert small.peak_bytes <= large.peak_bytes
    assert (small.graph_bytes, small.input_bytes) == (large.graph_bytes, large.input_bytes)


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_shrinks_with_more_workers(kind, order):
    """Every worker of four holds less than one of two, and that less than one alone."""
    spec = SbmGraph(source="sbm", num_nodes=2000, average_degree=8, num_classes=8, num_features=32, homophily=0.95)
    graph = generate_sbm(spec)
    matrix = aggregation_matrix(2000, graph.edge_index, kind)
    peaks = []
    for num_workers in (1, 2, 4):
        part = partition(2000, graph.edge_index, num_workers, "metis")
        halo = build_halo(matrix, part, num_workers)
        hops = num_hops(ModelSpec(kind=kind))
        shapes = worker_shapes(graph, halo, num_hops=hops, sparse_features=False)
        peaks.append([memory_of(kind, order, shape=shape).peak_bytes for shape in shapes])
    assert peaks[0][0] > max(peaks[1]) > min(peaks[1]) > max(peaks[2])


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_grows_with_the_layers(kind, order):
    """Every layer's activations live until its backward."""
    estimates = [memory_of(kind, order, num_layers=count) for count in (2, 3, 4)]
    assert estimates[0].epoch_bytes < estimates[1].epoch_bytes < estimates[2].epoch_bytes


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_counts_at_least_what_backward_needs(kind, order):
    """The hidden activation and the logits are there at once, and a halo adds its rows."""
    estimate = memory_of(kind, order)
    assert estimate.epoch_bytes >= 1000 * (64 + 8) * 4
    alone = SHAPE.model_copy(update={"num_halo": 0, "num_sent": 0, "remote_edges": 0})
    assert memory_of(kind, order, shape=alone).peak_bytes < estimate.peak_bytes


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_nothing_to_hold_needs_nothing_but_the_model(kind, order):
    """A worker without vertices still has the parameters, and no negative bytes anywhere."""
    empty = WorkerShape(
        num_local=0, num_halo=0, num_sent=0, local_edges=0, remote_edges=0, num_train=0, hop_entries=(0,) * 4
    )
    estimate = memory_of(kind, order, shape=empty)
    assert estimate.epoch_bytes < 3 * 4 * (64 * 32 + 64 * 64 + 8 * 64) * 5  # weight gradients
    assert estimate.input_bytes == 0
    assert estimate.peak_bytes >= estimate.parameter_bytes > 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CASES), st.tuples(*[st.integers(0, 2000)] * 6), st.booleans())
def test_no_part_is_negative(case, sizes, sparse):
    """Whatever the share, every part is a number of bytes."""
    kind, order = case
    keys = ("num_local", "num_halo", "num_sent", "local_edges", "remote_edges", "num_train")
    shape = WorkerShape(**dict(zip(keys, sizes)), hop_entries=(sizes[0] * 5,) * 4)
    estimate = memory_of(kind, order, shape=shape, sparse=sparse and order is not AGGREGATE)
    parts = vars(estimate)
    assert min(parts.values()) >= 0
    assert estimate.peak_bytes >= sum(parts.values()) - parts["setup_bytes"]


def test_the_process_and_the_optimizer_are_counted():
    """A process starts with its base; Adam holds two moments that SGD has not."""
    base = memory_of(profile=PROFILE.model_copy(update={"process_base_bytes": 10**8}))
    assert base.peak_bytes == memory_of().peak_bytes + 10**8 - PROFILE.process_base_bytes
    parameters = 64 * 32 + 64 + 8 * 64 + 8
    assert memory_of(adam=False).parameter_bytes == 4 * parameters
    assert memory_of(adam=True).parameter_bytes == 3 * 4 * parameters


def test_setup_sets_the_peak_where_it_is_larger():
    """Precomputing holds features and result at once, which a narrow model never reaches in training."""
    estimate = memory_of("tagcn", ONCE, hidden=1, num_layers=1, adam=False)
    held = estimate.graph_bytes + estimate.input_bytes + estimate.parameter_bytes + estimate.epoch_bytes
    assert estimate.setup_bytes > held
    assert estimate.peak_bytes == estimate.base_bytes + estimate.setup_bytes


def test_filling_a_feature_cache_counts_in_the_setup():
    """Rows sent and received, and what comes of them, are there at once beside features, graph and weights."""
    model = ModelSpec(hidden_channels=1)
    program = build_program(model, (AGGREGATE, AGGREGATE), num_features=320, num_classes=8, sparse_input=False)
    cache = CacheDecision(num_rows=(200, 150), fresh_counts=((0, 0), (0, 0)))
    cpu = PROFILE.model_copy(update={"device_kind": "cpu"})
    plain, kept = (
        estimate_memory(program, SHAPE, cpu, num_features=320, num_classes=8, num_workers=2, cache=which,
                        has_optimizer_state=False)
        for which in (NO_CACHE, cache)
    )  # fmt: skip
    rows = SHAPE.num_local + SHAPE.num_halo + SHAPE.num_sent
    assert kept.setup_bytes >= plain.setup_bytes + 4 * 320 * rows
    assert kept.peak_bytes == kept.base_bytes + kept.setup_bytes


def test_sparse_features_save_memory_where_most_entries_are_zero():
    """CSR with its transpose costs four words an entry: below a quarter of the entries it saves."""
    few = SHAPE.model_copy(update={"hop_entries": (1000,) * 4})
    assert memory_of(shape=few, sparse=True).input_bytes < memory_of(shape=few).input_bytes
    assert memory_of(sparse=True).input_bytes > memory_of().input_bytes


def test_attention_needs_more_on_a_gpu():
    """Rows of every edge, on the device alone; other models have none."""
    cpu = PROFILE.model_copy(update={"device_kind": "cpu"})
    rows = 3 * 4 * SHAPE.num_edges * 64
    assert memory_of("gat").epoch_bytes > rows > memory_of("gat", profile=cpu).epoch_bytes
    for kind in ("gcn", "sage", "gin", "tagcn"):
        assert memory_of(kind).epoch_bytes <= memory_of(kind, profile=cpu).epoch_bytes


def test_graph_bytes_are_both_directions_of_the_matrix():
    """Values and columns of A and of its transpose, plus row pointers."""
    entries = SHAPE.num_edges * 2 * (4 + 4)
    assert entries < memory_of().graph_bytes < 1.2 * entries
    assert np.isclose(memory_of("gat").graph_bytes, SHAPE.num_edges * 3 * 8, rtol=0.2)
