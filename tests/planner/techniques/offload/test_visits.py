"""What is on edges, where attention is used hop after hop and rows lie outside."""

import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.aliases import views
from gnnplan.planner.techniques.offload import technique
from tests.planner.program.cases import EXACT, Case
from tests.planner.techniques.destination_chunks.destinations import LAYOUTS, chunked

MODEL = ModelSpec(kind="decoupled_gat", num_layers=2, hidden_channels=6, num_hops=3, heads=1)
FROM_PYG = 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_workers", [1, 3])
def test_the_training_stays_the_same(layout, num_workers):
    """Coefficients and their gradients leave and come back between hops."""
    case = Case(MODEL, num_workers)
    cycle = chunked(case, layout, 3, "offload", recompute="nothing")
    assert any(op.key.endswith("/from aside") for op in cycle.programs["train"])
    run, plain = case.play(cycle), case.play(chunked(case, layout, 3, recompute="nothing"))
    assert run.off_pyg() < FROM_PYG
    assert run.losses == pytest.approx(plain.losses, rel=EXACT)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_edges_of_one_chunk_are_there_at_once(layout, monkeypatch):
    """Without the pass those of several are; a grid makes attention anew for every hop."""
    case = Case(MODEL, 2)
    assert most_chunks(chunked(case, layout, 3, "offload", recompute="nothing")) == 1
    monkeypatch.setattr(technique, "put_between_visits", lambda cycle, tier: cycle)
    assert most_chunks(chunked(case, layout, 3, "offload", recompute="nothing")) > 1


def most_chunks(cycle):
    """Ranges of targets that values of edges in memory are of, at most at once."""
    program, targets_of = cycle.programs["train"], {block.edges: block.row for block in cycle.blocks.values()}
    alive, most = {}, 0
    last = {name: number for number, op in enumerate(program) for name in (*op.reads, *op.writes)}
    for number, op in enumerate(program):
        for name in op.writes:
            value = cycle.values[name]
            if value.tier == "device" and value.space in targets_of and not views(cycle, op):
                alive[name] = targets_of[value.space]
        most = max(most, len(set(alive.values())))
        alive = {name: targets for name, targets in alive.items() if last[name] > number}
    return most
