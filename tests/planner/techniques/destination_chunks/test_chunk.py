"""Training in destination chunks is training, in fewer bytes, and what travels is the same."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.readers.cost import exchanges_bytes
from tests.planner.program.cases import EXACT, MODELS, ORDERS, Case, exact
from tests.planner.techniques.destination_chunks.destinations import LAYOUTS, chunked

FROM_PYG = 1e-5
COUNTS = (1, 3, 7)
EXTRAS = [(), ("overlap",), ("first_aggregation", "overlap"), ("sparse_features", "first_aggregation")]
MORE_MODELS = {
    **MODELS,
    "appnp": ModelSpec(kind="appnp", num_layers=2, hidden_channels=6, num_hops=3),
    "sgc": ModelSpec(kind="sgc", num_layers=2, num_hops=2),
    "decoupled_gat": ModelSpec(kind="decoupled_gat", num_layers=2, hidden_channels=6, heads=2, num_hops=2),
}


@pytest.mark.parametrize("num_chunks", COUNTS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MORE_MODELS)
def test_equals_one_worker_and_pyg(name, layout, order, num_chunks):
    """Losses, gradients and parameters; workers, other techniques and what is computed again go round."""
    turn = list(MORE_MODELS).index(name) + list(ORDERS).index(order) + COUNTS.index(num_chunks)
    extra = EXTRAS[turn % len(EXTRAS)]
    case = Case(MORE_MODELS[name], 1 + turn % 4, ORDERS[order], sparse="sparse_features" in extra)
    run = case.play(chunked(case, layout, num_chunks, *extra, recompute=("nothing", "attention", "sums")[turn % 3]))
    assert run.off_pyg() < FROM_PYG
    if name in MODELS:  # the oracle of labels knows no decoupled model
        assert run.off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_chunk_changes_nothing(layout):
    """The program is the one without the technique."""
    case = Case(MODELS["gat"], 3)
    whole, one = (chunked(case, layout, 1, recompute=each) for each in ("nothing", "sums"))
    assert whole.programs == one.programs
    assert not any("put" in op.kind for op in one.programs["train"])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_what_travels_is_the_same(name, order):
    """All transposes of an epoch are cut, and together as many bytes go from each worker to each as before."""
    case = Case(MODELS[name], 3, ORDERS[order])
    whole, cut = (chunked(case, "columns", count, recompute="nothing") for count in (1, 3))
    before, after = (sum(exchanges_bytes(cycle, "train").values()) for cycle in (whole, cut))
    assert (after == before).all()
    assert before.sum() > 0
    counts = [Counter(op.kind for op in cycle.programs["train"])["transpose"] for cycle in (whole, cut)]
    assert counts[1] >= 2 * counts[0]


def test_chunks_take_turns():
    """The next chunk is summed between the transpose of a chunk and what reads its rows."""
    program = chunked(Case(MODELS["gcn"], 3, ORDERS["aggregated"]), "columns", 3).programs["train"]
    program = program[: next(number for number, op in enumerate(program) if op.kind == "loss")]
    sums = [number for number, op in enumerate(program) if op.kind == "aggregate"]
    reader = {name: number for number, op in enumerate(program) for name in op.reads}
    back = [number for number, op in enumerate(program) if op.kind == "transpose" and op.attributes["back"]]
    assert back[0] < sums[1] < reader[program[back[0]].writes[0]]
    assert back[1] < sums[2] < reader[program[back[1]].writes[0]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_plan_keeps_it(layout):
    """A document of the program gives it back."""
    cycle = share_equal_arrays(chunked(Case(MODELS["gat"], 3), layout, 3, "overlap"))
    document = CycleDocument.of(cycle)
    again = CycleDocument.model_validate_json(document.model_dump_json()).cycle()
    assert again.programs == cycle.programs


def test_rows_of_another_chunk_are_noticed():
    """Put at the rows of the first chunk, those of the others are missing."""
    case = Case(MODELS["gcn"], 2, ORDERS["aggregated"])
    cycle = chunked(case, "rows", 3)

    def wrong(op):
        index = op.attributes["index"].replace("[1/3]", "[0/3]") if op.kind == "put" else ""
        return replace(op, attributes={**op.attributes, "index": index}) if index else op

    spoilt = cycle.with_programs(lambda program: tuple(map(wrong, program)))
    with pytest.raises((RuntimeError, AssertionError, ValueError)):
        assert case.play(spoilt).off(*exact(case.model)) < EXACT


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 9), st.sampled_from(LAYOUTS), st.integers(1, 4))
def test_every_row_and_edge_is_in_one_chunk(num_chunks, layout, num_workers):
    """The chunks of a space are all of its rows, each once, and those of a block all of its edges."""
    cycle = chunked(Case(MODELS["gcn"], num_workers, ORDERS["mixed"]), layout, num_chunks)
    spaces = {name.partition("[")[0] for name in cycle.indexes if name.endswith(f"/{num_chunks}]")}
    assert spaces
    for worker in range(num_workers):
        for space in spaces:
            rows = [cycle.arrays.rows[f"{space}[{chunk}/{num_chunks}]"][worker] for chunk in range(num_chunks)]
            assert sorted(np.concatenate(rows)) == list(range(cycle.spaces[space].sizes[worker]))
        for name in {name.partition("[")[0] for name in cycle.blocks if "[" in name}:
            edges = [cycle.blocks[f"{name}[{chunk}/{num_chunks}]"].num_edges[worker] for chunk in range(num_chunks)]
            assert sum(edges) == cycle.blocks[name].num_edges[worker]
