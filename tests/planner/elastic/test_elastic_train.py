"""`train --elastic`: what is compared and drawn in the end is of the plan that training ended with."""

import pytest

from gnnplan.planner import api
from gnnplan.planner.elastic import run as elastic_run
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.errors import LostWorkersError
from tests import warm
from tests.runtime.checkpoint.jobs import planned, two_workers

pytestmark = pytest.mark.distributed


@pytest.mark.long
def test_prediction_and_comparison_are_of_the_last_plan(tmp_path, monkeypatch):
    """Also where a job pins the number of workers; and the same command begins with all of them again."""
    job, run_plan, sizes = Plan.load(planned(tmp_path, 12)).job, elastic_run.run_plan, []

    def run(path, folder, **how):
        sizes.append(Plan.load(path).num_workers)
        if len(sizes) == 1:
            raise LostWorkersError("worker 1 was ended by SIGKILL", (1,))
        return run_plan(path, folder, **how)

    monkeypatch.setattr(elastic_run, "run_plan", run)
    folder, told = tmp_path / "out", []
    with warm.runs():
        trained = api.train(job, two_workers(tmp_path), folder, elastic=1, on_event=told.append)
        again = api.train(job, two_workers(tmp_path), folder, elastic=1, resume=True)
    assert sizes == [2, 1, 2]
    assert trained.plan.num_workers == 1
    assert trained.comparison.plan_fingerprint == trained.plan.fingerprint() == trained.measured.plan_fingerprint
    assert [event["event"] for event in told if "words" in event] == ["note", "restart"]
    assert again.plan.num_workers == 2
    assert Trace.load(folder / "predicted.json").plan_fingerprint == again.plan.fingerprint()
