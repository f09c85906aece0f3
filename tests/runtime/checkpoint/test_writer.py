"""Parts and manifests: whole once every part is there, checked as they are read, and the last ones stay."""

import hashlib
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.checkpoints import (
    DEFAULT_FREQUENCY,
    CheckpointOptions,
    Frequency,
    Part,
    checkpoints_in,
    clear_unfinished,
)
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.checkpoint.parts import OtherTrainingError, read_part, write_part
from gnnplan.runtime.checkpoint.state import METRIC
from gnnplan.runtime.checkpoint.writer import Writer

ARRAYS = {"parameter/w": np.arange(6, dtype=np.float32).reshape(2, 3), "losses": np.array([1.0, 0.5])}
LIKE = {"parameter/w": ((2, 3), np.dtype(np.float32)), "losses": ((None,), np.dtype(np.float64))}


def writer_of(folder, rank=0, num_parts=1, store=None, **changes):
    """A worker's, and what it has told."""
    told = []
    fields = {"num_kept": 2, "kept": [], "timeout_s": 10.0, "is_first": rank == 0} | changes
    writer = Writer(folder, "plan", "training", rank, num_parts, store, on_written=told.append, **fields)
    return writer, told


@pytest.fixture
def store():
    """As torchrun has one, for workers of this process."""
    return dist.HashStore()


def test_it_counts_once_every_part_is_there(tmp_path, store):
    """Before that there is no manifest; then its digests are those of the files."""
    (first, told), (second, _) = (writer_of(tmp_path, rank, 2, store) for rank in range(2))
    first.begin(3, ARRAYS)
    first.finish(0.3)
    assert first.is_busy
    assert checkpoints_in(tmp_path) == ([], [])
    second.begin(3, ARRAYS)
    second.finish(10)
    first.finish(10)
    (found,), faults = checkpoints_in(tmp_path)
    assert not faults
    assert (found.epoch, told[0]["fault"], len(found.manifest.parts)) == (3, "", 2)
    for rank, part in enumerate(found.manifest.parts):
        arrays = read_part(found.folder / f"worker_{rank}.npz", part, LIKE)
        assert all(np.array_equal(array, ARRAYS[name]) for name, array in arrays.items())


def test_a_worker_that_ended_is_not_waited_for(tmp_path, store):
    """What is there of the checkpoint goes."""
    writer, told = writer_of(tmp_path, 0, 2, store)
    writer.begin(3, ARRAYS)
    writer.end(0.3)
    assert not writer.is_busy
    assert "did not come" in told[0]["fault"]
    assert not list((tmp_path / "checkpoints").iterdir())


def test_a_store_that_does_not_answer_is_not_waited_for_twice(tmp_path, monkeypatch):
    """It is that of an agent, which may be stopped: a worker ends soon after the time that it gives."""
    monkeypatch.setattr("gnnplan.runtime.checkpoint.writer._LEAVE_S", 0.05)
    answers = Event()
    silent = SimpleNamespace(set=lambda *_: answers.wait(20))
    writer, _ = writer_of(tmp_path, 1, 2, silent)
    writer.begin(3, ARRAYS)
    begun_s = time.monotonic()
    writer.end(0.8)
    took_s = time.monotonic() - begun_s
    assert writer.is_busy
    answers.set()
    assert 0.8 <= took_s < 1.5


def test_the_fault_of_one_is_everybodys(tmp_path, store):
    """A part that cannot be written leaves no checkpoint, and the reason is said."""
    (first, told), (second, _) = (writer_of(tmp_path, rank, 2, store) for rank in range(2))
    second.begin(3, {"kept/h": np.array([1.0, np.nan], np.float32)})
    second.finish(10)
    first.begin(3, ARRAYS)
    first.finish(10)
    assert told[0]["fault"] == "worker 1: kept/h holds values that are NaN or infinite"
    assert checkpoints_in(tmp_path) == ([], [])


