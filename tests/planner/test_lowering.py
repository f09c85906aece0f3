"""What a plan lowers to is what it was chosen by, epoch after epoch."""

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.lowering import lower_cycle, lower_plan
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search import make_plan
from gnnplan.planner.simulator.engine import compile_schedule, play

SPEC = SbmGraph(source="sbm", num_nodes=120, average_degree=6, num_classes=3, num_features=10)
GRAPH = generate_sbm(SPEC)


def plan_of(num_workers, **job):
    """Of a two-layer GCN, one host a worker, over slow links."""
    hosts = tuple(HostSpec(name=f"h{rank}", devices=(DeviceSpec(catalog="t4"),)) for rank in range(num_workers))
    cluster = Cluster(hosts=hosts, network={"bytes_per_s": 1e5, "latency_s": 1e-5})
    return make_plan(Job(graph=SPEC, model=ModelSpec(hidden_channels=16), **job), cluster, GRAPH)[0]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_plan_lowers_to_the_schedule_it_was_chosen_by(num_workers):
    """From the plan alone the same epoch comes out as when it was made with the graph at hand."""
    plan = plan_of(num_workers, pin=PinnedDecisions(num_workers=num_workers))
    schedule = lower_plan(plan)
    assert schedule.num_workers == num_workers
    assert play(compile_schedule(schedule)).makespan_s == plan.prediction.epoch_s


def test_epochs_of_an_interval_come_in_turn():
    """One sends all rows, the others reuse them, and equal ones are one schedule."""
    pin = PinnedDecisions(num_workers=2, refresh_interval=3, dependencies="communicate")
    plan = plan_of(2, fidelity="stale", pin=pin)
    first, second, third = lower_cycle(plan)
    assert second is third
    assert second == lower_plan(plan, refresh=False)
    assert first == lower_plan(plan)
    assert len(second.tasks) < len(first.tasks)
