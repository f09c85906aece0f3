"""Runs that lose a worker go on without it, to the weights of a run that was resumed by hand."""

import os
import shutil
import signal

import pytest

from gnnplan.planner import api
from gnnplan.planner.checkpoints import checkpoints_in
from gnnplan.planner.plan import Plan
from gnnplan.profiles.agents import workers_of
from gnnplan.profiles.errors import LostWorkersError, UserError
from tests import warm
from tests.runtime.checkpoint.jobs import planned, same_bits, weights

pytestmark = pytest.mark.distributed
EPOCHS = 700


@pytest.mark.long
def test_a_killed_worker_is_left_out(tmp_path):
    """One line says who, what the plan is now and what was lost; the end has the bits of a resumption by hand."""
    path, run, events = planned(tmp_path, EPOCHS), tmp_path / "run", []

    def kill(event):
        events.append(event)
        if event["event"] == "checkpoint" and not (tmp_path / "kept").exists():
            os.kill(max(workers_of(run).values()), signal.SIGKILL)
            (tmp_path / "kept").mkdir()
        if event.get("words", "").endswith("planning for who is left"):  # nobody writes in the folder
            shutil.copytree(run, tmp_path / "by_hand")

    trace = api.run(path, run, timeout_s=20, checkpoint_every=20, elastic=1, on_event=kill)
    (restart,) = [event for event in events if event["event"] == "restart"]
    assert restart["words"].startswith("lost 1 worker on here: worker ")
    assert "was ended by SIGKILL" in restart["words"]
    assert "; going on with 1 worker on here, " in restart["words"]
    assert restart["lost_epochs"] >= 0
    assert restart["lost_s"] > 0
    assert len(trace.losses) == EPOCHS
    plan = Plan.load(run / "plan.json")
    assert (plan.num_workers, plan.job.pin.num_workers, trace.plan_fingerprint) == (1, 1, plan.fingerprint())
    with warm.runs():
        by_hand = api.run(run / "plan.json", tmp_path / "by_hand", timeout_s=20, resume=True)
        whole = api.run(path, tmp_path / "whole", timeout_s=20)
    assert same_bits(run, tmp_path / "by_hand")
    assert trace.losses == by_hand.losses
    assert trace.accuracy == pytest.approx(whole.accuracy, abs=0.02)
    assert trace.losses[-1] == pytest.approx(whole.losses[-1], rel=0.05)
    assert weights(tmp_path / "whole").keys() == weights(run).keys()
    assert not checkpoints_in(run)[1]


def lost_at_once(monkeypatch, seen):
    """Every run loses its last worker before the first epoch."""

    def lose(path, folder, **how):
        seen.append((Plan.load(path).num_workers, how["checkpoints"].resume))
        last = seen[-1][0] - 1
        raise LostWorkersError(f"worker {last} was ended by SIGKILL; see a log", (last,))

    monkeypatch.setattr("gnnplan.planner.elastic.run.run_plan", lose)


@pytest.mark.long
def test_restarts_are_bounded(tmp_path, monkeypatch):
    """The loss after the last one ends the run; old checkpoints, of another run, are not gone on from."""
    seen, notes = [], []
    path = planned(tmp_path, 5)
    lost_at_once(monkeypatch, seen)
    with pytest.raises(LostWorkersError, match=r"SIGKILL.*restarts so far: 2, which are all that were allowed"):
        api.run(path, tmp_path / "run", elastic=2, on_event=notes.append)
    assert seen == [(2, False), (1, False), (1, False)]
    assert notes[0]["words"] == ("lost 1 worker on here: worker 1 was ended by SIGKILL; planning for who is left")
    assert len(notes) == 2  # the last loss is the error


@pytest.mark.long
def test_no_plan_for_who_is_left_is_said(tmp_path, monkeypatch):
    """With what was lost, and why there is none."""

    def refuse(*_, **__):
        raise UserError("pin asks for two")

    lost_at_once(monkeypatch, [])
    monkeypatch.setattr("gnnplan.planner.elastic.run.plan_for", refuse)
    with pytest.raises(LostWorkersError, match=r"SIGKILL.*there is no plan for 1 worker on here: pin asks for two"):
        api.run(planned(tmp_path, 5), tmp_path / "run", elastic=True)


@pytest.mark.long
@pytest.mark.parametrize("given", [0, -1, 10**6])
def test_other_numbers_of_restarts_are_refused(tmp_path, given):
    """In one line."""
    with pytest.raises(UserError, match="elastic must be true, or 1 to"):
        api.run(planned(tmp_path, 5), tmp_path / "run", elastic=given)
