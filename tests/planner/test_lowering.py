"""A schedule holds what every worker does, in one order, with the bytes the exchanges send."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, SbmGraph
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.lowering import FullBatchLowering, epoch_order, lower_plan
from gnnplan.planner.network import Network
from gnnplan.planner.schedule import Quota, Schedule
from gnnplan.planner.shapes import worker_shapes
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.steps import LayerDecision, build_program, num_hops
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.curves import Estimate
from tests.planner.layered import make_plan

SPEC = SbmGraph(source="sbm", num_nodes=120, average_degree=6, num_classes=3, num_features=10)
GRAPH = generate_sbm(SPEC)
MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]
CASES = [(kind, order) for kind in KINDS for order in ([MULTIPLY] if kind == "gat" else [MULTIPLY, AGGREGATE, ONCE])]


def cluster_of(num_workers, names=("t4",)):
    """One host a worker, devices in turn."""
    return Cluster(
        hosts=tuple(
            HostSpec(name=f"h{rank}", devices=(DeviceSpec(catalog=names[rank % len(names)]),))
            for rank in range(num_workers)
        )
    )


def lowering_of(kind, order, num_workers, *, names=("t4",), part=None):
    """The lowering of a two-layer model on a partition of the test graph."""
    model = ModelSpec(kind=kind, hidden_channels=16)
    layers = (order, MULTIPLY if order is MULTIPLY else AGGREGATE)
    program = build_program(model, layers, num_features=10, num_classes=3, sparse_input=False)
    part = np.arange(120) % num_workers if part is None else part
    halo = build_halo(aggregation_matrix(120, GRAPH.edge_index, kind), part, num_workers)
    placement = resolve(cluster_of(num_workers, names))
    return FullBatchLowering(
        program,
        placement,
        worker_shapes(GRAPH, halo, num_hops=num_hops(model), sparse_features=False),
        halo.send_counts(),
        {name: OperatorCosts.of(profile) for name, profile in placement.profiles.items()},
        3,
    )


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_one_worker_does_not_communicate(kind, order):
    """Alone there is no exchange, no packing and no reduction."""
    schedule = lowering_of(kind, order, 1).lower()
    assert all(task.category != "communicate" and task.group == -1 for task in schedule.tasks)
    assert not any(word in task.key for task in schedule.tasks for word in ("exchange/", "pack", "reduce"))


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_all_workers_have_the_same_keys_in_the_same_order(kind, order):
    """Collectives meet only where every worker comes to them in the same order."""
    part = np.r_[np.zeros(100, int), np.ones(15, int), np.full(5, 2)]
    schedule = lowering_of(kind, order, 3, names=("t4", "rtx-3090"), part=part).lower()
    keys = schedule.keys_of(0)
    assert len(set(keys)) == len(keys)
    assert schedule.keys_of(1) == schedule.keys_of(2) == keys
    groups = [[task.group for task in schedule.tasks if task.worker == w and task.group >= 0] for w in range(3)]
    assert groups[0] == groups[1] == groups[2] == list(range(len(groups[0])))


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_each_collective_is_one_group_of_all_workers(kind, order):
    """A communicate task is a member of a group that every worker has one task in, of equal seconds."""
    schedule = lowering_of(kind, order, 3).lower()
    assert any(task.category == "communicate" for task in schedule.tasks)
    by_group = {}
    for task in schedule.tasks:
        assert (task.category == "communicate") == (task.group >= 0)
        if task.group >= 0:
            by_group.setdefault(task.group, []).append(task)
    for members in by_group.values():
        assert sorted(task.worker for task in members) == [0, 1, 2]
        assert len({(task.key, task.seconds) for task in members}) == 1


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_sent_bytes_are_rows_times_width_times_four(kind, order):
    """Each exchange sends the halo rows in float32: forward as counted, backward the other way."""
    lowering = lowering_of(kind, order, 3, part=np.minimum(np.arange(120) // 30, 2))
    lowering.lower()
    wanted = np.zeros(3, np.int64)
    for step in lowering.program.steps:
        if step.op in ("aggregate", "exchange"):
            wanted += lowering.send_counts.sum(1) * step.in_width * 4
            if not step.constant:
                wanted += lowering.send_counts.T.sum(1) * step.in_width * 4
    np.testing.assert_array_equal(lowering.sent_bytes, wanted)
    assert wanted.min() > 0


def test_precompute_saves_the_exchange_of_the_features():
    """What is aggregated once is exchanged before the first epoch, not in every one."""
    sent = {}
    for order in (AGGREGATE, ONCE):
        lowering = lowering_of("gcn", order, 2)
        lowering.lower()
        sent[order.precompute] = lowering.sent_bytes
    saved = lowering.send_counts.sum(1) * 10 * 4
    np.testing.assert_array_equal(sent[False] - sent[True], saved)


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_backward_mirrors_forward(kind, order):
    """Steps come back in reverse order, each once, between loss and optimizer."""
    lowering = lowering_of(kind, order, 2)
    keys = lowering.lower().keys_of(0)
    names = [step.name for step in lowering.program.steps]
    assert [key.removesuffix("/forward") for key in keys if key.removesuffix("/forward") in names] == names
    backward = [key.removesuffix("/backward") for key in keys if key.removesuffix("/backward") in names]
    assert backward == [name for name in reversed(names) if name in backward]
    assert keys[0] == "zero_grad"
    assert keys[-1] == "optimizer"
    assert keys.index(f"{names[-1]}/forward") < keys.index("loss") < keys.index(f"{backward[0]}/backward")


def test_tasks_of_a_worker_run_one_after_another():
    """Exchange is blocking: each task waits for the worker's previous one, so the epoch is their sum at least."""
    schedule = lowering_of("sage", MULTIPLY, 2).lower()
    last = {}
    for index, task in enumerate(schedule.tasks):
        assert task.after == ((last[task.worker],) if task.worker in last else ())
        last[task.worker] = index
    makespan_s = play(compile_schedule(schedule)).makespan_s
    for worker in range(2):
        assert makespan_s >= 0.999999 * sum(task.seconds for task in schedule.tasks if task.worker == worker)


