"""The critical path and what binds each worker make up the whole epoch, and say what is so."""

import pytest

from gnnplan.planner.explain.binding import worker_bindings
from gnnplan.planner.explain.epochs import played_programs
from gnnplan.planner.explain.path import path_parts
from gnnplan.planner.plan import Plan
from gnnplan.profiles.machine import CpuQuota
from tests.planner.explain.explained import plan_on, plan_on_three

PLANS = {
    "one worker": lambda: plan_on("one"),
    "three workers": plan_on_three,
    "no overlap": lambda: plan_on_three(overlap=False),
    "kept rows": lambda: plan_on("network", bytes_per_s=1e7, fidelity="stale", num_workers=3, refresh_interval=3),
    "quotas": lambda: with_quotas(plan_on_three()),
}


def with_quotas(plan: Plan) -> Plan:
    """Every worker may compute for half of every millisecond."""
    profiles = {
        name: profile.model_copy(update={"device_kind": "cpu", "cpu_quota": CpuQuota(share=0.5, period_s=1e-3)})
        for name, profile in plan.placement.profiles.items()
    }
    return plan.model_copy(update={"placement": plan.placement.model_copy(update={"profiles": profiles})})


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_all_shares_add_up_to_the_epoch(name):
    """Of the path, and of every worker."""
    plan = PLANS[name]()
    programs = played_programs(plan)
    parts, workers = path_parts(programs), worker_bindings(programs, plan.placement)
    epoch_s = sum(part.seconds for part in parts)
    if name != "quotas":
        assert epoch_s == pytest.approx(plan.prediction.epoch_s, rel=1e-9)
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert len(workers) == plan.num_workers
    for worker in workers:
        assert sum(time.seconds for time in worker.times) == pytest.approx(epoch_s, rel=1e-6)
        assert sum(time.share for time in worker.times) == pytest.approx(1)


def test_one_worker_only_computes():
    """There is nobody to wait for."""
    programs = played_programs(plan_on("one"))
    assert [(part.collective, part.worker) for part in path_parts(programs)] == [("", 0)]
    (worker,) = worker_bindings(programs, plan_on("one").placement)
    assert [time.what for time in worker.times] == ["compute"]


def slowed(plan: Plan, host: str, bytes_per_s: float) -> Plan:
    """The plan with another link of one host."""
    workers = tuple(
        w.model_copy(update={"link": w.link.model_copy(update={"bytes_per_s": bytes_per_s})}) if w.host == host else w
        for w in plan.placement.workers
    )
    return plan.model_copy(update={"placement": plan.placement.model_copy(update={"workers": workers})})


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_slow_link_is_named(rank):
    """Its exchanges are the longest part; its worker is bound by its port, all others wait for it."""
    plan = slowed(plan_on_three(), plan_on_three().placement.workers[rank].host, 1e6)
    programs = played_programs(plan)
    longest = path_parts(programs)[0]
    assert longest.collective.startswith("exchange of the ")
    assert longest.worker == rank
    for worker in worker_bindings(programs, plan.placement):
        first = worker.times[0]
        assert (first.what, first.peer) == (("port", None) if worker.worker == rank else ("wait", rank))


def test_a_slow_worker_is_waited_for():
    """Who computes longest is on the path, and others wait for it."""
    plan = plan_on_three(overlap=False)
    placement = plan.placement
    name = placement.workers[1].profile
    tables = {
        operator: table.model_copy(
            update={"points": tuple(p.model_copy(update={"median_s": 50 * p.median_s}) for p in table.points)}
        )
        for operator, table in placement.profiles[name].operators.items()
    }
    slow = placement.profiles[name].model_copy(update={"operators": tables})
    workers = tuple(w.model_copy(update={"profile": "slow"}) if r == 1 else w for r, w in enumerate(placement.workers))
    moved = placement.model_copy(update={"workers": workers, "profiles": {**placement.profiles, "slow": slow}})
    programs = played_programs(plan.model_copy(update={"placement": moved}))
    assert (path_parts(programs)[0].collective, path_parts(programs)[0].worker) == ("", 1)
    bindings = worker_bindings(programs, moved)
    assert [(b.times[0].what, b.times[0].peer) for b in bindings] == [("wait", 1), ("compute", None), ("wait", 1)]
