"""Writing in place changes no number: it is decided where nobody reads what is overwritten."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.program.aliases import owners
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Index, Space, Value
from gnnplan.planner.program.storage import reuse_storage
from tests.planner.program.cases import MODELS, ORDERS, Case, topological
from tests.planner.program.random_programs import played, random_cycles


@pytest.mark.long
@settings(max_examples=150)
@given(random_cycles(), st.integers(0, 99))
def test_results_inputs_and_cells_are_as_without_it(cycle, seed):
    """In the program's order and in any other that keeps its edges."""
    reused, want = reuse_storage(cycle), played(cycle)
    for order in (None, topological(reused, reused.programs["train"], np.random.default_rng(seed))):
        got = played(reused, order)
        assert got.keys() == want.keys()
        assert all(got[name].equal(want[name]) for name in want)


@settings(max_examples=150)
@given(random_cycles())
def test_what_is_overwritten_is_over(cycle):
    """Neither it nor anything that lies in its storage is a result or stays, or is read by anyone later."""
    reused = reuse_storage(cycle)
    program, owner = reused.programs["train"], owners(reused, reused.programs["train"])
    for number, op in enumerate(program):
        if op.inplace is None:
            continue
        storage = owner[op.writes[0]]
        there = [name for before in program[:number] for name in before.writes if owner.get(name, name) == storage]
        assert op.reads[op.inplace] in there
        assert not set(there) & cycle.results
        assert all(cycle.values[name].role == "temporary" for name in (storage, *there))
        assert not {name for later in program[number + 1 :] for name in later.reads} & set(there)


def test_what_is_written_in_place_may_have_to_stay():
    """As a result, or as a cell that lies in it: then who comes next leaves it alone."""
    for stays, how in (("b", "result"), ("view", "cell")):
        emitter = Emitter(Cycle(1, spaces={"rows": Space("rows", (4,))}))
        emitter.add_value(Value("x", "rows", 3, role="input"))
        emitter.add_index(Index("whole", "rows", "rows", True))
        for read, key in (("x", "a"), ("a", "b")):
            emitter.emit("scale", read, key=key, factor=2)
        emitter.emit("take", "b", key="view", index="whole")
        emitter.emit("scale", "b", key="c", factor=2)
        emitter.end("train")
        values = dict(emitter.cycle.values)
        if how == "cell":
            values[stays] = replace(values[stays], role="cell")
        results = frozenset({"c", stays} if how == "result" else {"c"})
        reused = reuse_storage(replace(emitter.cycle, values=values, results=results))
        assert [op.inplace for op in reused.programs["train"]] == [None, 0, None, None]


@settings(max_examples=60)
@given(random_cycles())
def test_it_is_decided_once(cycle):
    """Nothing but `inplace` is changed, and deciding again changes nothing."""
    reused = reuse_storage(cycle)
    for before, after in zip(cycle.programs["train"], reused.programs["train"], strict=True):
        assert (before.key, before.reads, before.writes) == (after.key, after.reads, after.writes)
        if after.inplace is not None:
            assert cycle.values[after.reads[after.inplace]].role == "temporary"


@pytest.mark.parametrize("name", MODELS)
def test_models_hold_less_at_their_peak(name):
    """Real programs write in place, and hold no more at their peak; GAT's peak lies where nothing is written so."""
    case = Case(MODELS[name], 3, ORDERS["mixed"], passes=("split",))
    plain = case.cycle()
    reused = reuse_storage(plain)
    assert sum(op.inplace is not None for op in reused.programs["train"]) >= 4
    peaks = [case.play(cycle, epochs=1).executor.peak_bytes for cycle in (plain, reused)]
    assert (peaks[1] <= peaks[0]).all()
    assert (peaks[1] < peaks[0]).any() == (MODELS[name].kind != "gat")
