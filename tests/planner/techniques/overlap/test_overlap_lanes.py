"""Exchanges on a lane of their own, begun as early as what they wait for allows."""

from types import SimpleNamespace

import pytest

from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label
from gnnplan.planner.techniques.overlap import lanes
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges
from tests.planner.program.cases import MODELS, ORDERS, Case, codes, subset

_STEPS = {"make": "compute", "send": "network", "put": "compute"}


def both(name: str, order: str, *passes: str, waits_late: bool = False):
    """The cycle before and after."""
    model = MODELS[name]
    table = codes(model, 3, {Label.KEPT: subset(model, 3, 2, 0.3), Label.MADE: subset(model, 3, 3, 0.3)})
    before = Case(model, 3, ORDERS[order], table, passes, interval=2).cycle()
    return before, overlap_exchanges(before, waits_late=waits_late)


def check_edges(cycle, old, program):
    """The same operators in an order that keeps every edge, and collectives in theirs."""
    at = {op.key: number for number, op in enumerate(program)}
    place = [at[op.key] for op in old]
    assert sorted(place) == [*range(len(old))] == [*range(len(program))]
    for number, waits in enumerate(edges(cycle, old)):
        assert all(place[other] < place[number] for other in waits)
    of_network = [op.key for op in program if op.lane == "network"]
    assert of_network == [op.key for op in old if op.key in set(of_network)]


@pytest.mark.parametrize("name", MODELS)
def test_collectives_are_on_the_network_and_all_else_is_not(name):
    """But in the setup, where nothing runs beside them."""
    _, cycle = both(name, "aggregated", "split", "once", "storage")
    for key, program in cycle.programs.items():
        for op in program:
            on_network = KINDS[op.kind].collective and key != "setup"
            assert op.lane == ("network" if on_network else "compute")


@pytest.mark.parametrize("passes", [(), ("split", "storage")], ids=["plain", "split"])
@pytest.mark.parametrize("name", MODELS)
def test_only_exchanges_move_and_only_forward(name, passes):
    """What is computed stays in its order, collectives in theirs, and every edge is kept."""
    before, after = both(name, "mixed", *passes)
    for key, program in after.programs.items():
        old = before.programs[key]
        for lane in ("compute", "network"):
            keys = [op.key for op in program if op.lane == lane]
            assert keys == [op.key for op in old if op.key in set(keys)]
        check_edges(before, old, program)


@pytest.mark.parametrize("name", MODELS)
def test_an_exchange_begins_where_the_last_that_it_waits_for_ends(name):
    """Nothing but other exchanges stands in between."""
    _, after = both(name, "mixed", "split", "storage")
    moved = 0
    for program in (after.programs[each] for each in after.order):
        for number, waits in enumerate(edges(after, program)):
            if program[number].lane == "network":
                last = max(waits, default=-1)
                assert all(op.lane == "network" for op in program[last + 1 : number])
                moved += number + 1 < len(program) and program[number].writes[0] not in program[number + 1].reads
    assert moved, "no exchange runs beside anything"


@pytest.mark.parametrize("passes", [(), ("split", "storage"), ("split", "once", "refresh", "storage")], ids="+".join)
@pytest.mark.parametrize("name", MODELS)
def test_who_need_not_wait_comes_first(name, passes):
    """Where an operator waits for the exchange begun last, no other could have come in its place."""
    before, after = both(name, "aggregated" if "once" in passes else "mixed", *passes, waits_late=True)
    for key, program in after.programs.items():
        check_edges(before, before.programs[key], program)
        waits, begun_last, done = edges(after, program), None, set()
        for number, op in enumerate(program):
            if op.lane == "network":
                begun_last = number
            elif begun_last in waits[number]:
                ready = [other for other in range(number + 1, len(program)) if waits[other] <= done]
                assert all(begun_last in waits[other] for other in ready)
                begun_last = None
            done.add(number)


def test_chunks_are_made_while_others_travel(monkeypatch):
    """Chunk by chunk is made and sent; what has come is put where it belongs after the next one was sent."""
    program, waits = [], []
    for chunk in range(3):
        made = len(program)
        program += [SimpleNamespace(key=f"{what}{chunk}", lane=lane) for what, lane in _STEPS.items()]
        waits += [set(), {made, made - 2} - {-2}, {made + 1}]
    monkeypatch.setattr(lanes, "edges", lambda cycle, program: waits)
    found = [each.key for each in lanes._waiting_late(None, tuple(program))]
    assert found == ["make0", "send0", "make1", "send1", "put0", "make2", "send2", "put1", "put2"]
