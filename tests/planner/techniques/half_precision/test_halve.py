"""Rows in bfloat16: which they are, that training stays near float32's, and that kernels do what programs say."""

from dataclasses import replace

import pytest

from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.techniques.half_precision.halve import TAKES, halve
from gnnplan.planner.techniques.registry import ours
from tests.planner.composition.chosen import BASE, Chosen, cycle_of
from tests.planner.program.cases import EXACT, MODELS, Case, Run, worst
from tests.planner.techniques.halos import chosen, cycle_with
from tests.runtime.execution.test_program_executor import inputs_of, losses_and_weights, play_on_threads, weights_of

NEAR = 2e-2  # of the losses, relative: a bfloat16 has eight bits
ROUNDED = 3e-3  # what one rounding the other way, here and there, makes of a training in float32 and float64
BESIDE = ("operator_order", *(name for name in ours() if name not in (*BASE, "half_precision")))


def both(model, *beside):
    """What the case knows, its cycle in float32, and in halves."""
    plain, halved = Chosen(model, beside), Chosen(model, (*beside, "half_precision"))
    return plain.case, cycle_of(plain), cycle_of(halved)


def halves(cycle):
    return {name for name, value in cycle.values.items() if value.dtype == "bfloat16"}


@pytest.mark.long
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_trains_near_float32_and_not_at_it(model, beside):
    """In the sequential executor, which rounds whatever is said to be a half, beside every other technique."""
    case, plain, halved = both(model, beside)
    wanted = case.play(plain).losses
    errors = [worst(got, want) for got, want in zip(case.play(halved).losses, wanted, strict=True)]
    assert EXACT < max(errors) < NEAR


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_other_models_and_one_worker(model, num_workers):
    """Rows exchanged in every layer, or nobody to exchange them with."""
    case = Case(MODELS[model], num_workers)
    wanted, got = (case.play(cycle_with(case, *map(chosen, names))).losses for names in ((), ("half_precision",)))
    assert EXACT < max(map(worst, got, wanted)) < NEAR


@pytest.mark.long
@pytest.mark.parametrize("beside", [name for name in BESIDE if name not in ("host_region", "partial_reduce")])
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_kernels_do_what_the_program_says(model, beside):
    """Losses and weights on threads; where workers share memory or wait for few of them, they are no threads."""
    case, _, cycle = both(model, beside)
    run = Run(case, cycle)
    expected = [float(next(iter(out.values()))[0]) for out in run.executor.train(4)]
    found = play_on_threads(cycle, inputs_of(run), weights_of(case), lambda each, _: losses_and_weights(each, cycle))
    for losses, trained, _ in found:
        assert losses[:4] == pytest.approx(expected, rel=ROUNDED)
        assert {each.dtype.itemsize for each in trained.values()} == {4}


@pytest.mark.parametrize("model", MODELS)
def test_rows_are_halves_and_parameters_are_not(model):
    """Features, what travels, and most of what layers write; nothing that is trained, handed out or of integers."""
    _, _, cycle = both(model, "operator_order")
    small, train = halves(cycle), cycle.programs[cycle.order[0]]
    assert "x" in small or any(op.kind == "narrow" and op.reads == ("x",) for op in train)
    assert not small & (cycle.results | cycle.parameters.keys())
    exchanged = {name for op in train if op.kind == "exchange" for name in (*op.reads, *op.writes)}
    assert exchanged
    assert exchanged <= small
    summed = [op for op in cycle.operators() if op.kind == "aggregate"]
    assert all({*op.reads, *op.writes} <= small for op in summed)
    products = [op for op in cycle.operators() if op.kind == "multiply" and is_of_rows(cycle, op.reads[0])]
    assert products
    assert all(set(op.reads) <= small for op in products)


def is_of_rows(cycle, name):
    return not cycle.spaces[cycle.values[name].space].is_of_parameters


@pytest.mark.long
def test_every_operator_reads_the_precision_that_it_takes():
    """All rows of one that takes halves are halves, or none; what takes none reads none."""
    for model in MODELS:
        for beside in BESIDE:
            _, _, cycle = both(model, beside)
            small = halves(cycle)
            for op in cycle.operators():
                read = [name in small for name in op.reads]
                if op.kind == "widen":
                    assert read == [True]
                elif op.kind not in TAKES:
                    assert not any(read), op.key
                elif any(read):
                    rows = read if op.kind not in ("activate", "column_sum") else read[:1]
                    assert all(rows), op.key


def test_half_as_many_bytes_travel():
    """Of rows and of the gradients that are returned for them."""
    _, plain, halved = both("sage", "operator_order")
    before, after = (exchanges_bytes(cycle, cycle.order[0]) for cycle in (plain, halved))
    assert before.keys() == after.keys()
    assert all((2 * after[key] == before[key]).all() for key in before)


def test_what_the_setup_makes_is_kept_in_halves():
    """The first aggregation made once, and cached features."""
    for beside in ("first_aggregation", "feature_cache"):
        _, _, cycle = both("gcn", beside)
        cells = [value for value in cycle.values.values() if value.role == "cell" and cycle.spaces[value.space].level]
        made = {name for op in cycle.programs.get("setup", ()) for name in op.writes}
        assert all(value.dtype == "bfloat16" for value in cells if value.name in made)


def test_targets_are_not_rounded():
    """Numbers that are learnt are what the loss reads, and no rows of a layer."""
    _, plain, _ = both("gcn", "operator_order")
    targets = replace(plain.values["y"], dtype="float32", width=3)
    cycle = halve(replace(plain, values={**plain.values, "y": targets}))
    assert cycle.values["y"].dtype == "float32"
    assert "x" in halves(cycle)


def test_ranges_of_rows_are_put_together_in_halves():
    """Neither the whole nor a range of it stands in float32 for that alone."""
    _, _, cycle = both("gcn", "destination_chunks")
    put = [op for op in cycle.operators() if op.kind == "put"]
    assert put
    assert all({*op.reads, *op.writes} <= halves(cycle) for op in put)


def test_a_program_without_rows_stays_as_it_is():
    """Nothing is rounded that nobody gains by."""
    _, plain, _ = both("gcn", "operator_order")
    steps = {name: tuple(op for op in ops if op.kind in ("step", "flatten")) for name, ops in plain.programs.items()}
    cycle = replace(plain, programs=steps)
    assert halve(cycle).programs == steps


def test_kinds_that_take_halves_are_kinds():
    """The table names what there is."""
    assert KINDS.keys() >= TAKES.keys()
