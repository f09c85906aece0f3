"""Halo rows are kept where they fit and pay; else the plan is the plain exchange, exact as ever."""

import json
from dataclasses import replace

import pytest

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, SbmGraph
from gnnplan.planner.joint_cache.capacity import REGION_RESERVE_BYTES, RESERVE_BYTES
from gnnplan.planner.joint_cache.decision import NO_CACHE
from gnnplan.planner.joint_cache.region import decide_rows, is_kept_as_decided
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.partition import partition
from gnnplan.planner.plan import Plan, PrunedHalo
from gnnplan.planner.run import write_shards
from gnnplan.planner.search import simulate_plan
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.halo_exchange import HaloExchangeStrategy
from gnnplan.planner.strategies.joint_cache import largest_cache, with_break_even
from gnnplan.planner.strategies.trial import Trial
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.layered import make_plan

SPEC = SbmGraph(source="sbm", num_nodes=900, average_degree=10, num_classes=4, num_features=24)
GRAPH = generate_sbm(SPEC)
SLOW, FAST = 1e7, 1e14


def cluster_of(*, bytes_per_s=SLOW, memory_bytes=None, num_hosts=3, num_devices=1, region_bytes=0):
    """Hosts of T4s."""
    device = DeviceSpec(catalog="t4", memory_bytes=memory_bytes, count=num_devices)
    link = Link(bytes_per_s=bytes_per_s)
    host = HostSpec(name="h", count=num_hosts, devices=(device,), link=link, region_bytes=region_bytes)
    return Cluster(hosts=(host,), device_link=link)


def plan_of(*, kind="gcn", pin=None, **cluster):
    """The plan of a two-layer model, on METIS parts of shares by speed."""
    pins = PinnedDecisions(**({"partitioner": "metis", "balance": "speed"} | (pin or {})))
    job = Job(graph=SPEC, model=ModelSpec(kind=kind, hidden_channels=32), fidelity=pins.needs, pin=pins)
    return planned(job, **cluster)[0]


def planned(job, **cluster):
    """(plan, partition)."""
    return make_plan(job, cluster_of(**cluster), GRAPH)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "tagcn"])
def test_stale_is_faster_over_a_slow_network_and_says_so(kind):
    """All rows fit: reusing epochs send nothing of the halo, and the epoch is the mean over r of them."""
    exact = plan_of(kind=kind)
    stale = plan_of(kind=kind, pin={"refresh_interval": 4})
    assert (exact.decision.fidelity, stale.decision.fidelity) == ("exact", "stale(4)")
    assert stale.decision.cache.num_rows == tuple(shape.num_halo for shape in stale.shapes)
    refresh_s, reuse_s = (
        play(compile_schedule(lower_plan(stale, refresh=refresh))).makespan_s for refresh in (True, False)
    )
    assert reuse_s < refresh_s
    assert stale.prediction.epoch_s == pytest.approx((refresh_s + 3 * reuse_s) / 4)
    assert stale.prediction.bound_s <= stale.prediction.epoch_s < exact.prediction.epoch_s
    for load in stale.prediction.workers:
        assert load.reuse_sent_bytes == 0 < load.sent_bytes
        assert load.peak_bytes <= load.capacity_bytes


def test_a_plan_on_disk_simulates_as_predicted(tmp_path):
    """Epoch 0 of its trace refreshes, epoch 1 reuses; the mean over r is the prediction."""
    plan = plan_of(pin={"refresh_interval": 3})
    loaded = type(plan).load(plan.save(tmp_path / "plan.json"))
    assert loaded == plan
    trace = simulate_plan(loaded)
    assert (trace.refresh_interval, len(trace.epoch_s)) == (3, 3)
    assert trace.median_epoch_s == plan.prediction.epoch_s
    assert trace.epoch_s[0] > trace.epoch_s[1] == trace.epoch_s[2]
    for epoch, refresh in enumerate((True, False)):
        keys = [span.task for span in trace.spans if (span.epoch, span.worker) == (epoch, 0)]
        assert keys == lower_plan(plan, refresh=refresh).keys_of(0)
    assert simulate_plan(plan, 3).fluctuating.p50_s == pytest.approx(plan.prediction.epoch_s)


