"""Runs that are ended in the middle, and go on: by real workers, killed and told to end."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from benchmarks._fault_cells import hear_interrupts
from gnnplan.planner import api
from gnnplan.planner.checkpoints import checkpoints_in
from gnnplan.planner.job_pins import PartialReducePin
from gnnplan.planner.trace import Trace
from gnnplan.profiles.agents import workers_of
from gnnplan.profiles.errors import RunFailedError, StoppedError, UserError
from tests import warm
from tests.runtime.checkpoint.jobs import planned, same_bits, weights

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


@pytest.mark.long
def test_killed_in_the_middle_it_goes_on_bit_for_bit(throughout, tmp_path):
    """A worker is killed after a checkpoint; resumed, the run has the weights and losses of one that never stopped."""
    path, whole, trace = throughout

    def kill(event):
        if event["event"] == "checkpoint" and event["epoch"] >= 40:
            os.kill(max(workers_of(tmp_path).values()), signal.SIGKILL)

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


@pytest.mark.long
@pytest.mark.parametrize(
    ("throughout", "number", "code"), [(1, signal.SIGTERM, 143), (3, signal.SIGINT, 130)], indirect=["throughout"]
)
def test_told_to_end_it_keeps_where_it_is(throughout, tmp_path, number, code):
    """One line, its exit code, a checkpoint of the epoch at hand, and nothing left behind; resumed, the same bits."""
    path, whole, _ = throughout
    command = [sys.executable, "-m", "gnnplan.planner.cli", "run", path, "-o", tmp_path, "--checkpoint-every", "10"]
    command = [*map(str, command), "--keep", "1"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts)
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
    furthest, before = (found.epoch for found in checkpoints_in(folder / "run")[0])
    return folder, path, furthest, before


def resumed(path, folder):
    """What a run that goes on says, and its trace."""
    notes = []
    with warm.runs():
        trace = api.run(path, folder, timeout_s=60, resume=True, on_event=notes.append)
    return [event["words"] for event in notes if event["event"] == "note"], trace


@pytest.mark.long
def test_a_damaged_checkpoint_is_passed_over(short, tmp_path):
    """By name, for the one before; the numbers are right all the same."""
    folder, path, furthest, before = short
    whole = folder / "run"
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", whole, copied], check=True)
    part = copied / "checkpoints" / f"epoch_{furthest}" / "worker_1.npz"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    words, _ = resumed(path, copied)
    assert f"{part}: damaged, its content is not what was written; passed over" in words
    assert f"going on with epoch {before} of {SHORT}" in words
    assert same_bits(whole, copied)


@pytest.mark.long
def test_another_plan_takes_parameters_and_optimizer(short, tmp_path):
    """An exact plan goes on from the checkpoint of a stale one, and one of more epochs from it."""
    folder, _, furthest, _ = short
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", folder / "run", copied], check=True)
    words, trace = resumed(planned(tmp_path, SHORT + 6), copied)
    going_on = f"going on with epoch {furthest} of {SHORT + 6}"
    assert words == [f"{going_on} with the parameters and the optimizer of another plan"]
    assert len(trace.losses) == SHORT + 6
    assert trace.losses[:furthest] == Trace.load(folder / "run" / "measured.json").losses[:furthest]
    assert trace.losses[-1] < trace.losses[furthest - 1] * 1.2
    assert weights(copied)


@pytest.mark.long
def test_what_is_sent_again_is_so_after_another_stop(short, tmp_path):
    """A stale plan that goes on from another's checkpoint sends all rows up to its next refresh, whatever stops it."""
    folder, _, furthest, _ = short
    copied, whole = tmp_path / "run", tmp_path / "whole"
    subprocess.run(["cp", "-r", folder / "run", copied], check=True)
    path = planned(tmp_path, SHORT + 10, interval=10)
    with warm.runs():
        api.run(path, copied, timeout_s=60, resume=True, checkpoint_every=1, keep=20)
    subprocess.run(["cp", "-r", copied, whole], check=True)
    for found in checkpoints_in(copied)[0]:
        if found.epoch != furthest + 1:
            shutil.rmtree(found.folder)
    words, _ = resumed(path, copied)
    assert words == [f"going on with epoch {furthest + 1} of {SHORT + 10}"]
    assert same_bits(whole, copied)


@pytest.mark.long
def test_another_number_of_workers_comes_to_the_same_weights(tmp_path):
    """Exact plans agree up to rounding, dropout included, though one worker goes on with what two began."""
    path, run = planned(tmp_path, SHORT), tmp_path / "run"
    with warm.runs():
        whole = api.run(path, run, timeout_s=60, checkpoint_every=10, keep=1)
    before = {name: weight.clone() for name, weight in weights(run).items()}
    words, trace = resumed(planned(tmp_path, SHORT, num_workers=1), run)
    assert "another plan" in words[0]
    assert trace.num_workers == 1
    assert trace.losses == pytest.approx(whole.losses, rel=1e-4)
    for name, weight in weights(run).items():
        assert float((weight - before[name]).norm() / before[name].norm()) < 1e-4, name


@pytest.mark.long
def test_checkpoints_of_another_training_are_refused(short, tmp_path):
    """In one line, before any worker trains."""
    folder = short[0]
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", folder / "run", copied], check=True)
    with pytest.raises(UserError, match="of another graph, model or optimizer; run without --resume"):
        api.run(planned(tmp_path, SHORT, training={"optimizer": "sgd"}), copied, timeout_s=60, resume=True)


@pytest.mark.long
@pytest.mark.parametrize("staleness", [0, 2])
def test_partial_reduce_goes_on(tmp_path, staleness):
    """Where all wait for all it has the same bits; else it trains to the end, with the mean of the weights."""
    pin = PartialReducePin(max_staleness=staleness, average_epochs=8 if staleness else 0)
    path = planned(tmp_path, SHORT, fidelity="stale", partial_reduce=pin)
    run = tmp_path / "run"
    with warm.runs():
        whole = api.run(path, run, timeout_s=60, checkpoint_every=13, keep=1)
    before = {name: weight.clone() for name, weight in weights(run).items()}
    (found,), _ = checkpoints_in(run)
    assert found.epoch >= 26  # in the middle of the mean
    assert len(found.manifest.parts) == 1
    assert [part.name for part in sorted(found.folder.glob("*.npz"))] == ["worker_0.npz"]
    words, trace = resumed(path, run)
    assert words == [f"going on with epoch {found.epoch} of {SHORT}"]
    assert len(trace.losses) == len(whole.losses) == SHORT
    if staleness == 0:
        assert trace.losses == whole.losses
        assert all(torch.equal(weight, before[name]) for name, weight in weights(run).items())
    else:
        assert trace.losses[-1] == pytest.approx(whole.losses[-1], rel=0.5)


@pytest.mark.long
def test_partial_reduce_told_to_end_keeps_where_it_is(tmp_path):
    """The first worker's weights are everybody's, and the others wait until they are written."""
    path = planned(tmp_path, 3000, fidelity="stale", partial_reduce=PartialReducePin(max_staleness=2))
    seen = []

    def stop(event):
        seen.append(event)
        if event["event"] == "checkpoint" and len(seen) > 1 and not any(each.get("sent") for each in seen):
            seen.append({"sent": True})
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError, match=r"ended by SIGTERM; \d+ of 3000 epochs are kept"):
        api.run(path, tmp_path / "run", timeout_s=20, checkpoint_every=10, on_event=stop)
    told = max(each["epoch"] for each in seen if each.get("event") == "checkpoint")
    assert checkpoints_in(tmp_path / "run")[0][0].epoch == told
    assert not workers_of(tmp_path / "run")
