"""Whether a worker compiles loops is known from its programs."""

import pytest

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers import compiled
from gnnplan.planner.readers.compiled import _summed, compiles
from tests.planner.program.cases import MODELS, ORDERS, Case
from tests.planner.readers.test_read_cost import CYCLE


def programs_of(case):
    cycle = case.cycle()
    return cycle, [program for name, program in cycle.programs.items() if name != "evaluate"]


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_large_sums_compile_on_a_cpu(order, is_sparse, monkeypatch):
    """Whatever is asked about has rows and columns; a GPU compiles nothing for them."""
    cycle, programs = programs_of(Case(MODELS["gcn"], 2, ORDERS[order], sparse=is_sparse))
    assert not any(compiles(cycle, programs, worker, on_cuda=False) for worker in cycle.workers)
    shapes = []
    monkeypatch.setattr(compiled, "is_looped", lambda *shape: shapes.append(shape))
    compiles(cycle, programs, 0, on_cuda=False)
    of_sums = [shape for shape in shapes if shape != (0, 0)]
    assert len(of_sums) >= 4  # of three layers, forward and backward
    assert all(min(shape) > 0 for shape in of_sums)
    assert any(compiled_with(cycle, programs, shape, monkeypatch) for shape in of_sums)


def compiled_with(cycle, programs, shape, monkeypatch):
    monkeypatch.setattr(compiled, "is_looped", lambda *found: found == shape)
    assert not compiles(cycle, programs, 0, on_cuda=True)
    return compiles(cycle, programs, 0, on_cuda=False)


def test_matrices_in_tiles_compile_nothing(monkeypatch):
    """However many rows they sum; one that is not cut does."""
    cycle, programs = programs_of(Case(MODELS["gcn"], 2, ORDERS["multiplied"]))
    monkeypatch.setattr(compiled, "is_looped", lambda rows, columns: rows > 0)
    monkeypatch.setattr(compiled, "num_tiles_of", lambda *_: 2)
    assert not compiles(cycle, programs, 0, on_cuda=False)
    asked = []
    monkeypatch.setattr(compiled, "num_tiles_of", lambda *of: asked.append(of) or 1)
    assert compiles(cycle, programs, 0, on_cuda=False)
    assert asked[0][-1] > 0  # as wide as what it sums


@pytest.mark.parametrize("name", ["gat", "sage"])
def test_attention_and_dropout_compile_everywhere(name):
    """Whatever their size."""
    cycle, programs = programs_of(Case(MODELS[name], 2))
    assert all(compiles(cycle, programs, 1, on_cuda=on_cuda) for on_cuda in (False, True))


def test_a_gram_of_sparse_rows_sums_the_dense_ones():
    """Whichever of its two reads they are."""
    ops = [Operator("key", "gram", reads, ("weight",)) for reads in (("narrow", "words"), ("words", "narrow"))]
    rows_and_columns = CYCLE.num_rows("narrow", 1), CYCLE.values["narrow"].num_columns(1)
    assert [_summed(CYCLE, op, 1) for op in ops] == [rows_and_columns] * 2
