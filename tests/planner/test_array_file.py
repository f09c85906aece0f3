"""A record of arrays is read as it was written, and is there whole or not at all."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.array_file import ArrayFile
from gnnplan.profiles.errors import UserError

DTYPES = ["bool", "int8", "int32", "int64", "float32", "float64"]


@dataclass(frozen=True)
class Record(ArrayFile):
    """One field of each kind."""

    WHAT = "a record"

    count: int
    rows: np.ndarray
    matrix: sp.csr_matrix


def record_of(count=3, shape=(2, 3), dtype="float32", seed=0):
    """Random values, about half of them zero."""
    rng = np.random.default_rng(seed)
    rows, dense = (rng.integers(0, 2, shape).astype(dtype) for _ in range(2))
    return Record(count, rows, sp.csr_matrix(dense))


def assert_equal(ours, theirs):
    """In values and types, those of the CSR's parts too."""
    assert type(ours.count) is type(theirs.count) is int
    assert ours.count == theirs.count
    assert ours.matrix.shape == theirs.matrix.shape
    pairs = [(ours.rows, theirs.rows)]
    pairs += [(getattr(ours.matrix, part), getattr(theirs.matrix, part)) for part in ("data", "indices", "indptr")]
    for one, other in pairs:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(-(2**62), 2**62),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from(DTYPES),
    st.integers(0, 99),
)
def test_what_was_written_is_read(tmp_path_factory, count, shape, dtype, seed):
    """Without rows or columns too."""
    path, record = tmp_path_factory.mktemp("record") / "record.npz", record_of(count, shape, dtype, seed)
    record.save(path)
    assert_equal(Record.load(path), record)


def test_a_record_takes_the_place_of_the_one_before(tmp_path):
    """In a folder that is made where there is none; nothing else is left there."""
    path = tmp_path / "new" / "record.npz"
    for count in (1, 2):
        record_of(count, seed=count).save(path)
    assert_equal(Record.load(path), record_of(2, seed=2))
    assert [found.name for found in path.parent.iterdir()] == ["record.npz"]


def test_a_full_disk_leaves_the_record_before(tmp_path, monkeypatch):
    """Half of the new one would be none."""
    path = tmp_path / "record.npz"
    record_of(1).save(path)

    def fill(file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(UserError, match=r"record\.npz: cannot be written \(No space left on device\)"):
        record_of(2).save(path)
    monkeypatch.undo()
    assert_equal(Record.load(path), record_of(1))
    assert [found.name for found in tmp_path.iterdir()] == ["record.npz"]


def test_a_file_that_holds_no_such_record_says_what_it_should(tmp_path):
    """By the name of its kind; what is not there at all is said to be."""
    path = tmp_path / "record.npz"
    with pytest.raises(UserError, match=r"record\.npz: no such file"):
        Record.load(path)
    np.savez(path, count=1, rows=np.arange(2))
    with pytest.raises(UserError, match=r"record\.npz: not a record, or damaged \(.*matrix\.data"):
        Record.load(path)
    path.write_text("count = 1")
    with pytest.raises(UserError, match=r"record\.npz: not a record, or damaged"):
        Record.load(path)


def test_nothing_is_unpickled(tmp_path):
    """An array of objects is damage."""
    path = tmp_path / "record.npz"
    np.savez(path, count=1, rows=np.array([{}], object))
    with pytest.raises(UserError, match=r"not a record, or damaged \(Object arrays cannot be loaded"):
        Record.load(path)


def test_any_name_will_do(tmp_path):
    """It is not given another suffix."""
    record_of().save(tmp_path / "record")
    assert_equal(Record.load(tmp_path / "record"), record_of())
    assert [path.name for path in tmp_path.iterdir()] == ["record"]
