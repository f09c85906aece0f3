"""Chunks against an oracle that knows them and no program."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gnnplan.planner.chunks import cut
from gnnplan.planner.program.cuts import cut_out
from gnnplan.planner.program.edges import edges
from gnnplan.planner.techniques.source_chunks import technique
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import NUM_NODES, topological, worst
from tests.planner.techniques.source_chunks.chunked import MODELS, ORDERS, Chunked, chosen, logits

CLOSE = 1e-7  # what is left of a state is float32
SPLIT = Chunks(num_chunks=3, seed=1)
DECISIONS = {
    "three": SPLIT,
    "correction": Chunks(num_chunks=3, seed=2, correction=True),
    "shuffled": Chunks(num_chunks=2, seed=1, num_shuffles=3, draws="independent"),
    "exact at times": Chunks(num_chunks=3, exact_every=2),
    "resting": Chunks(num_chunks=3, seed=1, follow_mean=False),
    "fading": Chunks(num_chunks=3, seed=1, fade=0.4, mass_fade=0.7),
    "as published": Chunks(num_chunks=3, seed=1, follow_mean=False, mass_fade=1.0),
}
each_model = pytest.mark.parametrize("model", MODELS)


ORACLE_CASES = [
    pytest.param(model, order, decision, id=f"{model}-{order}-{name}")
    for model in MODELS
    for order in ORDERS
    for name, decision in DECISIONS.items()
    if (model, order) != ("gat", "aggregated")  # of several heads attention has no order
    if MODELS[model].kind != "gat" or not decision.correction  # of attention there is none
]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
@pytest.mark.parametrize(("model", "order", "decision"), ORACLE_CASES)
def test_equals_the_oracle(model, order, decision, num_workers):
    """On any number of workers."""
    assert Chunked(model, decision, num_workers, orders=ORDERS[order]).off() < CLOSE


@each_model
def test_one_chunk_is_full_batch(model):
    """The program is the same, not only its numbers."""
    chunked = Chunked(model, Chunks(), 3)
    without = composed(chunked.case, [each for each in chunked.choices() if each.technique != "source_chunks"])
    assert chunked.cycle().programs == without.programs
    assert chunked.off() < 1e-12


@each_model
def test_all_sources_at_once_are_full_batch(model):
    """A step that pushes all gives the full batch's loss, whatever the states held."""
    exact = Chunked(model, Chunks(num_chunks=2, exact_every=1), 2, num_steps=3)
    plain = Chunked(model, Chunks(), 2, num_steps=3)
    assert exact.play().losses[0] == pytest.approx(plain.play().losses[0], rel=1e-12)


@each_model
def test_evaluation_leaves_states_alone(model):
    """It is full-batch inference, and the training goes on as if it had not been."""
    chunked = Chunked(model, SPLIT, 3)
    run, oracle = chunked.play(), chunked.oracle()
    oracle.train(chunked.num_steps)
    before = {name: [each.clone() for each in held] for name, held in run.executor.stored.items()}
    assert worst(logits(run), oracle.evaluate()) < CLOSE
    for name, held in before.items():
        assert all(map(torch.equal, held, run.executor.stored[name])), name


@each_model
def test_states_lie_on_targets_alone(model):
    """No worker keeps a row that it received."""
    cycle = Chunked(model, SPLIT, 3).cycle()
    cells = [value for value in cycle.values.values() if value.role == "cell"]
    assert cells
    for value in (each for each in cells if cycle.spaces[each.space].is_of_vertices):
        assert cycle.spaces[value.space].sizes == cycle.spaces[value.space].num_own


@each_model
def test_a_step_pushes_a_share(model):
    """Edges but loops, and rows of halos, are 1/B of an epoch's in the mean over a pass."""
    count = 4
    chunked, whole = (Chunked(model, Chunks(num_chunks=number), 3).cycle() for number in (count, 1))
    for measure in (edges_of, rows_of):
        steps = [measure(chunked, name) for name in chunked.order]
        assert np.mean(steps) == pytest.approx(measure(whole, "train") / count, rel=0.02), measure


def edges_of(cycle, name):
    """Edges that a program's sums forward go over, but loops and states."""
    arrays, found = cycle.arrays, 0
    for op in cycle.programs[name]:
        if op.kind in ("aggregate", "score") and not op.attributes.get("back"):
            block = cycle.blocks[op.attributes["block"]]
            ids = arrays.ids[block.row], arrays.ids[block.column]
            for part, rows, columns in zip(arrays.matrices[block.name], *ids, strict=True):
                matrix = cut_out(part)
                targets = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
                found += int((rows[targets] != columns[matrix.indices]).sum())
    return found


