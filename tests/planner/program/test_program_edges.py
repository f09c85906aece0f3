"""Any order that keeps the edges gives the same bits, so the edges are enough; and all kinds of them are needed."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.program import edges as module
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.edges import awaited, edges
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.parts import Space, Value
from gnnplan.planner.program.storage import reuse_storage
from tests.planner.program.cases import MODELS, ORDERS, PASSES, Case, Run, codes, subset, topological, watched
from tests.planner.program.random_programs import ROWS, WIDTH, played

PLAYED = [("gcn", "mixed"), ("sage", "aggregated"), ("gin", "multiplied"), ("tagcn", "mixed"), ("gat", "multiplied")]


def case_of(name: str, order: str) -> Case:
    """With everything that writes into what is there: cells, storage in place, bases."""
    model = MODELS[name]
    chosen = {Label.MADE: subset(model, 3, 1, 0.3), Label.KEPT: subset(model, 3, 2, 0.3)}
    return Case(model, 3, ORDERS[order], codes(model, 3, chosen), PASSES, interval=2)


def in_random_order(case: Case, cycle, seed: int, epochs: int = 3) -> Run:
    rng, run = np.random.default_rng(seed), Run(case, watched(cycle))
    run.train(range(epochs), lambda cycle, program: topological(cycle, program, rng))
    return run


def same(one: Run, other: Run) -> bool:
    """Bit by bit, on all workers."""
    return one.losses == other.losses and all(
        np.array_equal(a.numpy(), b.numpy())
        for name in one.params
        for a, b in zip(one.params[name], other.params[name])
    )


@pytest.mark.long
@settings(max_examples=3)
@given(st.integers(0, 10**6))
@pytest.mark.parametrize(("name", "order"), PLAYED)
def test_any_order_of_the_edges_gives_the_same_bits(name, order, seed):
    case = case_of(name, order)
    cycle = case.cycle()
    assert same(in_random_order(case, cycle, seed), case.play(cycle))


def overwriting() -> Cycle:
    """Reads a temporary and a cell and writes over both; in today's models the data alone puts that in order."""
    spaces = {"rows": Space("rows", (ROWS,))}
    emitter = Emitter(Cycle(1, spaces=spaces))
    for name, role in (("x", "input"), ("y", "input"), ("cell", "cell")):
        emitter.add_value(Value(name, "rows", WIDTH, role=role))
    first = emitter.emit("scale", "x", key="first", factor=2)
    emitter.emit("add", first, "y", key="of a temporary", factors=(1, 1))
    emitter.emit("scale", first, key="in place", factor=3)
    emitter.emit("scale", "cell", key="of a cell", factor=2)
    emitter.emit("scale", "y", key="sum", factor=2, writes=("cell",))
    emitter.end("train")
    results = frozenset({"of a temporary", "in place", "of a cell"})
    cycle = reuse_storage(replace(emitter.cycle, order=("train",), results=results))
    assert [op.inplace for op in cycle.programs["train"]][2] == 0
    return cycle


@pytest.mark.parametrize("missing", ["nothing", "written in place", "written cells"])
def test_an_order_without_edges_from_readers_to_overwriters_is_caught(missing, monkeypatch):
    """Leaving out who reads a storage before it is written again gives other numbers in some order."""
    cycle, whole = overwriting(), module._overwritten

    def part(cycle, op):
        staying = [name for name in op.writes if cycle.values[name].role != "temporary"]
        return staying if missing == "written in place" else whole(cycle, op)[len(staying) :]

    if missing != "nothing":
        monkeypatch.setattr(module, "_overwritten", part)
    want, program = played(cycle), cycle.programs["train"]
    orders = [topological(cycle, program, np.random.default_rng(seed)) for seed in range(20)]
    got = [played(cycle, order) for order in orders]
    differ = {name for name in want for each in got if not each[name].equal(want[name])}
    assert differ == {"nothing": set(), "written in place": {"of a temporary"}, "written cells": {"of a cell"}}[missing]


@pytest.mark.parametrize(("name", "order"), PLAYED)
def test_collectives_keep_one_order(name, order):
    """All workers must come to them in one, so every collective waits for the one before it."""
    cycle = case_of(name, order).cycle()
    for program in cycle.programs.values():
        numbers = [number for number, op in enumerate(program) if KINDS[op.kind].collective]
        waits = edges(cycle, program)
        assert all(before in waits[after] for before, after in pairwise(numbers))


@pytest.mark.parametrize(("name", "order"), PLAYED)
def test_edges_go_forward(name, order):
    """An operator waits for earlier ones alone, and for whoever wrote what it reads."""
    cycle = case_of(name, order).cycle()
    for program in cycle.programs.values():
        writer: dict[str, int] = {}
        for number, (op, waits) in enumerate(zip(program, edges(cycle, program), strict=True)):
            assert all(other < number for other in waits)
            assert {writer[name] for name in op.reads if name in writer} <= waits
            writer |= dict.fromkeys(op.writes, number)


@pytest.mark.parametrize(("name", "order"), PLAYED)
def test_what_travels_is_awaited_once_and_before_it_is_read(name, order):
    """Of values on their way the first operator that needs them waits, and later ones need not."""
    cycle = case_of(name, order).cycle()
    for program in cycle.programs.values():
        found, seen = awaited(cycle, program), set()
        on_their_way = {op.writes[0] for op in program if op.lane == "network"}
        for op, waits in zip(program, found, strict=True):
            assert not seen & set(waits)
            seen |= set(waits)
            if op.lane != "network":
                assert set(op.reads) & on_their_way <= seen


def test_the_edges_of_an_epoch_are_tried():
    """The orders that are drawn differ from the program's, and there are writes into what is there."""
    case = case_of("sage", "aggregated")
    cycle = case.cycle()
    program = cycle.programs["train"]
    assert topological(cycle, program, np.random.default_rng(0)) != list(range(len(program)))
    assert any(op.inplace is not None for op in program)
    assert any(cycle.values[name].role == "cell" for op in program for name in op.writes)


def test_a_collective_waits_for_no_other_that_it_does_not_read():
    """It begins behind it, on every worker; who reads what the first one brings waits for that."""
    emitter = Emitter(Cycle(1, spaces={"rows": Space("rows", (ROWS,))}))
    for name in ("x", "y"):
        emitter.add_value(Value(name, "rows", WIDTH, role="input"))
    first, other = (emitter.emit("all_reduce", name, key=f"sum of {name}") for name in ("x", "y"))
    emitter.emit("add", first, other, key="both", factors=(1, 1))
    emitter.end("train")
    on_its_way, *rest = emitter.cycle.programs["train"]
    program = (replace(on_its_way, lane="network"), *rest)
    assert awaited(emitter.cycle, program) == [(), (), (first,)]
    assert edges(emitter.cycle, program)[1] == {0}
