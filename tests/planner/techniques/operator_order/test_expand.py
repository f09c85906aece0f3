"""A filter's products and aggregations in either order: the same numbers, other widths."""

import pytest

from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.techniques.operator_order.attention import one_headed
from tests.planner.program.cases import EXACT, MODELS, ORDERS, Case, exact

LINEAR = ["gcn", "sage", "gin", "tagcn"]


def widths(cycle, kind: str) -> list[int]:
    """Of what every operator of a kind reads first."""
    return [cycle.values[op.reads[0]].width for op in cycle.programs["train"] if op.kind == kind]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_no_filter_is_left_and_numbers_stay(name, order):
    """In any mixture of orders over the layers."""
    case = Case(MODELS[name], 1, ORDERS[order])
    for program in case.forward().programs.values():
        assert not any(op.kind == "filter" for op in program)
    assert case.play().off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("name", LINEAR)
def test_an_aggregation_is_as_wide_as_its_order_says(name):
    """A layer aggregates its inputs' columns or its outputs', once a hop, with a product for each weight."""
    model = MODELS[name]
    hops, weights = {"tagcn": (2, 3), "sage": (1, 2)}.get(name, (1, 1))
    inputs = [5] + [6] * (model.num_layers - 1)
    outputs = [6] * (model.num_layers - 1) + [3]
    for order, want in (("aggregated", inputs), ("multiplied", outputs)):
        cycle = Case(model, 1, ORDERS[order]).forward()
        assert widths(cycle, "aggregate") == [width for width in want for _ in range(hops)]
        products = len(widths(cycle, "multiply")) - (model.num_layers if name == "gin" else 0)
        assert products == weights * model.num_layers


def test_one_head_sums_what_its_order_says():
    """Inputs or products; so do its scores, whose vectors are multiplied in place of the rows."""
    for order, want in (("aggregated", [5, 6]), ("multiplied", [6, 3])):
        cycle = Case(MODELS["one head"], 1, ORDERS[order]).forward()
        summed = [cycle.values[op.reads[1]].width for op in cycle.programs["train"] if op.kind == "weigh"]
        assert summed == want
        assert widths(cycle, "dot") == [width for width in want for _ in ("source", "target")]
        rows = [op for op in cycle.programs["train"] if op.kind == "multiply" and op.key.endswith("/multiply")]
        assert len(rows) == len(want)


def test_several_heads_multiply_first():
    """Each would sum all columns of its inputs."""
    one, other = (Case(MODELS["gat"], 1, ORDERS[order]).forward() for order in ("aggregated", "multiplied"))
    assert one.programs == other.programs


def test_products_that_others_read_stay():
    """Here a residual does."""
    cycle = Case(MODELS["one head"], 1).forward()
    assert set(one_headed(cycle, cycle.programs["train"])) == {"l0/weigh", "l1/weigh"}
    emitter = Emitter(cycle)
    emitter.begin(cycle.programs["train"])
    emitter.emit("add", "l0/multiply", "l0/weigh", key="l0/residual", factors=(1, 1))
    emitter.end("train")
    assert set(one_headed(emitter.cycle, emitter.cycle.programs["train"])) == {"l1/weigh"}


def test_keys_are_numbered_where_there_are_several():
    """So tasks of a trace say which hop they are."""
    keys = {name: [op.key for op in Case(MODELS[name], 1).forward().programs["train"]] for name in LINEAR}
    assert {"l0/multiply", "l0/aggregate"} <= set(keys["gcn"])
    assert {"l1/multiply0", "l1/multiply1", "l1/aggregate"} <= set(keys["sage"])
    assert {"l0/multiply0", "l0/multiply2", "l0/aggregate1", "l0/aggregate2"} <= set(keys["tagcn"])
    assert all(len(set(each)) == len(each) for each in keys.values())


def test_horners_rule_adds_products_on_the_way():
    """Each aggregation but a first one alone adds the next lower product, so none is summed by itself."""
    program = Case(MODELS["tagcn"], 1).forward().programs["train"]
    assert all(op.has_base for op in program if op.kind == "aggregate")
    assert not any(op.kind == "add" for op in program)
