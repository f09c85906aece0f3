"""Plans for who is left: mini-batches are measured again, no longer than the run would wait."""

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.elastic import replan
from gnnplan.planner.job_pins import PinnedDecisions
from tests.planner.search.searched import job_of, placement_of


@pytest.mark.parametrize("cluster", ["host", "network"])
def test_mini_batches_are_measured_within_the_runs_timeout(monkeypatch, cluster):
    """On the workers of one host, and on several hosts; with no more workers than are left."""
    asked = []

    def measured(job, cluster, *, timeout_s):
        asked.append((job.pin.num_workers, cluster and [host.name for host in cluster.hosts], timeout_s))

    monkeypatch.setattr(replan, "plan_mini_batches", measured)
    batches = MiniBatchSpec(fan_outs=(5, 5))
    job = job_of().model_copy(update={"mini_batch": batches, "pin": PinnedDecisions(num_workers=9)})
    placement = placement_of(cluster).take(2)
    replan.plan_for(job, placement, None, timeout_s=7.0)
    hosts = list(placement.workers_by_host)
    assert asked == [(2, hosts if len(hosts) > 1 else None, 7.0)]
