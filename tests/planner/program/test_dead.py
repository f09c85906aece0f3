"""Operators that nobody needs go, and no other."""

from hypothesis import given, settings

from gnnplan.planner.program.dead import without_dead
from tests.planner.program.random_programs import played, random_cycles


@settings(max_examples=60)
@given(random_cycles())
def test_what_results_and_cells_depend_on_stays(cycle):
    """What stays is what can be reached from results and cells, in its order; the results are as they were."""
    by_write = {op.writes[0]: op for op in cycle.programs["train"]}
    needed, todo = set(), [name for name in by_write if name in cycle.results or cycle.values[name].role == "cell"]
    while todo:
        name = todo.pop()
        if name in by_write and name not in needed:
            needed.add(name)
            todo += by_write[name].reads
    alive = without_dead(cycle)
    assert alive.programs["train"] == tuple(op for op in cycle.programs["train"] if op.writes[0] in needed)
    assert without_dead(alive).programs == alive.programs
    before, after = played(cycle), played(alive)
    assert all(before[name].equal(after[name]) for name in after)
