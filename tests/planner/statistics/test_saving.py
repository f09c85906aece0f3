"""What saves memory is priced from statistics where nothing fits without it."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.statistics.machine import machine_of
from gnnplan.planner.statistics.measure import measure
from gnnplan.planner.statistics.price import Pricer, fastest
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.disk import DiskRates

SPEC = RmatGraph(source="rmat", num_nodes=8000, num_edges=100_000, num_features=64, num_classes=8)
COUNT = 8  # chunks
HALVES = ("matmul_half_forward", "matmul_half_grad_input", "matmul_half_grad_weight", "spmm_half")


def placed(memory_bytes=None, pinned_bytes=None, count=1, profile=None):
    named = {"profile": profile} if profile else {"catalog": "t4"}
    device = DeviceSpec(**named, memory_bytes=memory_bytes)
    return resolve(Cluster(hosts=(HostSpec(name="h", count=count, devices=(device,), pinned_bytes=pinned_bytes),)))


@pytest.fixture(scope="module")
def graph():
    return generate_rmat(SPEC)


@pytest.fixture(scope="module")
def pricer(graph):
    return Pricer(measure(graph), Structures(), saves_memory=True)


def job_of(kind="gcn", **pin):
    pinned = {"precompute": False, "op_order": "aggregate_first"} if kind != "gat" else {}
    return Job(
        graph=SPEC,
        model=ModelSpec(kind=kind, num_layers=2, hidden_channels=32),
        pin=PinnedDecisions(**pinned, balance="equal", **pin),
    )


def is_saving(priced):
    return any(technique(choice.technique).saves_memory for choice in priced.choices)


@pytest.mark.long
def test_only_where_nothing_fits(pricer):
    """With room there are no such programs; without there are, in the host's memory, and one fits."""
    assert not any(map(is_saving, pricer.candidates(job_of(), machine_of(placed()))))
    tight = machine_of(placed(3_000_000))
    found = pricer.candidates(job_of(), tight)
    best = fastest(found)
    assert best.fits
    assert is_saving(best)
    assert best.memory[0].pinned_bytes > 0
    assert not any(each.fits for each in found if not is_saving(each))


@pytest.mark.long
def test_a_host_must_have_room(pricer):
    """As much as its devices keep there; a job may leave it out."""
    fitting = fastest(pricer.candidates(job_of(), machine_of(placed(3_000_000))))
    needed = fitting.memory[0].pinned_bytes
    assert not fastest(pricer.candidates(job_of(), machine_of(placed(3_000_000, needed // 4)))).fits
    assert not fastest(pricer.candidates(job_of(), machine_of(placed(3_000_000, 0)))).fits
    without = job_of(techniques={"offload": False, "destination_chunks": False})
    assert not any(map(is_saving, pricer.candidates(without, machine_of(placed(3_000_000)))))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "gat"])
@pytest.mark.parametrize("layout", ["halo_exchange", "feature_slices"])
@pytest.mark.parametrize("where", ["host", "disk"])
def test_counts_are_those_of_the_graph(graph, pricer, kind, layout, where, tmp_path):
    """Rows that chunks read, bytes and seconds, of a plan that was cut and of the same from statistics."""
    profile = on_cpu(tmp_path / "cpu.json") if where == "disk" else None
    decisions = {"destination_chunks": {"num_chunks": COUNT}}
    job = job_of(kind, techniques={layout: True, "offload": True}, decisions=decisions)
    placement = placed(1_000_000, profile=profile)
    setting = setting_of(job, placement, graph)
    found = [each for each in pricer.candidates(job, machine_of(placement)) if is_offloaded(each)]
    priced = next(each for each in found if chunks_of(each) == COUNT)
    part = np.zeros(graph.num_nodes, np.int32)
    choices = [
        replace(c, arrays={"part": part})
        if c.technique == "halo_exchange"
        else Choice(c.technique, c.decision, c.arrays)
        for c in priced.choices
    ]
    cut = compose_candidate(setting, choices)
    assert read_rows(priced.cycle) == pytest.approx(read_rows(cut.cycle), rel=0.15)
    if where == "host":  # a CPU's pool keeps memory for chunks of each size, which from counts are all alike
        assert priced.memory[0].peak_bytes == pytest.approx(cut.memory[0].peak_bytes, rel=0.1)
    assert priced.memory[0].pinned_bytes == pytest.approx(cut.memory[0].pinned_bytes, rel=0.1)
    assert priced.epoch_s == pytest.approx(cut.epoch_s, rel=0.1)


def on_cpu(path):
    """A profile of a worker on a CPU, whose disk takes most of an epoch."""
    disk = DiskRates(read_bytes_per_s=1e9, write_bytes_per_s=1e9, scattered_bytes_per_s=1e8)
    profile = catalog_profile("t4").model_copy(update={"device_kind": "cpu", "num_threads": 1, "disk": disk})
    return profile.save(path)


def is_offloaded(priced):
    return any(choice.technique == "offload" for choice in priced.choices)


def chunks_of(priced):
    return next((c.decision.num_chunks for c in priced.choices if c.technique == "destination_chunks"), 1)


def read_rows(cycle):
    """Of all blocks together."""
    names = {block.column for name, block in cycle.blocks.items() if name.endswith("/read")}
    return sum(cycle.spaces[name].sizes[0] for name in names)


def test_a_profile_without_a_table_gets_no_programs_of_one_that_has_it(graph):
    """One `Structures` serves all machines of a sweep, and older profiles lack what bfloat16 needs."""
    job = job_of().model_copy(update={"fidelity": "approximate"})
    placement = placed()
    (name,), whole = placement.profiles, catalog_profile("t4").operators
    halves = {table: whole[table.replace("_half", "")] for table in HALVES}
    newer, older = (
        placement.model_copy(update={"profiles": {name: of.model_copy(update={"operators": tables})}})
        for of in [placement.profiles[name].model_copy(update={"device_kind": "cpu"})]
        for tables in ({**whole, **halves}, whole)
    )
    structures, statistics = Structures(), measure(graph)

    def chosen(where):
        priced = Pricer(statistics, structures).candidates(job, machine_of(where))
        return {choice.technique for each in priced for choice in each.choices}

    assert "half_precision" in chosen(newer)
    assert "half_precision" not in chosen(older)
