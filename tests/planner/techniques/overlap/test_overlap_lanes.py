"""Exchanges on a lane of their own, begun as early as what they wait for allows."""

import pytest

from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges
from tests.planner.program.cases import MODELS, ORDERS, Case, codes, subset


def both(name: str, order: str, *passes: str):
    """The cycle before and after."""
    model = MODELS[name]
    table = codes(model, 3, {Label.KEPT: subset(model, 3, 2, 0.3), Label.MADE: subset(model, 3, 3, 0.3)})
    before = Case(model, 3, ORDERS[order], table, passes, interval=2).cycle()
    return before, overlap_exchanges(before)


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
        at = {op.key: number for number, op in enumerate(program)}
        place = [at[op.key] for op in old]
        for number, waits in enumerate(edges(before, old)):
            assert all(place[other] < place[number] for other in waits)


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
