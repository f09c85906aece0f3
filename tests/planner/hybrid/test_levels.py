"""Widths and bytes of every level, as the operators of each model and order have them."""

import pytest

from gnnplan.planner.hybrid.levels import levels_of, sparse_row_bytes, why_not
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import LayerDecision, build_program

FIRST, AFTER = LayerDecision(op_order="aggregate_first"), LayerDecision(op_order="multiply_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)


def levels(kind, *layers, **more):
    model = ModelSpec(kind=kind, num_layers=len(layers), hidden_channels=8, **more)
    return levels_of(model, layers, num_features=100, num_classes=3)


def test_rows_travel_before_the_product_or_after_it():
    """A(XW) sends rows of the output's width, (AX)W of the input's; what is gathered is what travels."""
    assert levels("gcn", FIRST, FIRST, FIRST).row_widths == (100, 8, 8)
    multiplied = levels("gcn", AFTER, AFTER, AFTER)
    assert multiplied.row_widths == (8, 8, 3)
    assert multiplied.edge_widths == (0, 8, 8)


def test_aggregated_once_the_input_does_not_travel():
    """Level 1 is then made of one row held from before training, without an edge."""
    once = levels("gcn", ONCE, FIRST, FIRST)
    assert (once.first, once.num_hops) == (1, 1)
    assert once.row_widths == (0, 8, 8)
    assert once.edge_widths == (0, 0, 8)
    assert once.vertex_bytes == (0, 4 * (8 + 100), 4 * 8)
    assert once.entry_bytes == (0, 0, 8)
    assert levels("sage", ONCE, FIRST).vertex_bytes[1] == 4 * (8 + 2 * 100)


def test_a_replica_makes_its_row_and_the_product_that_travels():
    """Dense work is d(l), and the product's width where the next layer multiplies first."""
    assert levels("gcn", FIRST, FIRST, AFTER).vertex_widths == (0, 8, 8 + 3)
    assert levels("gcn", AFTER, FIRST, FIRST).vertex_widths == (8, 8, 8)
    assert levels("gcn", AFTER, FIRST, FIRST).vertex_bytes == (4 * (100 + 8), 4 * 8, 4 * 8)


def test_the_last_layer_of_gat_sends_all_heads():
    """It averages them after gathering."""
    assert levels("gat", AFTER, AFTER, heads=4).row_widths == (8, 12)


def test_tagcn_has_a_level_for_every_hop():
    """Only the last hop of a layer ends in a product, of all its hops; once aggregated, the first layer has none."""
    hops = levels("tagcn", FIRST, FIRST, num_hops=2)
    assert hops.row_widths == (100, 100, 8, 8)
    assert hops.edge_widths == (0, 100, 100, 8)
    assert hops.vertex_widths == (0, 0, 3 * 8, 0)
    assert hops.vertex_bytes == (4 * 100, 4 * 100, 4 * 8, 4 * 8)
    once = levels("tagcn", ONCE, FIRST, num_hops=2)
    assert (once.first, once.count, once.num_hops) == (2, 4, 1)
    assert once.row_widths == (0, 0, 8, 8)
    assert once.edge_widths == (0, 0, 0, 8)
    assert once.vertex_bytes[2] == 4 * (8 + 3 * 100)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "gat"])
@pytest.mark.parametrize("layers", [(AFTER, AFTER), (FIRST, FIRST), (ONCE, AFTER), (ONCE, FIRST), (FIRST, AFTER)])
def test_rows_have_the_width_that_the_program_gathers(kind, layers):
    """The levels and the program describe one model."""
    model = ModelSpec(kind=kind, num_layers=2, hidden_channels=8)
    if why_not(model, layers) or (kind == "gat" and FIRST in layers) or (kind == "gat" and ONCE in layers):
        return
    program = build_program(model, layers, num_features=100, num_classes=3, sparse_input=False)
    gathered = {step.layer: step.in_width for step in program.steps if step.op in ("aggregate", "attend")}
    widths = levels_of(model, layers, num_features=100, num_classes=3).row_widths
    assert {layer: width for layer, width in enumerate(widths) if width} == gathered


def test_models_without_replicas_say_why():
    """Both add a vertex's own row where only products travel."""
    tagcn, sage = (ModelSpec(kind=kind, num_layers=2) for kind in ("tagcn", "sage"))
    assert "between hops" in (why_not(tagcn, (FIRST, AFTER)) or "")
    assert why_not(tagcn, (ONCE, FIRST)) is None
    assert "own row" in (why_not(sage, (AFTER, FIRST)) or "")
    assert why_not(sage, (FIRST, AFTER)) is None


@pytest.mark.parametrize(
    ("kind", "layers", "num_bytes"),
    [
        ("gcn", (AFTER, AFTER), 64),
        ("gcn", (ONCE, AFTER), 96),
        ("sage", (ONCE, FIRST), 160),
        ("gcn", (FIRST, FIRST), None),
    ],
)
def test_sparse_input_rows_have_the_bytes_of_their_entries(kind, layers, num_bytes):
    """Twice, transpose included, in every hop that is held; by the mean of the workers' own rows, whatever F is."""
    model = ModelSpec(kind=kind, num_layers=2, hidden_channels=8)
    sizes = {"num_halo": 0, "num_sent": 0, "local_edges": 0, "remote_edges": 0, "num_train": 0}
    shapes = [WorkerShape(num_local=10, hop_entries=entries, **sizes) for entries in ((30, 50), (50, 70))]
    is_sparse = num_bytes is not None
    program = build_program(model, layers, num_features=100, num_classes=3, sparse_input=is_sparse)
    found = sparse_row_bytes(program, shapes)
    assert found == num_bytes
    dense, held = (levels_of(model, layers, 100, 3, input_bytes=given) for given in (None, found))
    dense_bytes = 4 * 100 * (2 if kind == "sage" else 1)
    less_bytes = dense_bytes - num_bytes if is_sparse else 0
    assert dense.vertex_bytes[dense.first] - held.vertex_bytes[held.first] == less_bytes


def test_sparse_input_rows_of_tagcn_are_held_once():
    """At the lowest level, as dense ones."""
    model = ModelSpec(kind="tagcn", num_layers=2, hidden_channels=8, num_hops=2)
    assert levels_of(model, (ONCE, FIRST), 100, 3, input_bytes=48).vertex_bytes[2] == 4 * 8 + 48
