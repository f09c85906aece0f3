"""Files nobody vouches for: what they hold is read, and every fault is one line that starts with the path."""

import gzip
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.loaders.read import read_npy, read_npz, read_table, reading
from gnnplan.profiles.errors import UserError

READERS = {
    "npz": lambda path: read_npz(path, ("a",)),
    "npy": read_npy,
    "table": lambda path: read_table(path, np.int64),
}


def fault(read, *arguments, **options):
    """The one line of a UserError."""
    with pytest.raises(UserError) as caught:
        read(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_with_content_is_said_first(reader, tmp_path):
    """Whatever it is read as."""
    read, path = READERS[reader], tmp_path / "data"
    assert fault(read, path) == f"{path}: no such file"
    path.mkdir()
    assert fault(read, path) == f"{path}: a file is needed here, this is a folder"
    path.rmdir()
    path.touch()
    assert fault(read, path) == f"{path}: the file is empty"


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (FileNotFoundError(2, "No such file or directory"), "no such file"),
        (PermissionError(13, "Permission denied"), "cannot be read as a thing (Permission denied)"),
        (OSError("half a block"), "cannot be read as a thing (half a block)"),
        (ValueError("first\nsecond"), "not a thing, or damaged (first); make or copy it again"),
        (RuntimeError(), "not a thing, or damaged (RuntimeError); make or copy it again"),
        (KeyError("y" * 200), f"not a thing, or damaged ('{'y' * 159}); make or copy it again"),
    ],
)
def test_whatever_a_decoder_raises_is_one_line(error, wanted):
    """The first of its lines, not all of a long one, or its kind where it says nothing."""
    with pytest.raises(UserError) as caught, reading(Path("some.bin"), "a thing"):
        raise error
    assert str(caught.value) == f"some.bin: {wanted}"


@pytest.mark.parametrize("error", [UserError("some.bin: y is too short"), KeyboardInterrupt()])
def test_what_says_enough_already_is_left_alone(error):
    """As is what is nobody's fault."""
    with pytest.raises(type(error)) as caught, reading(Path("some.bin"), "a thing"):
        raise error
    assert caught.value is error


def test_only_the_arrays_that_are_asked_for_are_decoded(tmp_path):
    """As far as there are any; one of objects beside them is not unpickled, and named where it is wanted."""
    path = tmp_path / "data.npz"
    np.savez(path, a=np.arange(3), empty=np.empty((0, 2)), objects=np.array([{}], object))
    found = read_npz(path, ("a", "empty", "missing"))
    assert {key: (array.shape, array.dtype) for key, array in found.items()} == {
        "a": ((3,), np.dtype(np.int64)),
        "empty": ((0, 2), np.dtype(np.float64)),
    }
    assert read_npz(path, ()) == {}
    assert "not an .npz file of plain arrays at key 'objects', or damaged" in fault(read_npz, path, ("objects",))


def test_an_array_file_of_another_kind_is_named(tmp_path):
    """By its first bytes, whatever its name says."""
    npy, npz = tmp_path / "data.npy", tmp_path / "data.npz"
    np.save(npy, np.eye(2))
    np.savez(npz, a=np.eye(2))
    np.testing.assert_array_equal(read_npy(npy), np.eye(2))
    npy.write_bytes(npz.read_bytes())
    assert fault(read_npy, npy) == f"{npy}: not an .npy file; write it with numpy.save"
    np.save(npy, np.eye(2))
    npz.write_bytes(npy.read_bytes())
    assert fault(read_npz, npz, ("a",)).startswith(f"{npz}: not an .npz file (no complete zip archive)")
    npy.write_bytes(npy.read_bytes()[:-1])
    assert fault(read_npy, npy).startswith(f"{npy}: not an .npy file, or damaged (")


def rows_of(width):
    """Rows of whole numbers, as many in each."""
    return st.lists(st.lists(st.integers(-(10**12), 10**12), min_size=width, max_size=width), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4).flatmap(rows_of), st.sampled_from([None, ","]), st.sampled_from(["table.csv", "table.csv.gz"]))
def test_a_table_is_its_lines(tmp_path_factory, rows, delimiter, name):
    """Of one row or column too, and whatever stands between them that is no data."""
    path = tmp_path_factory.mktemp("table") / name
    lines = ((delimiter or " ").join(map(str, row)) for row in rows)
    text = "\n".join(chain.from_iterable(("# x y", line, "") for line in lines)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    table = read_table(path, np.int64, num_columns=len(rows[0]), delimiter=delimiter)
    assert table.dtype == np.int64
    assert table.tolist() == rows


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        ("# a\n\n1 2\n3 x\n", {}, ", line 4: numbers are needed, found '3 x'"),
        ("1 2\n3\n", {}, ", line 2: 2 columns are needed, found '3'"),
        ("1 2\n3 4\n", {"num_columns": 3}, ", line 1: 3 columns are needed, found '1 2'"),
        ("1,2\n3,\n", {"delimiter": ","}, ", line 2: numbers are needed, found '3,'"),
        (f"1\n{'x' * 50}\n", {}, f", line 2: numbers are needed, found '{'x' * 40}'"),
        ("\n# 1 2\n", {}, ": no line holds data"),
    ],
)
@pytest.mark.parametrize("name", ["table.txt", "table.txt.gz"])
def test_the_line_at_fault_is_the_one_a_reader_sees(text, options, wanted, name, tmp_path):
    """Comments and empty lines count."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    assert fault(read_table, path, np.float32, **options) == f"{path}{wanted}"
