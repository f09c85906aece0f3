"""Rows in fewer bytes with error feedback: bytes, bounds, what is lacking, and the same training on workers."""

from dataclasses import replace

import pytest
import torch

from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.profiles.kernels.compressed import FORMATS, num_words
from tests.planner.program.cases import EXACT, Run, worst
from tests.planner.techniques.halos import CASE, MODEL, chosen, cycle_with
from tests.runtime.execution.test_program_executor import (
    EPOCHS,
    FLOAT32,
    compare,
    inputs_of,
    play_on_threads,
    weights_of,
)

WIDE = replace(CASE, model=MODEL.model_copy(update={"hidden_channels": 16}))
NEAR = {"float16": 2e-3, "bfloat16": 2e-2, "int8": 4e-2}  # of the losses, relative


def compressed(form, *beside, case=WIDE):
    return cycle_with(case, chosen("compression", format=form), *beside)


def of_kind(cycle, kind):
    return [op for op in cycle.programs[cycle.order[0]] if op.kind == kind]


def total(tensors):
    """The sum of all numbers on all workers."""
    return sum(float(each.sum()) for each in tensors)


@pytest.mark.parametrize("form", FORMATS)
def test_bytes_on_the_wire_are_those_of_the_format(form):
    """To the byte: rows times words; forward and backward alike, and nothing that would not be smaller."""
    plain, packed = cycle_with(WIDE), compressed(form)
    before, after = (exchanges_bytes(cycle, cycle.order[0]) for cycle in (plain, packed))
    assert before.keys() == after.keys()
    widths = {op.key: plain.values[op.reads[0]].width for op in of_kind(plain, "exchange")}
    for key, width in widths.items():
        words = min(num_words(width, form), width)
        assert (after[key] * width == before[key] * words).all(), key
        assert after[key].sum() > 0
    assert {key.count("backward") for key in after} == {0, 1}


@pytest.mark.parametrize("form", FORMATS)
def test_trains_near_the_exact_numbers_and_not_at_them(form):
    """Within a bound of the format's."""
    plain, packed = WIDE.play(cycle_with(WIDE)), WIDE.play(compressed(form))
    errors = [worst(got, want) for got, want in zip(packed.losses, plain.losses, strict=True)]
    assert EXACT < max(errors) < NEAR[form]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("beside", [(), ("overlap",), ("direct_sum",)], ids="+".join)
def test_runs_on_kernels(form, beside):
    """As the sequential executor plays it."""
    compare(WIDE, compressed(form, *map(chosen, beside)))


@pytest.mark.parametrize("form", FORMATS)
def test_late_rows_run_on_kernels(form):
    """The same; where a number stands halfway between integers, it is rounded one way or the other."""
    cycle = compressed(form, chosen("late_halos"), chosen("overlap"))
    compare(WIDE, cycle, 1e-3 if form == "int8" else FLOAT32)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_lacking_is_sent_with_the_next(form):
    """All rows received in some epochs, and what is lacking after them, are all rows that were to be sent."""
    cycle = compressed(form)
    pack, unpack = (
        next(op for op in of_kind(cycle, kind) if "backward" in op.key) for kind in ("compress", "decompress")
    )
    assert pack.key.removesuffix("/compress") == unpack.key.removesuffix("/decompress")
    executor = Run(WIDE, replace(cycle, results=cycle.results | {pack.reads[0], unpack.writes[0]})).executor
    results = executor.train(5)
    sent, came = (sum(total(each[name]) for each in results) for name in (pack.reads[0], unpack.writes[0]))
    lacking = total(executor.stored[pack.reads[1]])
    assert came + lacking == pytest.approx(sent, rel=1e-9)
    assert lacking != 0


def test_what_is_lacking_is_state():
    """It starts at zero, is in checkpoints, and no evaluation touches it."""
    cycle = compressed("int8")
    errors = {op.reads[1] for op in of_kind(cycle, "compress")}
    assert errors <= set(starting_cells(cycle))
    touched = {name for op in cycle.programs["evaluate"] for name in (*op.reads, *op.writes)}
    assert not touched & errors
    assert not any(op.kind == "compress" for op in cycle.programs["evaluate"])


def test_goes_on_bit_for_bit_with_what_is_lacking():
    """From a copy of the state after two epochs; without its errors other numbers come out."""
    cycle = compressed("int8")

    def play(executor, rank, stored=None, begin=0, end=EPOCHS):
        if stored:
            executor.stored.update({name: each.clone() for name, each in stored[rank].items()})
        for epoch in range(begin, end):
            executor.run(cycle.order[0], epoch)
        return {name: each.clone() for name, each in executor.stored.items() if isinstance(each, torch.Tensor)}

    def run(**given):
        inputs = inputs_of(Run(WIDE, cycle))
        return play_on_threads(cycle, inputs, weights_of(WIDE), lambda each, rank: play(each, rank, **given))

    whole, half = run(), run(end=2)
    again = run(stored=half, begin=2)
    forgetful = [{name: each for name, each in of.items() if not name.endswith("/error")} for of in half]
    for rank, of in enumerate(whole):
        assert all(torch.equal(again[rank][name], of[name]) for name in of)
    other = run(stored=forgetful, begin=2)
    assert not all(torch.equal(other[0][name], whole[0][name]) for name in cycle.parameters)


def test_rows_are_unpacked_where_they_are_first_read():
    """So that what stands before does not wait for them."""
    cycle = compressed("float16", chosen("overlap"))
    program = cycle.programs[cycle.order[0]]
    for number, op in enumerate(program):
        if op.kind == "decompress":
            assert op.writes[0] in program[number + 1].reads
    exchange = next(number for number, op in enumerate(program) if op.kind == "exchange")
    assert program[exchange].lane == "network"
    assert program[exchange + 1].kind != "decompress"
