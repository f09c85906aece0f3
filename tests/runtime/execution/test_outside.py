"""Files that take the place of memory."""

import gc
import os

import pytest
import torch

from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.edge_block import EdgeBlock
from gnnplan.profiles.kernels.tiles import in_tiles
from gnnplan.profiles.operands import random_csr
from gnnplan.runtime.execution.outside import on_disk


def file_pages():
    """Resident kB of files, of this process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssFile"))


def test_rows_are_used_again(tmp_path):
    """The same file serves the next rows of the size, once nothing looks at the first."""
    outside = on_disk(tmp_path)
    first = outside.rows(1000, 64)
    place, view = first.data_ptr(), first[3:5]
    assert outside.rows(1000, 64).data_ptr() != place
    del first
    assert outside.rows(64, 1000).data_ptr() != place
    del view
    gc.collect()
    assert place in {outside.rows(1000, 64).data_ptr() for _ in range(1)} | {outside.rows(64, 1000).data_ptr()}


def test_nothing_is_left_and_nothing_has_a_name(tmp_path):
    """Whatever ends the process, no file stays."""
    outside = on_disk(tmp_path)
    rows = outside.rows(5000, 64).fill_(1.0)
    assert os.listdir(tmp_path) == []
    assert rows.sum() == 5000 * 64


def test_rows_take_pages_of_files(tmp_path):
    """And no memory of the process's own."""
    outside, before = on_disk(tmp_path), file_pages()
    rows = outside.rows(10_000, 256).fill_(1.0)
    assert file_pages() - before > 0.9 * rows.nbytes / 1024


@pytest.mark.parametrize("make", [lambda m: in_tiles(m, 3), EdgeBlock.from_csr, lambda m: in_tiles(m, 1).parts[0][2]])
def test_kept_numbers_are_the_same(make, tmp_path):
    """Of matrices, tiles and edges, whichever file they come into."""
    held, outside = make(random_csr(2000, 9.0)), on_disk(tmp_path)
    kept = outside.edges(held) if isinstance(held, EdgeBlock) else outside.matrix(held)
    for one, other in zip(_arrays(held), _arrays(kept), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    """When a file is made, and not when a page of it is written."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(RunFailedError, match="no room for a file of"):
        on_disk(tmp_path).rows(10_000, 64)


def _arrays(held):
    if isinstance(held, EdgeBlock):
        return list(vars(held).values())
    parts = [part for _, _, part in held.parts] if hasattr(held, "parts") else [held]
    return [each for part in parts for each in (part.crow_indices(), part.col_indices(), part.values())]


def test_pieces_are_shared(tmp_path):
    """Small arrays lie behind one another in one file, aligned."""
    outside = on_disk(tmp_path)
    made = [csr_tensor(random_csr(number, 3.0)) for number in range(1, 50)]
    kept = [outside.matrix(each) for each in made]
    assert all(torch.equal(one.to_dense(), other.to_dense()) for one, other in zip(made, kept, strict=True))
    places = [part.data_ptr() for each in kept for part in _arrays(each)]
    assert max(places) - min(places) < 2**20
    assert not any(place % 64 for place in places)
