"""Rows in fewer bytes, for any numbers and any width."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gnnplan.profiles.kernels.compressed import FORMATS, compress, decompress, num_words, rows_at_once

ROWS = arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 9)), elements=st.floats(-1e4, 1e4, width=32))
QUANTUM = {"float16": 2**-11, "bfloat16": 2**-8, "int8": 0.51 / 127}  # of a number's size, or of its row's greatest
LEAST = 2**-24  # of float16


@given(ROWS, st.sampled_from(FORMATS))
def test_errors_are_within_half_a_quantum_and_are_kept(rows, form):
    """What came and what it lacks are what was to be sent."""
    x = torch.from_numpy(rows)
    error = torch.zeros_like(x)
    packed = compress(x.clone(), error, form)
    got = decompress(packed, x.shape[1], form)
    assert packed.shape == (len(x), num_words(x.shape[1], form))
    assert torch.equal(x - got, error)
    size = x.abs().amax(1, keepdim=True) if form == "int8" and x.numel() else x.abs()
    assert ((x - got).abs() <= QUANTUM[form] * size + LEAST).all()


@given(ROWS, st.sampled_from(FORMATS))
def test_bytes_are_the_same_in_one_piece_or_many(rows, form):
    """A row is by itself, and what fills its last word is zero."""
    x = torch.from_numpy(np.repeat(rows, 1 + rows_at_once(rows.shape[1], on_cuda=False) // max(len(rows), 1), 0))
    whole = compress(x, torch.zeros_like(x), form)
    for start in range(0, len(x), max(1, len(x) // 2)):
        part = x[start : start + 1]
        assert torch.equal(compress(part, torch.zeros_like(part), form), whole[start : start + 1])


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_number_stays_none(form):
    """A training that has gone wrong is noticed by its receivers too."""
    x = torch.ones(2, 8)
    x[0, 3] = float("nan")
    got = decompress(compress(x, torch.zeros_like(x), form), 8, form)
    assert not got[0].isfinite().all()
    assert torch.allclose(got[1], torch.ones(8), rtol=0.01)


def test_what_is_too_large_for_a_half_travels_later():
    """In as many epochs as it takes."""
    x, error = torch.full((1, 2), 1e5), torch.zeros(1, 2)
    first = decompress(compress(x, error, "float16"), 2, "float16")
    second = decompress(compress(torch.zeros(1, 2), error, "float16"), 2, "float16")
    assert first.tolist() == [[65504.0, 65504.0]]
    assert (first + second)[0, 0] == pytest.approx(1e5, rel=1e-3)