def test_a_plan_file_cannot_be_stale_under_an_exact_job(tmp_path):
    """What its job does not allow is refused when it is read."""
    path = plan_of(pin={"refresh_interval": 3}).save(tmp_path / "plan.json")
    raw = json.loads(path.read_text())
    raw["job"]["fidelity"] = "exact"
    raw["job"]["pin"]["refresh_interval"] = 1
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match="rows are reused, which the job's fidelity does not allow"):
        Plan.load(path)


def needed_bytes(**arguments):
    """What the workers of an exact plan need."""
    return max(load.peak_bytes for load in plan_of(**arguments).prediction.workers)


def test_capacity_zero_is_the_plain_exchange():
    """Where only the reserve is free, nothing is kept and the plan is exact, whatever was pinned."""
    tight = needed_bytes() + RESERVE_BYTES // 2
    plan = plan_of(pin={"refresh_interval": 4}, memory_bytes=tight)
    assert plan.layered.cache == NO_CACHE
    assert plan.layered == plan_of(memory_bytes=tight).decision
    assert all(load.reuse_sent_bytes == 0 for load in plan.prediction.workers)


def some_rows():
    """Memory for half of the kept rows, of which some has to go to the gradients of rows that others keep."""
    plan = plan_of(pin={"refresh_interval": 4})
    width = sum(step.in_width for step in plan.program().steps if step.op == "aggregate")
    return needed_bytes() + RESERVE_BYTES + 4 * width * (min(shape.num_halo for shape in plan.shapes) // 2)


def test_what_does_not_fit_is_sent_in_every_epoch():
    """With room for some rows the others travel, and everything stays within memory."""
    plan = plan_of(pin={"refresh_interval": 4}, memory_bytes=some_rows())
    assert plan.layered.fidelity == "stale(4)"
    cache, loads = plan.layered.cache, plan.prediction.workers
    assert 0 < sum(cache.num_rows) < sum(shape.num_halo for shape in plan.shapes)
    assert all(0 <= load.reuse_sent_bytes < load.sent_bytes for load in loads)
    assert any(load.reuse_sent_bytes for load in loads)
    assert all(load.peak_bytes <= load.capacity_bytes for load in loads)
    assert 0 < cache.break_even_share < 1


def stale_trial(**cluster):
    """(METIS parts of equal shares, both layers multiplied first, embeddings kept for 4 epochs; those layers)."""
    job = Job(
        graph=SPEC, model=ModelSpec(hidden_channels=32), fidelity="stale", pin=PinnedDecisions(refresh_interval=4)
    )
    problem = Problem(GRAPH, job, resolve(cluster_of(**cluster)))
    part = partition(GRAPH.num_nodes, GRAPH.edge_index, 3, "metis")
    halo = build_halo(aggregation_matrix(GRAPH.num_nodes, GRAPH.edge_index, "gcn"), part, 3)
    return Trial(problem, part, halo, False), (LayerDecision(op_order="multiply_first"),) * 2


def kept_share(trial, share, first=None):
    """The decision that keeps a share of every halo, of the first worker's another one."""
    shares = [share if first is None else first, share, share]
    rows = [int(each * shape.num_halo) for each, shape in zip(shares, trial.shapes, strict=True)]
    return decide_rows(trial.halo, rows, refresh_interval=4)


def with_memory(trial, *memory_bytes):
    """The trial on devices of other sizes."""
    place = trial.problem.placement
    workers = [w.model_copy(update={"memory_bytes": b}) for w, b in zip(place.workers, memory_bytes, strict=True)]
    problem = replace(trial.problem, placement=place.model_copy(update={"workers": tuple(workers)}))
    return replace(trial, problem=problem, _caches={})


def test_as_many_rows_are_kept_as_fit_and_the_reserve_stays_free():
    """With room for half of the rows and what keeping those takes, nearly half are kept: no other gradients count."""
    trial, layers = stale_trial()
    half = kept_share(trial, 0.5)
    needs = [need.peak_bytes for need in trial.memory(layers, half)]
    tight = with_memory(trial, *(need + RESERVE_BYTES for need in needs))
    assert tight.shortfall(layers, kept_share(trial, 1.0))[0] > -RESERVE_BYTES
    cache = largest_cache(tight, layers)
    assert sum(cache.num_rows) > 0.8 * sum(half.num_rows)
    assert tight.shortfall(layers, cache)[0] <= -RESERVE_BYTES


def test_a_worker_without_room_for_gradients_does_not_end_all_keeping():
    """Where one device has hardly any room left the others keep fewer of its rows, and all fits."""
    trial, layers = stale_trial()
    quarter, everything = (kept_share(trial, share, first=0) for share in (0.25, 1.0))
    needs, most = ([need.peak_bytes for need in trial.memory(layers, each)] for each in (quarter, everything))
    assert needs[0] < most[0]
    tight = with_memory(trial, needs[0], most[1] + 2 * RESERVE_BYTES, most[2] + 2 * RESERVE_BYTES)
    cache = largest_cache(tight, layers)
    assert cache.num_rows[0] == 0
    assert all(ours >= theirs > 0 for ours, theirs in zip(cache.num_rows[1:], quarter.num_rows[1:], strict=True))
    assert tight.shortfall(layers, cache)[0] <= 0


def test_the_break_even_is_one_of_caches_as_they_are_decided(monkeypatch):
    """Every share that is looked at keeps the rows which a plan would."""
    trial, layers = stale_trial(bytes_per_s=1e9)
    looked_at, epoch_s = [], trial.epoch_s
    with monkeypatch.context() as patch:
        patch.setattr(trial, "epoch_s", lambda *args: looked_at.append(args[1:]) or epoch_s(*args))
        share = with_break_even(trial, layers, kept_share(trial, 1.0)).break_even_share
    assert 0 < share <= 1
    assert looked_at.pop(0) == ()
    assert len(looked_at) == 6
    assert all(is_kept_as_decided(trial.halo, cache) for (cache,) in looked_at)


def test_some_rows_are_not_kept_where_sending_them_is_as_fast():
    """Over a network that costs nothing, putting kept and fresh rows together is the slower way: bypassed."""
    plan = plan_of(pin={"refresh_interval": 4}, memory_bytes=some_rows(), bytes_per_s=FAST)
    assert plan.layered.cache == NO_CACHE
    assert plan.layered.fidelity == "exact"


def test_features_are_sent_once_where_every_epoch_aggregates_them():
    """Exact, with less to send in every epoch; not where it is switched off, or where they change."""
    pin = {"op_order": "aggregate_first", "precompute": False}
    kept, sent = (plan_of(pin={**pin, "feature_cache": on}) for on in (True, False))
    assert kept.decision.fidelity == sent.decision.fidelity == "exact"
    assert any(kept.decision.cache.num_rows)
    assert sent.decision.cache == NO_CACHE
    assert kept.prediction.epoch_s < sent.prediction.epoch_s
    for ours, theirs, shape in zip(kept.prediction.workers, sent.prediction.workers, kept.shapes, strict=True):
        assert theirs.sent_bytes - ours.sent_bytes == shape.num_sent * 24 * 4
        assert ours.peak_bytes > theirs.peak_bytes


def test_embeddings_alone_can_be_kept():
    """With the feature cache switched off features travel in reusing epochs too."""
    pin = {"op_order": "aggregate_first", "precompute": False, "refresh_interval": 4, "feature_cache": False}
    plan = plan_of(pin=pin)
    assert plan.layered.fidelity == "stale(4)"
    for load, shape in zip(plan.prediction.workers, plan.shapes, strict=True):
        assert load.reuse_sent_bytes == shape.num_sent * 24 * 4


@pytest.mark.parametrize("pin", [{"op_order": "multiply_first"}, {"precompute": True}])
def test_without_anything_fixed_to_exchange_nothing_is_kept_at_r_1(pin):
    """Products change with the weights, and what was aggregated once is not exchanged at all."""
    assert plan_of(pin=pin).decision.cache == NO_CACHE


def test_one_worker_keeps_nothing():
    """It has no halo."""
    assert plan_of(pin={"refresh_interval": 4}, num_hosts=1).decision.cache == NO_CACHE


def test_keeping_pays_earlier_the_slower_the_network():
    """The break-even share falls."""
    shares = []
    for bytes_per_s in (SLOW, 100 * SLOW):
        pin = PinnedDecisions(refresh_interval=4, balance="speed")
        job = Job(graph=SPEC, model=ModelSpec(hidden_channels=32), fidelity="stale", pin=pin)
        problem = Problem(GRAPH, job, resolve(cluster_of(bytes_per_s=bytes_per_s)))
        decided = HaloExchangeStrategy().decide(problem, lambda _: None)
        shares.append(decided.decision.cache.break_even_share)
    assert shares[0] < shares[1]


PAIRS = {"num_hosts": 2, "num_devices": 2}


def tight_pairs(**changes):
    """A stale plan on two hosts of two devices, that have room for no row."""
    tight = needed_bytes(**PAIRS) + RESERVE_BYTES // 2
    return plan_of(pin={"refresh_interval": 4}, memory_bytes=tight, **PAIRS, **changes)


def test_hosts_keep_what_devices_have_no_room_for():
    """Then nothing travels between refreshes, and less in them; without a region the plan is the plain exchange."""
    assert tight_pairs().decision.cache == NO_CACHE
    plan = tight_pairs(region_bytes=2**24)
    cache, plain = plan.layered.cache, plan_of(**PAIRS)
    assert plan.layered.fidelity == "stale(4)"
    assert sum(cache.num_rows) == 0 < min(cache.region.num_rows)
    assert plan.prediction.epoch_s < plain.prediction.epoch_s
    for load, before in zip(plan.prediction.workers, plain.prediction.workers, strict=True):
        assert load.reuse_sent_bytes == 0 < load.sent_bytes < before.sent_bytes
        assert load.peak_bytes <= load.capacity_bytes
    width = sum(step.in_width for step in plan.program().steps if step.op == "aggregate")
    for rank, (load, shape) in enumerate(zip(plan.prediction.workers, plan.shapes, strict=True)):
        assert load.sent_bytes == 4 * width * (sum(cache.region.sent_counts[rank]) + shape.num_halo)


def test_only_the_workers_of_a_host_wait_for_each_other():
    """The meeting at a filled region is a group of each host's workers; between refreshes there is none."""
    plan = tight_pairs(region_bytes=2**24)
    meetings = [task for task in lower_plan(plan).tasks if task.key.endswith("region/meet/forward")]
    groups = {task.group: {t.worker for t in meetings if t.group == task.group} for task in meetings}
    steps = [step for step in plan.program().steps if step.op == "aggregate"]
    assert sorted(map(sorted, groups.values())) == [[0, 1]] * len(steps) + [[2, 3]] * len(steps)
    assert not any("region" in task.key for task in lower_plan(plan, refresh=False).tasks)


def test_a_host_keeps_as_many_rows_as_its_region_has_room_for():
    """To the byte it says; the others travel in every epoch."""
    whole = tight_pairs(region_bytes=2**24)
    half = max(layout.num_bytes for layout in whole.region_layouts().values()) // 2
    plan = tight_pairs(region_bytes=half + REGION_RESERVE_BYTES)
    assert 0 < sum(plan.layered.cache.region.num_rows) < sum(whole.decision.cache.region.num_rows)
    assert plan.layered.cache.has_fresh
    assert plan.region_layouts().keys() == {"h-0", "h-1"}
    assert all(
        0.9 * half < layout.num_bytes <= half + REGION_RESERVE_BYTES for layout in plan.region_layouts().values()
    )
    assert any(load.reuse_sent_bytes for load in plan.prediction.workers)


def test_a_region_too_small_for_a_row_is_none():
    """The plan is the plain exchange."""
    assert tight_pairs(region_bytes=REGION_RESERVE_BYTES + 1).decision.cache == NO_CACHE


def test_a_region_is_left_alone_where_devices_have_room():
    """They are nearer."""
    with_region, without = (plan_of(pin={"refresh_interval": 4}, **PAIRS, region_bytes=b) for b in (2**24, 0))
    assert with_region.decision == without.decision
    assert with_region.decision.cache.region is None


def test_features_are_kept_by_hosts_too():
    """Exact; in every epoch the features' exchange is gone."""
    tight = needed_bytes(**PAIRS) + RESERVE_BYTES // 2
    pin = {"op_order": "aggregate_first", "precompute": False}
    plan = plan_of(pin=pin, memory_bytes=tight, **PAIRS, region_bytes=2**24)
    assert plan.layered.fidelity == "exact"
    assert min(plan.layered.cache.region.num_rows) > 0
    embeddings = [s.in_width for s in plan.program().steps if s.op == "aggregate" and not s.fixed]
    for load, shape in zip(plan.prediction.workers, plan.shapes, strict=True):
        assert load.sent_bytes == 4 * sum(embeddings) * (shape.num_sent + shape.num_halo)


REGION_EDITS = {
    "smaller host": (lambda raw: [w.update(region_bytes=99) for w in raw["placement"]["workers"]], "has one of 99"),
    "another worker": (lambda raw: region_of(raw)["device_rows"].append(0), "must each have 4 workers"),
    "another host": (lambda raw: region_of(raw)["num_rows"].append(0), "num_rows must have 2 hosts"),
    "rows of nobody": (lambda raw: region_of(raw)["num_rows"].__setitem__(0, 1), "its workers write"),
    "more sent": (lambda raw: region_of(raw)["sent_counts"][0].__setitem__(0, 5), "must be of the rows in send_counts"),
    "no region": (lambda raw: raw["decision"]["cache"].update(region=None), "must be the num_rows each worker keeps"),
}


def region_of(raw):
    """The region's part of a plan file."""
    return raw["decision"]["cache"]["region"]


@pytest.mark.parametrize("edit", REGION_EDITS)
def test_a_plan_files_region_is_checked(edit, tmp_path):
    """What does not add up is one line."""
    path = tight_pairs(region_bytes=2**24).save(tmp_path / "plan.json")
    raw = json.loads(path.read_text())
    change, wanted = REGION_EDITS[edit]
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match=wanted):
        Plan.load(path)


def test_a_plan_whose_rows_are_not_its_partitions_does_not_run(tmp_path):
    """Rows that nobody sends, or that were pruned unsaid, would be read as they happen to lie in memory."""
    pin = PinnedDecisions(partitioner="metis", balance="speed", refresh_interval=4)
    plan, partition = planned(Job(graph=SPEC, model=ModelSpec(hidden_channels=32), fidelity="stale", pin=pin))
    write_shards(plan, GRAPH, partition, tmp_path)
    cache = plan.layered.cache
    fewer = cache.model_copy(update={"num_rows": (cache.num_rows[0] - 1, *cache.num_rows[1:])})
    edited = plan.model_copy(update={"decision": plan.layered.model_copy(update={"cache": fewer})})
    with pytest.raises(UserError, match="other halo rows than its partition has"):
        write_shards(edited, GRAPH, partition, tmp_path)
    less = plan.model_copy(update={"pruned": (PrunedHalo(num_vertices=1, num_edges=1),) * plan.num_workers})
    with pytest.raises(UserError, match="other halo rows than its partition has"):
        write_shards(less, GRAPH, partition, tmp_path)
