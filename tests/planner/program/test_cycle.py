"""What is found of a cycle's programs is found once."""

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator


def test_each_function_is_asked_once_of_each_program():
    """Equal programs are two, and another cycle's are its own."""
    program, equal = ((Operator("op", "add", ("x", "x"), ("y",)),) for _ in range(2))
    asked = []

    def find(cycle, of):
        asked.append((id(cycle), id(of)))
        return len(asked)

    cycle = Cycle(1, {"train": program})
    assert [cycle.once(find, each) for each in (program, program, equal, program, equal)] == [1, 1, 2, 1, 2]
    assert cycle.once(len_of, program) == 1
    other = Cycle(1, {"train": program})
    assert other == cycle
    assert other.once(find, program) == 3


def len_of(_, program):
    """Another function's own."""
    return len(program)