def test_the_first_ones_fault_leaves_no_parts_of_others(tmp_path, store):
    """They would stay on the disk, and fill it."""
    (first, told), (second, _) = (writer_of(tmp_path, rank, 2, store) for rank in range(2))
    first.begin(3, {"kept/h": np.array([1.0, np.nan], np.float32)})
    second.begin(3, ARRAYS)
    second.finish(10)
    first.finish(10)
    assert told[0]["fault"] == "kept/h holds values that are NaN or infinite"
    assert not list((tmp_path / "checkpoints").iterdir())


def test_the_last_ones_stay(tmp_path):
    """Of this run and of the one that it goes on from; those of another run go with the first new one."""
    writer, _ = writer_of(tmp_path)
    for epoch in (5, 10, 15):
        writer.begin(epoch, ARRAYS)
        writer.finish(10)
    assert [found.epoch for found in checkpoints_in(tmp_path)[0]] == [15, 10]
    going_on, _ = writer_of(tmp_path, kept=[10, 15])
    going_on.begin(20, ARRAYS)
    going_on.finish(10)
    assert [found.epoch for found in checkpoints_in(tmp_path)[0]] == [20, 15]
    anew, _ = writer_of(tmp_path)
    anew.begin(5, ARRAYS)
    anew.finish(10)
    assert [found.epoch for found in checkpoints_in(tmp_path)[0]] == [5]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_full_disk_is_said_and_the_one_before_stays(tmp_path):
    """Training would go on."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.system(f"mount -t tmpfs -o size=256k tmpfs {folder} 2>/dev/null"):
        pytest.skip("this container may not mount")
    try:
        writer, told = writer_of(folder)
        writer.begin(5, ARRAYS)
        writer.finish(10)
        writer.begin(10, {"parameter/w": np.zeros(2**18, np.float32)})
        writer.finish(10)
        assert "No space left on device" in told[-1]["fault"]
        assert [found.epoch for found in checkpoints_in(folder)[0]] == [5]
        clear_unfinished(folder)
        assert [entry.name for entry in (folder / "checkpoints").iterdir()] == ["epoch_5"]
    finally:
        os.system(f"umount {folder}")


def test_what_is_damaged_or_of_another_shape_is_refused(tmp_path):
    """By its file and name."""
    path = tmp_path / "worker_0.npz"
    part = write_part(path, ARRAYS)
    with pytest.raises(UserError, match=r"parameter/w is float32 \[2, 3\], float32 \[3, 3\] is needed"):
        read_part(path, part, LIKE | {"parameter/w": ((3, 3), np.dtype(np.float32))})
    with pytest.raises(UserError, match=r"losses is float64 \[2\], float32 \[None\] is needed"):
        read_part(path, part, LIKE | {"losses": ((None,), np.dtype(np.float32))})
    with pytest.raises(UserError, match="optimizer/m is missing; it is of another training"):
        read_part(path, part, {"optimizer/m": ((1,), np.dtype(np.float32))})
    data = path.read_bytes()
    for damaged in (data[:-1], data[:50] + b"x" + data[51:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged, its content is not what was written"):
            read_part(path, part, LIKE)
    path.unlink()
    with pytest.raises(UserError, match="no such file"):
        read_part(path, part, LIKE)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["float32", "int64", "uint8"])), max_size=4
    ),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 255),
)
def test_parts_come_back_bit_for_bit_or_not_at_all(shapes, where, change):
    """Whatever the arrays; one changed byte anywhere is noticed."""
    random = np.random.default_rng(0)
    arrays = {f"kept/{n}": random.integers(0, 99, shape).astype(dtype) for n, (*shape, dtype) in enumerate(shapes)}
    like = {name: (array.shape, array.dtype) for name, array in arrays.items()}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "worker_0.npz"
        part = write_part(path, arrays)
        found = read_part(path, part, like)
        assert found.keys() == arrays.keys()
        assert all(found[name].tobytes() == array.tobytes() for name, array in arrays.items())
        data = bytearray(path.read_bytes())
        data[int(where * len(data))] ^= change
        path.write_bytes(data)
        with pytest.raises(UserError, match="damaged"):
            read_part(path, part, like)


def test_pickles_are_not_read(tmp_path):
    """Though the digest be right: what a part holds is arrays."""
    path = tmp_path / "worker_0.npz"
    np.savez(path, **{"losses": np.array([print], object)})
    part = Part(sha256=hashlib.sha256(path.read_bytes()).hexdigest(), num_bytes=path.stat().st_size)
    with pytest.raises(UserError, match="not a part of a checkpoint, or damaged"):
        read_part(path, part, {"losses": LIKE["losses"]})


def test_a_damaged_manifest_is_a_fault_and_a_link_is_none(tmp_path):
    """Others are found all the same."""
    writer, _ = writer_of(tmp_path)
    for epoch in (5, 10):
        writer.begin(epoch, ARRAYS)
        writer.finish(10)
    manifest = tmp_path / "checkpoints" / "epoch_10" / "manifest.json"
    raw = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(raw | {"epoch": -1}))
    os.symlink(tmp_path / "checkpoints" / "epoch_5", tmp_path / "checkpoints" / "epoch_7")
    found, faults = checkpoints_in(tmp_path)
    assert [each.epoch for each in found] == [5]
    assert len(faults) == 1
    assert faults[0].startswith(f"{manifest}: epoch: ")


def test_a_link_in_place_of_the_folder_is_refused(tmp_path):
    """A run writes in its own folder alone."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "run" / "checkpoints")
    writer, told = writer_of(tmp_path / "run")
    writer.begin(5, ARRAYS)
    writer.finish(10)
    assert "is a link" in told[0]["fault"]
    assert not list(Path(tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10s", Frequency(seconds=10)),
        ("0.5s", Frequency(seconds=0.5)),
        ("20", Frequency(epochs=20)),
        ("never", Frequency()),
    ],
)
def test_how_often_is_read_and_written(text, found):
    """In the same words."""
    assert Frequency.parse(text) == found
    assert str(found) == text