def test_each_worker_is_costed_by_its_own_profile():
    """On a mixed cluster the slower device has the longer tasks at equal shares."""
    schedule = lowering_of("gcn", MULTIPLY, 2, names=("rtx-3090", "gtx-1650")).lower()
    compute = [sum(t.seconds for t in schedule.tasks if t.worker == w and t.category == "compute") for w in range(2)]
    assert compute[0] != compute[1]
    overheads = [catalog_profile(name).host_overhead_s for name in ("rtx-3090", "gtx-1650")]
    for task in schedule.tasks:
        if task.category == "compute":
            assert task.seconds >= overheads[task.worker]


def test_cpu_tasks_pay_the_overhead_and_the_work():
    """A CPU runs Python and operator one after the other, a GPU side by side."""
    gpu = lowering_of("gcn", MULTIPLY, 1)
    cpu = lowering_of("gcn", MULTIPLY, 1)
    overhead_s = 1e-3
    for lowering, kind in ((gpu, "cuda"), (cpu, "cpu")):
        (name,) = lowering.costs
        profile = lowering.costs[name].profile.model_copy(update={"device_kind": kind, "host_overhead_s": overhead_s})
        lowering.costs = {name: OperatorCosts.of(profile)}
    for fast, slow in zip(gpu.lower().tasks, cpu.lower().tasks, strict=True):
        if fast.category == "compute":
            assert fast.seconds == overhead_s
            assert slow.seconds > overhead_s or slow.key == "reduce/unflatten"


@pytest.mark.parametrize(("limited", "is_guess"), [((), False), ((0,), False), ((1,), True), ((0, 1), True)])
def test_processor_time_outside_what_was_measured_makes_a_guess(limited, is_guess, monkeypatch):
    """Of all members of the collective, for they wait for the one that is short of it: where one has a quota."""
    charges = [Estimate(1e-4, 0.0, rank == 1) for rank in range(2)]
    monkeypatch.setattr(Network, "all_reduce", lambda *_: Estimate(1e-3, 0.0, False))
    monkeypatch.setattr(Network, "all_reduce_processor", lambda *_: charges)
    lowering = lowering_of("gcn", MULTIPLY, 2)
    lowering.schedule.quotas = {worker: Quota(0.5, 0.01) for worker in limited}
    tasks = [task for task in lowering.lower().tasks if task.key == "reduce"]
    assert [(task.unprofiled, task.charged, task.processor_s) for task in tasks] == [
        (is_guess, 0, 1e-4),
        (is_guess, 1, 1e-4),
    ]


