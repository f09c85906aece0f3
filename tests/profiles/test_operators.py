"""Every operator the profiler times can be made and called, again and again, on the grids' shapes."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.grids import QUICK
from gnnplan.profiles.operands import NUM_WORDS, random_csr, words_csr
from gnnplan.profiles.operators import OPERATORS, Operator, timed_call
from gnnplan.profiles.over_edges import GAT_HEADS, OF_ROWS

CPU = torch.device("cpu")
NUM_EDGES = random_csr(64, 4).nnz
ON_CPU = sorted(name for name, operator in OPERATORS.items() if not operator.cuda_only)
PRODUCTS = {  # the result's shape of operators that return one
    "matmul_forward": (256, 8),
    "matmul_grad_input": (256, 8),
    "matmul_grad_weight": (8, 8),
    "spmm": (256, 2),
    "spmm_features": (256, 8),
    "weigh": (256, 4),
    "weigh_transposed": (256, 4),
    "head_dots": (256, GAT_HEADS),
    "head_dots_to_rows": (256, 8),
    "head_dots_to_vector": (GAT_HEADS, 2),
    "average_heads": (256, 2),
    "spread_heads": (256, 8),
    "gather_rows": (256, 8),
    "pack_columns": (256, 8),
    "scatter_add_rows": (512, 8),
    "activation_forward": (32, 128),
    "activation_backward": (128,),
    "dropout_forward": (32, 128),
    "dropout_backward": (128,),
    "add": (32, 128),
    "idt": (1024,),
}


@pytest.mark.parametrize("name", ON_CPU)
def test_smallest_shape_runs_twice(name):
    """The call of the smallest quick shape runs more than once, without rebuilding its data."""
    call = OPERATORS[name].make(QUICK.shapes(name)[0], CPU)
    first, second = call(), call()
    assert type(first) is type(second)
    if name in PRODUCTS:
        assert tuple(first.shape) == tuple(second.shape) == PRODUCTS[name]


@pytest.mark.parametrize("name", sorted(OF_ROWS))
def test_attention_keeps_the_total_width(name):
    """A GAT shape's width counts all heads; what is made at edges has one number a head."""
    result = OPERATORS[name].make((64, 4, 32), CPU)()
    assert tuple(result.shape) == ((NUM_EDGES, GAT_HEADS) if name == "edge_dots" else (64, 32))


@pytest.mark.parametrize("heads", [1, 8])
def test_scores_have_as_many_heads_as_the_shape_says(heads):
    """At edges one number each, and backward at rows."""
    for name in ("edge_softmax", "edge_softmax_backward"):
        (result,) = OPERATORS[name].make((64, 4, heads), CPU)()
        assert tuple(result.shape) == (NUM_EDGES, heads)
    assert tuple(OPERATORS["edge_scores"].make((64, 4, heads), CPU)().shape) == (NUM_EDGES, heads)
    at_ends = OPERATORS["edge_scores_backward"].make((64, 4, heads), CPU)()
    assert [tuple(each.shape) for each in at_ends] == [(64, heads)] * 2


def test_dropout_operator_drops():
    """The dropout operator is timed with dropout: about half of its outputs are cut beyond ReLU's half."""
    plain = OPERATORS["activation_forward"].make((2**14,), CPU)()
    dropped = OPERATORS["dropout_forward"].make((2**14,), CPU)()
    assert (plain == 0).float().mean() == pytest.approx(0.5, abs=0.05)
    assert (dropped == 0).float().mean() == pytest.approx(0.75, abs=0.05)


def test_optimizer_step_changes_its_parameter():
    """The timed call is a real step of the default optimizer: it moves parameters, and its step count grows."""
    step = OPERATORS["optimizer_step"].make((16,), CPU)
    parameters, _, means, squares, steps = step.args
    before = [each.clone() for each in parameters]
    step()
    step()
    assert all(count == 2 for count in steps)
    assert all((each.abs() > 0).all() for each in (*means, *squares))
    assert not any(torch.equal(each, old) for each, old in zip(parameters, before, strict=True))


def test_only_copies_between_memories_need_a_gpu():
    """What is left out on a CPU are the transfers between host and device and between devices."""
    transfers = {"h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable", "idt_peer"}
    assert set(OPERATORS) - set(ON_CPU) == transfers


@pytest.mark.parametrize("name", ["h2d_pageable", "d2h_pageable"])
def test_transfers_copy_every_byte(name):
    """The transfer's call copies a buffer of the shape's bytes (device and host are one here)."""
    result = OPERATORS[name].make((4096,), CPU)()
    assert result.nbytes == 4096


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.sampled_from([0.25, 1.0, 4.0, 30.0]), st.integers(0, 1000))
def test_random_csr_has_the_asked_degree(num_rows, degree, seed):
    """The entries number rows * degree up to rounding each row, and all columns are in range."""
    matrix = random_csr(num_rows, degree, seed)
    assert abs(matrix.nnz - num_rows * degree) <= num_rows**0.5 * 3 + 1
    assert np.all(np.diff(matrix.indptr) >= 0)
    assert matrix.nnz == 0 or (matrix.indices.min() >= 0 and matrix.indices.max() < num_rows)
    assert matrix.shape == (num_rows, num_rows)


def test_random_csr_is_deterministic_and_skewed():
    """The same seed gives the same matrix; the longest row is several times the mean."""
    first, second = random_csr(2000, 8.0, 5), random_csr(2000, 8.0, 5)
    assert (first != second).nnz == 0
    assert np.diff(first.indptr).max() > 3 * 8


def test_words_are_in_few_columns():
    """Rows are those of `random_csr`; the hundred most frequent of all columns hold more than a third of the entries,
    as no uniform draw would, and are not the first ones.
    """
    matrix, plain = words_csr(2000, 32.0, 5), random_csr(2000, 32.0, 5)
    assert matrix.shape == (2000, NUM_WORDS)
    assert np.array_equal(matrix.indptr, plain.indptr)
    counts = np.bincount(matrix.indices, minlength=NUM_WORDS)
    frequent = np.argsort(counts)[::-1][:100]
    assert 0.3 < counts[frequent].sum() / matrix.nnz < 0.6
    assert np.median(frequent) > NUM_WORDS / 4


@pytest.mark.parametrize(("device", "expected"), [("cpu", [1, 2, 1]), ("cuda", [1, 1, 1])])
def test_operators_are_timed_on_operands_in_turn(device, expected, monkeypatch):
    """Of which a CPU has two sets; a GPU's memory may not hold two of the largest."""
    made, called = [], []

    def make(shape, _):
        made.append(shape)
        return partial(called.append, len(made))

    monkeypatch.setitem(OPERATORS, "twice", Operator(("num_rows",), make))
    call = timed_call("twice", (8.0,), torch.device(device))
    for _ in range(3):
        call()
    assert made == [(8.0,)] * max(expected)
    assert called == expected