@pytest.mark.parametrize("text", ["", "0", "-1", "0s", "10m", "1e3s", "nan", "s", "\u0663", "9" * 30, "9" * 30 + "s"])
def test_how_often_must_be_a_time_or_epochs(text):
    """Else it is one line."""
    with pytest.raises(UserError, match="checkpoints must be seconds as in 10s, epochs as in 20, or never"):
        CheckpointOptions.of(text)


def test_options_are_what_workers_are_told():
    """As a command line."""
    assert CheckpointOptions.of(None) == CheckpointOptions() == CheckpointOptions(DEFAULT_FREQUENCY, 2, False)
    assert CheckpointOptions.of(5, 3, True).arguments() == ["--checkpoint-every=5", "--keep=3", "--resume"]
    with pytest.raises(UserError, match="must be 1 to 1000, got 0"):
        CheckpointOptions.of(5, 0)


def test_a_part_that_keeps_less_is_of_another_training(tmp_path):
    """As where a rule of validation was added: it is refused, and nothing begins anew in silence."""
    part = write_part(tmp_path / "part.npz", ARRAYS)
    with pytest.raises(OtherTrainingError, match="control/metric is missing; it is of another training"):
        read_part(tmp_path / "part.npz", part, LIKE | {METRIC: ((7,), np.dtype(np.float64))})


def test_a_metric_that_is_not_known_yet_is_no_fault(tmp_path):
    """Before the first validation, and of a rule that the job has not; a parameter that is NaN is one."""
    writer, told = writer_of(tmp_path)
    unknown = {METRIC: np.array([np.nan, -1.0])}
    writer.begin(3, ARRAYS | unknown)
    writer.finish(10)
    writer.begin(4, ARRAYS | {"parameter/w": np.array([[np.nan]])})
    writer.finish(10)
    assert [each["fault"] for each in told] == ["", "parameter/w holds values that are NaN or infinite"]
