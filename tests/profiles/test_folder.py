"""A folder holds one run at a time, and what is written in it stays in it."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.folder import LOCK_FILE, holding, make_inside, open_new, scratch

HOLD = """
import sys, time
from pathlib import Path
from gnnplan.profiles.folder import holding
with holding(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def test_a_second_run_is_told_who_holds_the_folder(holder, tmp_path):
    """Its process, its host, and since when."""
    words = rf"{tmp_path}: held by process {holder.pid} on {os.uname().nodename} since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d;"
    with pytest.raises(UserError, match=words), holding(tmp_path):
        pass


def test_a_killed_run_blocks_nobody(holder, tmp_path):
    """Though its lock file lies there."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK_FILE).exists()
    with holding(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK_FILE).read_text()


def test_nothing_is_left_of_a_lock(tmp_path):
    """And the folder may be held again, also after an error, or after it was removed."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), holding(tmp_path / "run"):
            raise ZeroDivisionError
        assert not list((tmp_path / "run").iterdir())
    with holding(tmp_path / "run"):
        (tmp_path / "run" / LOCK_FILE).unlink()
        (tmp_path / "run").rmdir()


@pytest.mark.parametrize("name", [LOCK_FILE, "workers.log"])
def test_links_are_not_followed(tmp_path, name):
    """Out of the folder nothing is written."""
    outside, folder = tmp_path / "outside", tmp_path / "run"
    outside.write_text("mine")
    folder.mkdir()
    (folder / name).symlink_to(outside)
    if name == LOCK_FILE:
        with pytest.raises(UserError, match="cannot be written"), holding(folder):
            pass
    else:
        with open_new(folder / name) as sink:
            sink.write("a log")
        assert (folder / name).read_text() == "a log"
    assert outside.read_text() == "mine"


def test_a_linked_folder_is_refused(tmp_path):
    """What lies in it is not the run's."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "shards").symlink_to(tmp_path)
    with pytest.raises(UserError, match="is a link"):
        make_inside(tmp_path / "run", "shards")


def test_a_path_that_is_none_is_one_line(tmp_path):
    """A file in its place, or a NUL in it."""
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "a\0b"):
        with pytest.raises(UserError, match="cannot be written"), holding(folder):
            pass


def test_a_lock_that_cannot_be_written_is_not_left(tmp_path, monkeypatch):
    """As on a full disk: the next run finds a folder that nobody holds."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("gnnplan.profiles.folder.os.write", full)
        with pytest.raises(UserError, match="No space left on device"), holding(tmp_path):
            pass
    assert not list(tmp_path.iterdir())
    with holding(tmp_path):
        pass


def test_what_a_failed_worker_left_stays(tmp_path, monkeypatch):
    """Its error names a file there; else nothing stays."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RunFailedError), scratch("a-") as failed:
        raise RunFailedError(f"see {failed / 'workers.log'}")
    with pytest.raises(RunFailedError), scratch("b-") as killed:
        raise RunFailedError("a worker was ended by SIGKILL")
    with pytest.raises(UserError), scratch("c-") as refused:
        raise UserError("no")
    with scratch("d-") as done:
        assert done.is_dir()
    assert [each.is_dir() for each in (failed, killed, refused, done)] == [True, False, False, False]
