"""The halves of training programs."""

import pytest

from gnnplan.planner.program.halves import half_begins
from tests.planner.program.cases import MODELS, Case


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("passes", [("split", "storage"), ("split", "once", "overlap")])
def test_the_forward_half_is_what_an_evaluation_plays(name, passes):
    """Up to its hits; behind the loss stands what only training does."""
    cycle = Case(MODELS[name], 3, passes=passes).cycle()
    program, evaluation = cycle.programs["train"], cycle.programs["evaluate"]
    keys, shared = [op.key for op in program], {op.key for op in evaluation}
    forward, backward = half_begins(program)
    begins = keys.index(backward)
    assert keys.index(forward) == 0
    assert keys[begins - 1] == "loss"
    assert set(keys[: begins - 1]) <= shared
    assert shared.isdisjoint(keys[begins:])
