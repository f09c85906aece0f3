"""Regions are chosen where they pay and fit; what was edited of them is refused."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.received import received_rows
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition, load_partition, save_plan
from gnnplan.planner.run import write_shards
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.search.make import make_plan
from gnnplan.planner.techniques.host_region.rows import REGION_RESERVE_BYTES, shared_rows
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.search.searched import GRAPHS, SBM

AMPLE = 2**26


def cluster_of(*, region_bytes=AMPLE, memory_bytes=None, num_hosts=2, count=2, inner=1e10):
    """Hosts of T4s behind a slow network."""
    device = DeviceSpec(catalog="t4", count=count, memory_bytes=memory_bytes)
    host = HostSpec(name="h", count=num_hosts, devices=(device,), link=Link(bytes_per_s=1e8), region_bytes=region_bytes)
    return Cluster(hosts=(host,), device_link=Link(bytes_per_s=inner))


def job_of(interval=4, num_workers=4, **pin):
    pins = PinnedDecisions(num_workers=num_workers, refresh_interval=interval, dependencies="communicate", **pin)
    model = ModelSpec(hidden_channels=32, num_layers=3)
    return Job(graph=SBM, model=model, pin=pins, fidelity="stale" if interval > 1 else "exact")


def found(interval=4, **cluster):
    return decide(job_of(interval), resolve(cluster_of(**cluster)), GRAPHS["skewed"])


@pytest.fixture(scope="module")
def roomy():
    """The best without regions, where devices have room for everything."""
    return found(region_bytes=0).best


def tight(roomy):
    """Too little for the rows that it keeps."""
    return max(memory.peak_bytes for memory in roomy.memory) - 200_000


@pytest.mark.long
def test_little_memory_makes_regions_pay(roomy):
    """Where devices lack room for rows, hosts hold them, and an epoch is much shorter than without regions."""
    assert roomy.choice("joint_cache")
    without = found(region_bytes=0, memory_bytes=tight(roomy)).best
    best = found(memory_bytes=tight(roomy)).best
    assert without.choice("host_region") is None
    assert best.choice("host_region")
    assert best.choice("joint_cache")
    assert best.fits
    assert best.epoch_s < 0.5 * without.epoch_s
    assert all(0 < memory.region_bytes <= AMPLE for memory in best.memory)


@pytest.mark.long
def test_an_exact_epoch_is_shorter_where_rows_come_once():
    """Without a refresh interval nothing is stale, and less passes the network."""
    without, best = (found(1, region_bytes=region_bytes).best for region_bytes in (0, AMPLE))
    assert best.choice("host_region")
    assert best.choice("joint_cache") is None
    assert best.epoch_s < without.epoch_s


@pytest.mark.long
@pytest.mark.parametrize("cluster", [{"region_bytes": 0}, {"num_hosts": 4, "count": 1}])
def test_nobody_shares_where_nobody_can(cluster):
    """Without memory for it, or with one worker a host; then nothing else is looked at either."""
    assert all(each.choice("host_region") is None for each in found(**cluster).looked_at)


@pytest.mark.long
def test_a_region_holds_what_it_has_room_for():
    """Never more than its host gives; too small for a row it is left alone."""
    whole = found().best
    half = max(memory.region_bytes for memory in whole.memory) // 2
    result = found(region_bytes=half + REGION_RESERVE_BYTES)
    regions = [m.region_bytes for each in result.looked_at if each.choice("host_region") for m in each.memory]
    assert 0.5 * half < max(regions) <= half + REGION_RESERVE_BYTES
    assert result.best.epoch_s > whole.epoch_s
    small = found(region_bytes=REGION_RESERVE_BYTES + 1)
    assert all(each.choice("host_region") is None for each in small.looked_at)


@pytest.mark.long
def test_a_candidate_whose_region_is_too_large_does_not_fit(roomy):
    """By the bytes that its host lacks, whatever its workers have left; without a region nothing changes."""
    best = found().best
    workers = tuple(worker.model_copy(update={"region_bytes": 1000}) for worker in best.setting.placement.workers)
    placement = best.setting.placement.model_copy(update={"workers": workers})
    less = replace(best, setting=replace(best.setting, placement=placement))
    assert best.fits
    assert not less.fits
    assert less.missing_bytes.tolist() == [memory.region_bytes - 1000 for memory in best.memory]
    assert (roomy.missing_bytes < 0).all()


@pytest.mark.long
def test_rows_that_most_workers_read_come_first():
    """Each region takes its own workers' rows, and none that fewer of these read than one that it has not."""
    best = found(1, region_bytes=REGION_RESERVE_BYTES + 40_000).best
    plain = compose_candidate(best.setting, [each for each in best.choices if each.technique != "host_region"])
    received, _ = received_rows(plain, constant=None, in_epochs=True)
    first = next(shared_rows(plain))
    assert 0 < first.shape[1] < received.shape[1]
    for host in (0, 1):
        chosen, others = (readers(rows, host) for rows in (first, received))
        assert all(others[row] == count for row, count in chosen.items())  # a row is shared with all who read it
        assert min(chosen.values()) >= max(count for row, count in others.items() if row not in chosen)


