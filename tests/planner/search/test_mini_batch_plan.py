"""From measured stages to a plan: the fastest way to share out threads, its program, its bytes."""

import pytest
from rich.console import Console

from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.minibatch.bound import epoch_bound
from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition, save_plan
from gnnplan.planner.report.program import program_tables
from gnnplan.planner.report.tables import plan_table
from gnnplan.planner.search import mini_batch, named, simulate_plan
from gnnplan.planner.search.batch_placement import placement_of
from gnnplan.planner.search.mini_batch import best_mini_batch, plan_mini_batches
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from tests.planner.search.measured import JOB, measured, split, worker

SLOW, FAST = split(40, 30, 1, 20), split(20, 30, 1, 10, threads=(2, 2))


def best(*workers, **changes):
    """Of these workers on one host."""
    found = measured(*workers, **changes)
    return best_mini_batch(JOB, placement_of(found, None), found)


def planned(monkeypatch, *workers, job=JOB, **changes):
    """A plan of what these workers would have measured."""
    monkeypatch.setattr(mini_batch, "measure_batches", lambda *_, **__: measured(*workers, **changes))
    return plan_mini_batches(job, None)


def test_threads_are_shared_out_as_is_fastest():
    """Whichever way comes first; the others are said with their seconds."""
    for splits in ((SLOW, FAST), (FAST, SLOW)):
        found = best(worker(*splits))
        (part,) = found.choice.decision.workers
        assert (part.num_loaders, part.num_training_threads) == (2, 2)
        of_each = [
            dispatch(each.times, 9, cpu_slots=2, gpu_slots=2, num_cpu_threads=each.num_loaders) for each in splits
        ]
        assert [each.epoch_s for each in found.considered] == sorted(each.epoch_s for each in of_each)
        assert found.epoch_s == pytest.approx(min(each.epoch_s for each in of_each))
        assert found.bound.seconds <= found.schedule_bound.seconds == epoch_bound(FAST.times, 9, 2).seconds
        assert found.schedule_bound.seconds <= found.epoch_s


def test_every_worker_decides_for_itself_and_the_slowest_sets_the_epoch():
    """One may make batches ahead while another makes them in its turn."""
    in_turn = split(500, 2, 1, 30)
    found = best(worker(FAST), worker(in_turn))
    assert [part.num_in_turn for part in found.choice.decision.workers][1] == 9
    assert found.epoch_s == pytest.approx(max(best(worker(each)).epoch_s for each in (FAST, in_turn)))


def test_bytes_are_what_is_held_and_the_batches_that_may_wait():
    """Of the process before its first batch, batches of vertices and edges, and a step's."""
    found = best(worker(FAST))
    (part,) = found.choice.decision.workers
    batch_bytes = 450 * 16 * 4 + 800 * 2 * 8
    buffers = part.buffers.for_threads(part.num_loaders)
    at_once = 1 + buffers.cpu_slots + buffers.gpu_slots  # one that is made and moved counts twice
    assert 10**7 + batch_bytes <= found.peak_bytes[0] <= 10**7 + (at_once + 1) * batch_bytes + 2 * 4096
    assert best(worker(FAST, loading_bytes=5 * 10**7)).peak_bytes == (5 * 10**7,)


def test_what_waits_in_host_memory_is_none_of_a_devices():
    """Pinned batches are the host's; those that were moved are the device's."""
    (on_cpu,), (on_cuda,) = (best(worker(FAST), device_kind=kind).peak_bytes for kind in ("cpu", "cuda"))
    assert on_cuda > 10**7
    assert on_cpu != on_cuda


def test_a_plan_is_a_plan(monkeypatch, tmp_path):
    """It is written, read, shown and simulated as any other, without the graph; its trace has its program's keys."""
    plan, partition = planned(monkeypatch, worker(SLOW, FAST))
    save_plan(named(plan, tmp_path / "plan.json"), partition, tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json")
    load_partition(plan, tmp_path / "plan.json")
    trace = simulate_plan(plan, num_replicas=20)
    assert trace.median_epoch_s == plan.prediction.epoch_s
    assert {span.task for span in trace.spans} == {op.key for op in plan.cycle.programs["epoch"]}
    assert sum(span.task.endswith("/train") for span in trace.spans) == 9
    assert trace.fluctuating.p95_s >= trace.fluctuating.p50_s > 0


def test_on_a_cpu_nobody_speaks_of_gpus(monkeypatch):
    """Neither the plan's tables nor its program's."""
    for workers in (
        [worker(SLOW, FAST)],
        [worker(split(500, 2, 1, 30))],
        [worker(split(40, 30, 1, 10), num_batches=40)],
    ):
        plan, _ = planned(monkeypatch, *workers)
        console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
        console.print(plan_table(plan), program_tables(plan))
        shown = console.export_text()
        assert "train" in shown
        assert not {"GPU", "gpu", "CUDA", "PCIe"} & {word for word in ("GPU", "gpu", "CUDA", "PCIe") if word in shown}


def test_workers_lie_where_the_cluster_has_them():
    """On its hosts, with the memory that it names; another number of devices is another cluster."""
    hosts = (
        HostSpec(name="a", devices=(DeviceSpec(catalog="t4", memory_bytes=123),)),
        HostSpec(name="b", devices=(DeviceSpec(catalog="t4"),)),
    )
    cluster = Cluster(schema_version=1, hosts=hosts)
    place = placement_of(measured(worker(FAST), worker(FAST)), cluster)
    assert [(each.host, each.memory_bytes) for each in place.workers] == [("a", 123), ("b", 10**9)]
    assert place.threads_by_host == {"a": 2, "b": 2}
    with pytest.raises(UserError, match="1 workers were measured, the cluster has 2"):
        placement_of(measured(worker(FAST)), cluster)


def test_what_does_not_fit_is_refused_with_both_figures(monkeypatch):
    """And which setting makes batches smaller."""
    with pytest.raises(NoPlanFitsError, match=r"worker 0 needs 10,\d+,\d+ bytes and has 1,000; make batch_size"):
        planned(monkeypatch, worker(FAST, memory_bytes=1000))


def test_pins_of_full_batch_plans_are_refused(monkeypatch):
    """They would be without effect; the number of workers is one of both."""
    stale = JOB.model_copy(update={"pin": PinnedDecisions(refresh_interval=2), "fidelity": "stale"})
    with pytest.raises(UserError, match=r"pin\.refresh_interval is of full-batch plans"):
        planned(monkeypatch, worker(FAST), job=stale)
    pinned = JOB.model_copy(update={"pin": PinnedDecisions(num_workers=1)})
    assert planned(monkeypatch, worker(FAST), job=pinned)[0].num_workers == 1


def test_stages_are_not_calibrated(monkeypatch):
    """No profile has them: who wants others measures again."""
    plan, _ = planned(monkeypatch, worker(FAST))
    measured_trace = simulate_plan(plan).model_copy(update={"origin": "measured"})
    with pytest.raises(UserError, match="in no profile; to correct them, plan the job again"):
        calibrate([(plan, measured_trace)])
