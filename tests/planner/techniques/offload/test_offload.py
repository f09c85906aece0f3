"""Rows on disk: the training stays the same, and what somebody needs whole stays in memory."""

import numpy as np
import pytest

from gnnplan.planner.program.consistency import fault_of
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.techniques.offload.read_rows import take_what_is_read
from tests.planner.program.cases import EXACT, MODELS, ORDERS, Case, exact
from tests.planner.techniques.destination_chunks.destinations import LAYOUTS, chunked

FROM_PYG = 1e-5


@pytest.mark.long
@pytest.mark.parametrize("recompute", ["nothing", "attention", "sums"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_equals_one_worker_and_pyg(name, layout, recompute):
    """Losses, gradients and parameters; orders, workers and chunks go round."""
    turn = list(MODELS).index(name) + LAYOUTS.index(layout)
    order = list(ORDERS.values())[turn % len(ORDERS)]
    case = Case(MODELS[name], 1 + turn % 4, order)
    run = case.play(chunked(case, layout, 2 + turn % 6, "offload", "overlap", recompute=recompute))
    assert run.off_pyg() < FROM_PYG
    assert run.off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MODELS)
def test_what_lies_on_disk_is_touched_in_parts(name, layout):
    """Features are there, and values of rows; who reads or writes one names its rows."""
    cycle = chunked(Case(MODELS[name], 2, ORDERS["aggregated"]), layout, 3, "offload")
    on_disk = {each for each, value in cycle.values.items() if value.tier == "disk"}
    assert "x" in on_disk
    assert not on_disk & cycle.results
    for op in cycle.operators():
        in_part = set[str]()
        if KINDS[op.kind].by_part:
            in_part = {op.reads[0]} if op.kind == "take" else {op.writes[0], *op.reads[1:]}
        assert not on_disk.intersection({*op.reads, *op.writes} - in_part), op.key


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_what_lies_in_one_storage_lies_in_one_place(name):
    """Whatever is written in place is where its storage is."""
    cycle = chunked(Case(MODELS[name], 1, ORDERS["aggregated"]), "rows", 4, "offload")
    for op in (op for op in cycle.operators() if KINDS[op.kind].by_part and op.has_base):
        assert cycle.values[op.reads[-1]].tier == cycle.values[op.writes[0]].tier
        assert op.inplace == len(op.reads) - 1 or cycle.values[op.writes[0]].tier == "device"


def test_blocks_have_no_empty_columns():
    """A chunk's block has entries in every column that it still has, as many as before, of the same rows."""
    case = Case(MODELS["gcn"], 1, ORDERS["aggregated"])
    whole, cut = (chunked(case, "rows", 5, *extra) for extra in ((), ("offload",)))
    read = [name for name in cut.blocks if name.endswith("/read")]
    assert read
    for name in read:
        before = _matrix(whole, name.removesuffix("/read"))
        after, rows = _matrix(cut, name), cut.arrays.rows[name][0]
        assert (np.diff(after.tocsc().indptr) > 0).all()
        assert (before[:, rows] != after).nnz == 0
        assert after.nnz == before.nnz


def test_a_whole_block_stays():
    """Where every column has entries nothing is taken."""
    cycle = chunked(Case(MODELS["gcn"], 1, ORDERS["aggregated"]), "rows", 1)
    assert take_what_is_read(cycle).blocks.keys() == cycle.blocks.keys()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_plan_keeps_it(layout):
    """A document of the program gives it back, and it is sound."""
    cycle = share_equal_arrays(chunked(Case(MODELS["gat"], 3), layout, 3, "offload", "overlap"))
    again = CycleDocument.model_validate_json(CycleDocument.of(cycle).model_dump_json()).cycle()
    assert again.programs == cycle.programs
    assert all(cycle.values[each] == value for each, value in again.values.items())
    assert any(value.tier == "disk" for value in again.values.values())
    assert fault_of(again) is None


def _matrix(cycle, name):
    part = cycle.arrays.matrices[name][0]
    return part.cut_out() if hasattr(part, "cut_out") else part


@pytest.mark.parametrize("name", MODELS)
def test_what_waits_for_the_backward_half_waits_on_disk(name):
    """Products first, and nothing made again: chunks are put aside, and the training stays the same."""
    case = Case(MODELS[name], 2)
    cycle = chunked(case, "rows", 3, "offload", recompute="nothing")
    assert any(op.key.endswith("/from outside") for op in cycle.programs["train"])
    run = case.play(cycle)
    assert run.off_pyg() < FROM_PYG
    assert run.off(*exact(case.model)) < EXACT
