"""Plans for who is left: mini-batches are measured again, no longer than the run would wait."""

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.elastic import replan
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.weather.model import MarkovWeather, WorkerWeather
from tests.planner.search.searched import job_of, placement_of


def test_the_last_host_of_an_emulation_stays_in_it(monkeypatch):
    """Its namespace and its cores are its own."""
    asked = []
    monkeypatch.setattr(replan, "plan_mini_batches", lambda job, cluster, *, timeout_s: asked.append(cluster))
    placement = placement_of("network").take(1)
    monkeypatch.setattr(replan, "emulated_hosts", lambda: dict.fromkeys(placement.workers_by_host))
    job = job_of().model_copy(update={"mini_batch": MiniBatchSpec(fan_outs=(5, 5))})
    replan.plan_for(job, placement, None, timeout_s=7.0)
    assert [host.name for host in asked[0].hosts] == list(placement.workers_by_host)


def test_weather_of_workers_that_are_gone_is_left_out(monkeypatch):
    """It is simulated, and describes as many as there were."""
    asked = []
    monkeypatch.setattr(replan, "plan_among", lambda job, *_: asked.append(job.training.weather))
    weather = MarkovWeather(workers=(WorkerWeather(),) * 3)
    job = job_of()
    job = job.model_copy(update={"training": job.training.model_copy(update={"weather": weather})})
    for size in (3, 2):
        replan.plan_for(job, placement_of("network").take(size), object(), timeout_s=7.0)
    fewer = job.model_copy(update={"pin": PinnedDecisions(num_workers=3)})
    replan.plan_for(fewer, placement_of("host"), object(), timeout_s=7.0)
    assert asked == [weather, None, weather]


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