def test_processor_time_is_a_share_of_all_threads_time(monkeypatch):
    """A quota is of what all threads of a worker could run: an exchange that keeps one busy uses little of it."""
    monkeypatch.setattr(Network, "all_reduce_processor", lambda *_: [Estimate(1e-2, 0.0, False)] * 2)
    lowering = lowering_of("gcn", MULTIPLY, 2)
    (name,) = lowering.costs
    profile = lowering.costs[name].profile.model_copy(update={"num_threads": 4})
    lowering.costs = {name: OperatorCosts.of(profile)}
    assert {task.processor_s for task in lowering.lower().tasks if task.key == "reduce"} == {2.5e-3}


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_plan_lowers_to_the_schedule_it_was_chosen_by(num_workers):
    """From the plan alone the same epoch comes out as when it was made with the graph at hand."""
    job = Job(graph=SPEC, model=ModelSpec(hidden_channels=16))
    plan, _ = make_plan(job, cluster_of(num_workers), GRAPH)
    schedule = lower_plan(plan)
    assert schedule.num_workers == num_workers
    assert play(compile_schedule(schedule)).makespan_s == plan.prediction.epoch_s


@pytest.mark.parametrize(("kind", "order"), [case for case in CASES if case[0] != "gat"])
def test_overlapped_exchanges_have_the_local_aggregation_beside_them(kind, order):
    """Near parts wait for what was packed, not for the exchange; far parts and gradients for both; same bytes."""
    plain, overlapped = lowering_of(kind, order, 3), replace(lowering_of(kind, order, 3), overlap=True)
    schedules = [lowering.lower() for lowering in (plain, overlapped)]
    np.testing.assert_array_equal(plain.sent_bytes, overlapped.sent_bytes)
    tasks = schedules[1].tasks
    place = {(task.worker, task.key): index for index, task in enumerate(tasks)}
    near = [task for task in tasks if "/near/" in task.key]
    assert len(near) > 0
    for task in near:
        name, direction = task.key.split("/near/")
        exchange = place[task.worker, f"{name}/exchange/{direction}"]
        assert exchange not in task.after
        follower = "far/forward" if direction == "forward" else "unpack/backward"
        assert {exchange, place[task.worker, task.key]} == set(tasks[place[task.worker, f"{name}/{follower}"]].after)
    assert play(compile_schedule(schedules[1])).makespan_ns <= play(compile_schedule(schedules[0])).makespan_ns
    work_s = [sum(t.seconds for t in s.tasks if "aggregate" in t.key and t.category == "compute") for s in schedules]
    assert work_s[1] >= 0.99 * work_s[0]  # in two parts it is the same work


def test_computing_beside_an_exchange_lacks_the_processor_time_that_it_takes():
    """On a CPU without a quota what comes after both begins later by it, on a GPU it does not."""
    passed_s = {}
    for kind, charge_s in (("cpu", 0.0), ("cpu", 0.01), ("cuda", 0.01)):
        lowering = replace(lowering_of("gcn", MULTIPLY, 2), overlap=True)
        profiles = {
            name: profile.model_copy(update={"device_kind": kind})
            for name, profile in lowering.placement.profiles.items()
        }
        lowering = replace(lowering, placement=lowering.placement.model_copy(update={"profiles": profiles}))
        lowering.costs = {name: OperatorCosts.of(profile) for name, profile in profiles.items()}
        schedule = lowering.lower()
        tasks = [
            replace(task, seconds=0.1, processor_s=charge_s)
            if task.key == "l0/aggregate/exchange/forward"
            else replace(task, seconds=0.5)
            if task.key == "l0/aggregate/near/forward"
            else task
            for task in schedule.tasks
        ]
        timeline = play(compile_schedule(Schedule(2, tasks, schedule.quotas)))
        near, far = (
            next(i for i, task in enumerate(tasks) if task.key == f"l0/aggregate/{part}/forward")
            for part in ("near", "far")
        )
        passed_s[kind, charge_s] = (timeline.start_ns[far] - timeline.start_ns[near]) / 1e9
    assert passed_s["cpu", 0.0] == pytest.approx(0.5)
    assert passed_s["cpu", 0.01] == pytest.approx(0.51, rel=1e-3)
    assert passed_s["cuda", 0.01] == pytest.approx(0.5)


def test_the_order_of_a_cycle_is_its_programs_or_its_intervals():
    """Epochs lowered layer by layer send all rows once an interval, where any are kept."""
    stale = CacheDecision(refresh_interval=3, num_rows=(1, 0))
    assert epoch_order(("a", "b", "b", "a"), NO_CACHE) == [0, 1, 1, 0]
    assert epoch_order((), stale) == [0, 1, 1]
    assert epoch_order((), NO_CACHE) == [0]