def rows_of(cycle, name):
    """Halo rows of products that a program sends; GAT's targets are a worker's own."""
    ops = (op for op in cycle.programs[name] if op.kind == "exchange")
    return sum(int(cycle.routes[op.attributes["route"]].counts.sum()) for op in ops)


@each_model
def test_any_order_of_edges_gives_the_same(model):
    """Also where states are overwritten: who reads them comes before."""
    chunked = Chunked(model, SPLIT, 2)
    cycle, rng = chunked.cycle(), np.random.default_rng(0)
    right, run = chunked.play(cycle), chunked.case.play(cycle, epochs=0)
    run.train(range(chunked.num_steps), lambda cycle, program: topological(cycle, program, rng))
    assert run.losses == pytest.approx(right.losses, rel=1e-12)
    assert any(edges(cycle, cycle.programs[cycle.order[0]]))


@each_model
def test_the_mean_travels_with_the_rows(model):
    """It is begun before the rows that it is the mean of are exchanged, and waited for when they have come."""
    cycle = Chunked(model, SPLIT, 3).cycle()
    for name in cycle.order:
        program = cycle.programs[name]
        begun = [at for at, op in enumerate(program) if op.kind == "all_reduce" and op.lane == "network"]
        assert begun
        for at in begun:
            of, mean = program[at].key.removesuffix("/mean"), program[at].writes[0]
            packed = {op.writes[0] for op in program if op.kind == "take" and op.reads[0] == of}
            rows = next(n for n, op in enumerate(program) if op.kind == "exchange" and op.reads[0] in packed)
            assert at < rows < min(n for n, op in enumerate(program) if mean in op.reads)


# What must be caught


def test_a_wrong_share_is_caught(monkeypatch):
    """Half of what should be left."""
    right = cut._left
    monkeypatch.setattr(cut, "_left", lambda *parts: right(*parts) * np.float32(0.5))
    assert Chunked("gcn", SPLIT, 2).off() > 1e-3


def test_loops_counted_among_edges_are_caught(monkeypatch):
    """The degree with loops leaves too much."""
    right = cut._left
    monkeypatch.setattr(cut, "_left", lambda pushed, degree: right(pushed, degree + 1))
    assert Chunked("gat", SPLIT, 2).off() > 1e-4


@each_model
def test_the_chunk_of_another_step_is_caught(model):
    """Programs in another order."""
    cycle = Chunked(model, SPLIT, 2).cycle()
    assert Chunked(model, SPLIT, 2).off(replace(cycle, order=(*cycle.order[1:], cycle.order[0]))) > 1e-3


@each_model
def test_a_state_moved_by_evaluation_is_caught(model):
    """A training program in the place of the one that evaluates."""
    chunked = Chunked(model, SPLIT, 2)
    run, right = chunked.case.play(chunked.cycle(), epochs=4), chunked.play()
    run.executor.run(chunked.cycle().order[0], 4)
    run.train(range(4, chunked.num_steps))
    assert abs(run.losses[-1] - right.losses[-1]) > 1e-4


def test_states_kept_too_early_are_caught(monkeypatch):
    """The gradients of coefficients need what stood there before."""
    monkeypatch.setattr(technique, "keep_last", lambda cycle: cycle)
    with pytest.raises(AssertionError, match="reads cell moving:l1/weigh, which l1/weigh/chunk0/keep has written over"):
        Chunked("gat", DECISIONS["resting"], 2).cycle()


def test_chunks_are_the_draws():
    """The programs' blocks hold exactly the sources that `chunk_of` names, in the order of steps."""
    chunked = Chunked("gcn", SPLIT, 1)
    cycle = chunked.cycle()
    for name, pushes in zip(cycle.order, chunked.sources(), strict=True):
        block = next(op.attributes["block"] for op in cycle.programs[name] if op.key.endswith("/pushed"))
        (matrix,) = cycle.arrays.matrices[block]
        assert pushes[cut_out(matrix).indices].all()
        assert pushes.sum() == pytest.approx(NUM_NODES / 3, abs=1)


def test_a_sum_of_the_features_is_made_and_kept_once():
    """Whatever the number of chunks: it is the same in all of their steps, and in an evaluation."""
    chunked = Chunked("sage", SPLIT, 3, orders=ORDERS["aggregated"])
    choices, case = chunked.choices(), chunked.case
    model = case.model.model_copy(update={"input_dropout": 0.0})
    case = replace(case, model=model)
    cycle = composed(case, [*choices, chosen("first_aggregation")])
    sums = [op for op in cycle.programs["setup"] if op.kind == "aggregate"]
    assert len({op.writes[0] for op in sums}) == len(sums) == 2  # of own rows, and of those that came
    made = {op.writes[0] for op in sums}
    assert all(made.isdisjoint(op.writes) for name in (*cycle.order, "evaluate") for op in cycle.programs[name])