def readers(rows, host):
    """By (level, vertex), how many workers of a host read a row."""
    return Counter((level, vertex) for level, worker, vertex in rows.T.tolist() if worker // 2 == host)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plan with regions."""
    folder = tmp_path_factory.mktemp("plan")
    job = job_of(3, 2, feature_cache=False)
    plan = api.plan(job, cluster_of(num_hosts=1, inner=1e6), folder / "plan.json")
    assert "host_region" in {chosen.technique for chosen in plan.choices}
    return plan, load_partition(plan, folder / "plan.json"), folder


@pytest.mark.long
def test_a_plan_with_regions_is_one_of_choices(made):
    """It reads as it was written, and its choices make its program again."""
    plan, partition, folder = made
    assert Plan.load(folder / "plan.json") == plan
    assert plan.fidelity == "stale(3)"
    write_shards(plan, api.load_graph(SBM), partition, folder / "shards")
    assert {value.tier for value in plan.cycle.cycle().values.values()} == {"device", "region"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("edit", "wanted"),
    [
        (
            lambda raw: [worker.update(region_bytes=99) for worker in raw["placement"]["workers"]],
            "and has one of 99",
        ),
        (lambda raw: barriers(raw)[0]["attributes"].update(host_of=[0]), "not those of kind 'host_barrier'"),
        (lambda raw: barriers(raw)[0]["attributes"].update(host_of=[0, 1]), "not those of kind 'host_barrier'"),
        (lambda raw: region(raw).update(tier="device"), "has not the shape that it makes"),
        (lambda raw: region(raw).update(tier="disk"), "has not the shape that it makes"),
        (lambda raw: region(raw).update(tier="tape"), "tier"),
    ],
)
def test_an_edited_document_is_refused(made, tmp_path, edit, wanted):
    """In one line, before anything runs."""
    raw = json.loads(made[0].model_dump_json())
    edit(raw)
    (tmp_path / "plan.json").write_text(json.dumps(raw))
    with pytest.raises(UserError, match=wanted) as caught:
        Plan.load(tmp_path / "plan.json")
    assert "\n" not in str(caught.value)


def barriers(raw):
    return [op for program in raw["cycle"]["programs"].values() for op in program if op["kind"] == "host_barrier"]


def region(raw):
    return raw["cycle"]["values"][barriers(raw)[0]["writes"][0]]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda a: a.astype(np.int64), "must be int32"),
        (lambda a: a[:2], "must be int32"),
        (lambda a: a + 1000, "has rows beyond"),
        (lambda a: a[:, ::2], "was edited"),
    ],
)
def test_edited_rows_make_no_shards(made, tmp_path, change, wanted):
    """Also where their digest was edited too."""
    plan, partition, _ = made
    name = "host_region/shared"
    other = Partition({**partition.chosen, name: change(partition.chosen[name])})
    plan = plan.model_copy(update={"partition_sha256": other.digest()})
    save_plan(plan, other, tmp_path / "plan.json")
    with pytest.raises(UserError, match=wanted):
        write_shards(plan, api.load_graph(SBM), load_partition(plan, tmp_path / "plan.json"), tmp_path / "shards")


@pytest.mark.long
def test_a_cluster_with_regions_is_searched_like_any_other():
    """No pin, no layered plan: `make_plan` gives choices."""
    plan, _ = make_plan(job_of(), cluster_of(), GRAPHS["skewed"])
    assert "host_region" in {chosen.technique for chosen in plan.choices}
