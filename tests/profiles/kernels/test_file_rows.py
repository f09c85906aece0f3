"""Pages of rows that lie apart: all of them, once each, and asked for in runs."""

import mmap
import tempfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles.kernels import file_rows as module
from gnnplan.profiles.kernels.file_rows import PAGE_BYTES, asked_for, page_runs

ROWS = st.sets(st.integers(0, 400), max_size=60).map(lambda each: np.array(sorted(each), np.int64))


@given(ROWS, st.integers(4, 3 * PAGE_BYTES), st.integers(0, PAGE_BYTES - 1))
def test_runs_are_the_pages_of_the_rows(rows, row_bytes, offset_bytes):
    """Every page that has a byte of a row, in as few runs as there are."""
    begins = rows * row_bytes + offset_bytes
    right = {p for b in begins.tolist() for p in range(b // PAGE_BYTES, (b + row_bytes - 1) // PAGE_BYTES + 1)}
    firsts, stops = (each.tolist() for each in page_runs(rows, row_bytes, offset_bytes))
    found = [page for first, stop in zip(firsts, stops, strict=True) for page in range(first, stop)]
    assert sorted(found) == sorted(right)
    assert all(stop < first for stop, first in zip(stops, firsts[1:], strict=False))


@pytest.fixture
def matrix():
    """Rows of a file, 64 a page."""
    with tempfile.TemporaryFile() as file:
        file.truncate(64 * PAGE_BYTES)
        yield torch.from_numpy(np.frombuffer(mmap.mmap(file.fileno(), 64 * PAGE_BYTES), np.float32).reshape(-1, 16))


def test_only_pages_of_the_rows_are_asked_for(matrix, monkeypatch):
    """With nothing read beside them, and as before when it is over, whatever happened."""
    asked = []
    monkeypatch.setattr(module, "_advise", lambda *each: asked.append(each))
    begin = matrix.data_ptr()
    rows = torch.tensor([0, 63, 64, 700])
    with pytest.raises(KeyError), asked_for(matrix, rows):
        raise KeyError
    assert asked == [
        (begin, 64 * PAGE_BYTES, mmap.MADV_RANDOM),
        (begin, 2 * PAGE_BYTES, mmap.MADV_WILLNEED),
        (begin + 10 * PAGE_BYTES, PAGE_BYTES, mmap.MADV_WILLNEED),
        (begin, 64 * PAGE_BYTES, mmap.MADV_NORMAL),
    ]


def test_a_long_range_is_asked_for_in_pieces(matrix, monkeypatch):
    """Of one range the kernel may read no more than it reads ahead."""
    asked = []
    monkeypatch.setattr(module, "_advise", lambda *each: asked.append(each))
    with asked_for(matrix, torch.arange(len(matrix))):
        pass
    pieces = [(address, num_bytes) for address, num_bytes, advice in asked if advice == mmap.MADV_WILLNEED]
    assert pieces == [(matrix.data_ptr() + at, 2**17) for at in (0, 2**17)]


def test_rows_are_what_they_were(matrix):
    """Read, and added to, in the file; where a matrix is no file's too."""
    for x in (matrix, torch.zeros(4096, 16), torch.zeros(16, 4096).t()):
        rows = torch.tensor([5, 900, 4000])
        with asked_for(x, rows):
            x.index_add_(0, rows, torch.ones(3, 16))
        assert x.sum() == 48
        with asked_for(x, rows[:0]):
            assert torch.equal(x[rows], torch.ones(3, 16))


def test_what_the_kernel_refuses_is_no_error():
    """It is advice."""
    module._advise(1, 1, mmap.MADV_WILLNEED)
