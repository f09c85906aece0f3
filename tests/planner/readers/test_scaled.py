"""Programs on a share of the graph: rows and edges in proportion, all else as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.parts import parameter_space
from gnnplan.planner.readers.scaled import on_columns, on_share
from gnnplan.planner.readers.schedule import schedule_of
from tests.planner.search.searched import KINDS, found

ALONE = {kind: found("sbm", "one", model=ModelSpec(kind=kind, hidden_channels=32)).best for kind in KINDS}


@given(st.sampled_from(KINDS), st.floats(0.01, 1.0))
def test_rows_and_edges_are_in_proportion(kind, share):
    """To a row; parameters keep their shapes."""
    whole = ALONE[kind].cycle
    part = on_share(whole, share)
    for name, space in whole.spaces.items():
        if name == parameter_space(space.sizes[0]):
            assert part.spaces[name] == space
        else:
            assert part.spaces[name].sizes[0] == pytest.approx(share * space.sizes[0], abs=1)
    for name, block in whole.blocks.items():
        assert part.blocks[name].num_edges[0] == pytest.approx(share * block.num_edges[0], abs=1)
    assert part.parameters == whole.parameters
    assert part.programs == whole.programs


@pytest.mark.parametrize("kind", KINDS)
def test_less_of_the_graph_takes_less_time(kind):
    """But not in proportion: every task has its overhead."""
    setting = ALONE[kind].setting
    seconds = [
        sum(task.seconds for task in schedule_of(on_share(ALONE[kind].cycle, share), "train", setting.placement).tasks)
        for share in (1.0, 0.5, 0.1)
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[2] > 0.1 * seconds[0]


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_columns_take_less_time_in_every_sum_over_edges(kind):
    """All edges stay, and no operator but scores gets slower than it was with all columns."""
    cycle, setting = ALONE[kind].cycle, ALONE[kind].setting
    sums = {op.key for op in cycle.programs["train"] if op.kind in ("aggregate", "weigh")}
    whole, half = (
        {task.key: task.seconds for task in schedule_of(each, "train", setting.placement).tasks if task.key in sums}
        for each in (cycle, on_columns(cycle, 0.5))
    )
    assert len(sums) > 1
    assert all(half[key] < whole[key] for key in sums)
    assert on_columns(cycle, 0.5).blocks == cycle.blocks
