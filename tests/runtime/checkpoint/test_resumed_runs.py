"""Runs that are ended in the middle, and go on: by real workers, killed and told to end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from gnnplan.planner import api
from gnnplan.planner.checkpoints import checkpoints_in
from gnnplan.planner.trace import Trace
from gnnplan.profiles.errors import RunFailedError, UserError
from tests import warm
from tests.runtime.checkpoint.jobs import planned, same_bits, weights, workers_of

pytestmark = pytest.mark.distributed

EPOCHS = 700  # a second or two: long enough to be ended in the middle
SHORT = 30


@pytest.fixture(scope="module", params=[1, 3])
def throughout(request, tmp_path_factory):
    """A plan, and the folder and trace of a run of it that nobody disturbed; exact, and with kept rows."""
    folder = tmp_path_factory.mktemp(f"interval_{request.param}")
    path = planned(folder, EPOCHS, interval=request.param)
    with warm.runs():
        trace = api.run(path, folder / "run", timeout_s=60)
    assert not (folder / "run" / "checkpoints").exists()  # it took less than a minute
    return path, folder / "run", trace


def test_killed_in_the_middle_it_goes_on_bit_for_bit(throughout, tmp_path):
    """A worker is killed after a checkpoint; resumed, the run has the weights and losses of one that never stopped."""
    path, whole, trace = throughout

    def kill(event):
        if event["event"] == "checkpoint" and event["epoch"] >= 40:
            os.kill(workers_of(tmp_path)[-1], signal.SIGKILL)

    with pytest.raises(RunFailedError, match="worker"):
        api.run(path, tmp_path, timeout_s=20, checkpoint_every=20, on_event=kill)
    found, faults = checkpoints_in(tmp_path)
    assert found
    assert not faults
    assert all(entry.joinpath("manifest.json").exists() for entry in (tmp_path / "checkpoints").iterdir())
    notes = []
    with warm.runs():
        resumed = api.run(path, tmp_path, timeout_s=60, resume=True, on_event=notes.append)
    assert f"going on with epoch {found[0].epoch} of {EPOCHS}" in [event.get("words") for event in notes]
    assert same_bits(whole, tmp_path)
    assert resumed.losses == trace.losses
    assert resumed.accuracy == trace.accuracy


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_told_to_end_it_keeps_where_it_is(throughout, tmp_path, number, code):
    """One line, its exit code, a checkpoint of the epoch at hand, and nothing left behind; resumed, the same bits."""
    path, whole, _ = throughout
    command = [sys.executable, "-m", "gnnplan.planner.cli", "run", path, "-o", tmp_path, "--checkpoint-every", "10"]
    run = subprocess.Popen([*map(str, command), "--keep", "1"], stderr=subprocess.PIPE, text=True)
    end_s = time.monotonic() + 60
    while not checkpoints_in(tmp_path)[0] and time.monotonic() < end_s:
        time.sleep(0.01)
    begun_s = time.monotonic()
    run.send_signal(number)
    said = run.communicate(timeout=60)[1].strip()
    seconds = time.monotonic() - begun_s
    assert run.returncode == code
    found, _ = checkpoints_in(tmp_path)
    assert [said.splitlines()[-1]] == [
        f"gnnplan: ended by {number.name}; {found[0].epoch} of {EPOCHS} epochs are kept in {tmp_path / 'checkpoints'}: "
        f"the same command with --resume goes on from there"
    ]
    assert len(found) == 1
    assert seconds < 25
    assert not workers_of(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {
        *("checkpoints", "plan.json", next(tmp_path.glob("*.npz")).name, "shards", "workers.log")
    }
    with warm.runs():
        api.run(path, tmp_path, timeout_s=60, resume=True)
    assert same_bits(whole, tmp_path)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A plan that keeps rows, and a run of it that has left two checkpoints."""
    folder = tmp_path_factory.mktemp("short")
    path = planned(folder, SHORT, interval=3)
    with warm.runs():
        api.run(path, folder / "run", timeout_s=60, checkpoint_every=7)
    assert [found.epoch for found in checkpoints_in(folder / "run")[0]] == [28, 21]
    return folder, path


def resumed(path, folder):
    """What a run that goes on says, and its trace."""
    notes = []
    with warm.runs():
        trace = api.run(path, folder, timeout_s=60, resume=True, on_event=notes.append)
    return [event["words"] for event in notes if event["event"] == "note"], trace


def test_a_damaged_checkpoint_is_passed_over(short, tmp_path):
    """By name, for the one before; the numbers are right all the same."""
    folder, path = short
    whole = folder / "run"
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", whole, copied], check=True)
    part = copied / "checkpoints" / "epoch_28" / "worker_1.npz"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    words, _ = resumed(path, copied)
    assert f"{part}: damaged, its content is not what was written; passed over" in words
    assert f"going on with epoch 21 of {SHORT}" in words
    assert same_bits(whole, copied)


def test_another_plan_takes_parameters_and_optimizer(short, tmp_path):
    """An exact plan goes on from the checkpoint of a stale one, and one of more epochs from it."""
    folder, _ = short
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", folder / "run", copied], check=True)
    words, trace = resumed(planned(tmp_path, SHORT + 6), copied)
    assert words == [f"going on with epoch 28 of {SHORT + 6} with the parameters and the optimizer of another plan"]
    assert len(trace.losses) == SHORT + 6
    assert trace.losses[:28] == Trace.load(folder / "run" / "measured.json").losses[:28]
    assert trace.losses[-1] < trace.losses[27] * 1.2
    assert weights(copied)


def test_checkpoints_of_another_training_are_refused(short, tmp_path):
    """In one line, before any worker trains."""
    folder, _ = short
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", folder / "run", copied], check=True)
    with pytest.raises(UserError, match="of another graph, model or optimizer; run without --resume"):
        api.run(planned(tmp_path, SHORT, training={"optimizer": "sgd"}), copied, timeout_s=60, resume=True)
