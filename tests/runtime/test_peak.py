"""What of a process's memory counts as held: its own pages and its libraries', and none of files with rows."""

import mmap

import pytest
import torch

from gnnplan.runtime.peak import peak_memory_bytes

CPU = torch.device("cpu")
_NUM_BYTES = 2**26


@pytest.fixture
def touched(tmp_path):
    """A mapped file in a folder `rows`, all of whose pages are resident."""
    (tmp_path / "rows").mkdir()
    path = tmp_path / "rows" / "file"
    path.write_bytes(b"a" * _NUM_BYTES)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), _NUM_BYTES) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) > 0
        yield tmp_path


def test_pages_of_rows_count_nowhere_but_in_other_folders(touched):
    """Those of a file elsewhere are as good as a library's."""
    _, beside, elsewhere = (peak_memory_bytes(CPU, touched / name) for name in ("rows", "rows", "others"))  # warm
    assert elsewhere - beside == pytest.approx(_NUM_BYTES, rel=0.05)


def test_what_is_held_counts_beside_rows(touched):
    """And so do libraries: torch's alone take tens of megabytes."""
    _, before = (peak_memory_bytes(CPU, touched / "rows") for _ in range(2))  # warm
    block = torch.ones(_NUM_BYTES // 4)
    assert peak_memory_bytes(CPU, touched / "rows") - before == pytest.approx(block.nbytes, rel=0.05)
    assert before > 2**26
