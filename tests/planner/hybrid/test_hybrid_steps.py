"""The level of every step's rows rises with every gather, from the lowest that travels to the logits'."""

import pytest

from gnnplan.planner.hybrid.levels import levels_of, why_not
from gnnplan.planner.hybrid.steps import step_levels
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import LayerDecision, build_program

FIRST, AFTER = LayerDecision(op_order="aggregate_first"), LayerDecision(op_order="multiply_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
CASES = [
    (kind, layers)
    for kind in ("gcn", "sage", "gin", "gat", "tagcn")
    for layers in ((AFTER, AFTER, AFTER), (FIRST, FIRST, FIRST), (ONCE, FIRST, AFTER), (FIRST, FIRST, AFTER))
    if (kind != "gat" or layers == (AFTER, AFTER, AFTER))
    and why_not(ModelSpec(kind=kind, num_layers=3), layers) is None
] + [("tagcn", (ONCE, FIRST, FIRST))]


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_levels_and_steps_describe_one_model(kind, layers):
    """As many gathers as levels that travel, each over rows of its level's width; the last step has the logits."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=8, heads=2, num_hops=2)
    program = build_program(model, layers, num_features=100, num_classes=6, sparse_input=False)
    levels = levels_of(model, layers, num_features=100, num_classes=6)
    steps = step_levels(program, levels.first)
    gathers = [step for step in program.steps if step.op in ("aggregate", "attend")]
    assert [steps.rows[step.name] for step in gathers] == list(range(levels.first, levels.count))
    assert [step.in_width for step in gathers] == list(levels.row_widths[levels.first :])
    assert steps.count == levels.count
    assert steps.written(program.steps[-1]) == levels.count
    for step in program.steps:
        if step.keep:
            assert steps.rows[step.name] < steps.kept[step.name] <= levels.count


def test_rows_passed_on_are_those_of_the_layers_product():
    """TAGCN multiplies the rows of all its hops at once, after the last."""
    model = ModelSpec(kind="tagcn", num_layers=2, hidden_channels=8, num_hops=3)
    program = build_program(model, (FIRST, FIRST), num_features=5, num_classes=3, sparse_input=False)
    steps = step_levels(program, 0)
    assert steps.kept == {f"l{layer}/aggregate{k}": 3 * (layer + 1) for layer in (0, 1) for k in (1, 2, 3)}
    assert steps.rows["l0/combine"] == steps.rows["l0/activate"] == 3
