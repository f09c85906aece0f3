"""Written operators have names of their own and the shapes of their kinds."""

from dataclasses import replace

import pytest

from gnnplan.planner.program.aliases import owners
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Index, Space, Value


def emitter_with_rows() -> Emitter:
    emitter = Emitter(Cycle(2, spaces={"rows": Space("rows", (4, 3))}))
    emitter.add_value(Value("x", "rows", 5, role="input"))
    return emitter


def test_a_key_that_is_taken_gets_a_number():
    """So tasks of a trace are told apart."""
    emitter = emitter_with_rows()
    assert [emitter.emit("scale", "x", key="twice", factor=2) for _ in range(3)] == ["twice", "twice.2", "twice.3"]


def test_shapes_follow_from_kinds():
    """Of several values too, each with its own name; parameters are matrices."""
    emitter = emitter_with_rows()
    emitter.add_parameter("w", 7, 5)
    emitter.add_parameter("b", 7)
    emitter.add_parameter("a", 1, 2, 3)
    z = emitter.emit("multiply", "x", "w", key="z")
    out = emitter.emit("activate", z, "b", key="out", relu=True, dropout=0.0, layer=0)
    pair = emitter.emit_all("activate_grad", out, out, key="pair", dropout=0.0)
    cycle = emitter.cycle
    shapes = {name: (value.space, value.width) for name, value in cycle.values.items()}
    assert pair == ("pair", "pair#1")
    assert shapes == {
        "x": ("rows", 5), "w": ("r7", 5), "b": ("r1", 7), "a": ("r1", 6), "z": ("rows", 7), "out": ("rows", 7),
        "pair": ("rows", 7), "pair#1": ("r1", 7),
    }  # fmt: skip
    assert [cycle.num_bytes("z", worker) for worker in cycle.workers] == [4 * 4 * 7, 4 * 3 * 7]
    assert cycle.spaces["r7"].sizes == (7, 7)
    assert cycle.parameters == {"w": (7, 5), "b": (7,), "a": (1, 2, 3)}


def test_values_of_two_programs_are_told_apart_where_their_shapes_differ():
    """Keys are those of a program; values are those of all. One that is made again as it was keeps its name."""
    emitter = emitter_with_rows()
    emitter.add_value(Value("y", "rows", 9, role="input"))
    made = {}
    for program, read in (("train", "x"), ("evaluate", "y"), ("again", "y"), ("infer", "x")):
        emitter.begin()
        made[program] = emitter.emit("scale", read, key="twice", factor=2)
        emitter.end(program)
    assert made == {"train": "twice", "evaluate": "twice~2", "again": "twice~2", "infer": "twice"}
    assert {op.key for op in emitter.cycle.operators()} == {"twice"}
    assert [emitter.cycle.values[name].width for name in ("twice", "twice~2")] == [5, 9]


def test_the_cycle_that_was_there_stays_as_it_was():
    """A pass makes a new cycle."""
    emitter = emitter_with_rows()
    emitter.emit("scale", "x", key="a", factor=2)
    emitter.end("train")
    before = emitter.cycle
    names, other = set(before.values), Emitter(before)
    other.begin()
    other.emit("scale", "x", key="b", factor=2)
    other.end("train")
    assert set(before.values) == names
    assert [op.key for op in before.programs["train"]] == ["a"]
    assert [op.key for op in other.cycle.programs["train"]] == ["b"]


def test_what_is_written_keeps_the_role_it_had():
    """A cell stays a cell when a pass writes its operator again."""
    emitter = emitter_with_rows()
    emitter.emit("scale", "x", key="a", factor=2)
    emitter.add_value(replace(emitter.cycle.values["a"], role="cell"))
    (op,) = emitter.operators
    emitter.begin()
    emitter.append(op)
    assert emitter.cycle.values["a"].role == "cell"


def test_rows_in_an_unknown_space_are_refused():
    """A value's rows are somewhere."""
    with pytest.raises(AssertionError, match="nowhere"):
        emitter_with_rows().add_value(Value("y", "nowhere", 1))


def test_views_and_what_is_written_in_place_lie_where_they_were():
    """Also through each other; cells and parameters lie in their own storage."""
    emitter = emitter_with_rows()
    emitter.add_space(Space("front", (2, 1)))
    emitter.add_index(Index("front", "rows", "front", True))
    emitter.add_index(Index("picked", "rows", "front"))
    emitter.emit("scale", "x", key="a", factor=2)
    emitter.emit("take", "a", key="view", index="front")
    emitter.emit("take", "a", key="copy", index="picked")
    emitter.emit("scale", "view", key="again", factor=2)
    program = tuple(replace(op, inplace=0) if op.key == "again" else op for op in emitter.operators)
    assert owners(emitter.cycle, program) == {"view": "a", "again": "a"}
