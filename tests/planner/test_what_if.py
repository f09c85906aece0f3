"""Machines one does not have: what stands in them, and variants of a job side by side."""

import pytest

from gnnplan.planner.cluster import resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.what_if import one_host, plan_variants, staged_link
from gnnplan.profiles.catalog.devices import rates

SPEC = SbmGraph(source="sbm", num_nodes=3000, average_degree=15, num_classes=4, num_features=64)
GRAPH = generate_sbm(SPEC)
UNEVEN = ("rtx-3090", "gtx-1660ti")


def job_of(**pins):
    """A small GCN on METIS parts."""
    pin = PinnedDecisions(partitioner="metis", op_order="multiply_first", num_workers=2, **pins)
    return Job(graph=SPEC, model=ModelSpec(hidden_channels=128), fidelity=str(pin.needs[0]), pin=pin)


def decided(plan):
    """Who was given how much."""
    (sharing,) = [each for each in plan.choices if each.technique == "halo_exchange"]
    return sharing.choice().decision


def test_rows_pass_through_the_hosts_memory():
    """A byte takes as long as to the host and to the device, one after the other, on the slowest device."""
    found = {device: rates(device) for device in UNEVEN}
    seconds = {d: 1 / r.d2h_pageable_bytes_per_s + 1 / r.h2d_pageable_bytes_per_s for d, r in found.items()}
    for device in UNEVEN:
        assert staged_link([device]).bytes_per_s == pytest.approx(1 / seconds[device], rel=1e-6)
    assert staged_link(UNEVEN).bytes_per_s == pytest.approx(1 / max(seconds.values()), rel=1e-6)
    assert seconds["rtx-3090"] != seconds["gtx-1660ti"]


def test_a_host_has_its_devices_in_order():
    """Equal ones together; all on one host."""
    placement = resolve(one_host("box", ("a40", "a40", "rtx-3060")))
    assert [placement.profile_of(rank).name for rank in range(3)] == ["a40", "a40", "rtx-3060"]
    assert {worker.host for worker in placement.workers} == {"box"}
    assert placement.device_link == staged_link(["a40", "rtx-3060"])


def test_variants_are_planned_side_by_side():
    """Each as its job says; shares by speed are no slower than equal ones on uneven devices."""
    jobs = {balance: job_of(balance=balance) for balance in ("equal", "speed")}
    variants = plan_variants(jobs, one_host("box", UNEVEN), GRAPH)
    sharing = {name: decided(v.plan) for name, v in variants.items()}
    assert {name: decision.balance for name, decision in sharing.items()} == {"equal": "equal", "speed": "speed"}
    assert sharing["speed"].shares[0] > 0.5 > sharing["speed"].shares[1]
    assert variants["equal"].epoch_s == variants["equal"].plan.prediction.epoch_s


@pytest.mark.long
def test_a_variant_that_fits_nowhere_says_what_is_missing():
    """The others are planned all the same."""
    cluster = one_host("box", UNEVEN)
    (host,) = cluster.hosts
    tiny = tuple(device.model_copy(update={"memory_bytes": 1000}) for device in host.devices)
    cluster = cluster.model_copy(update={"hosts": (host.model_copy(update={"devices": tiny}),)})
    found = plan_variants({"only": job_of()}, cluster, GRAPH)["only"]
    assert (found.plan, found.partition, found.epoch_s) == (None, None, None)
    assert "bytes are missing" in found.reason
