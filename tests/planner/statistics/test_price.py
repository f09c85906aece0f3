"""A program with counts says what the program that was cut says."""

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, Placement, resolve
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.counts import counts_of
from gnnplan.planner.statistics.halo import Halos
from gnnplan.planner.statistics.machine import Machine, machine_of
from gnnplan.planner.statistics.measure import measure
from gnnplan.planner.statistics.price import Pricer
from gnnplan.planner.statistics.stand_in import Shape, Structure, Structures
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link

SIZE = 4
SPEC = SbmGraph(source="sbm", num_nodes=1200, average_degree=9.0, num_features=48, num_classes=5)


def placed(count: int = SIZE, per_host: int = 1, catalog: str = "t4") -> Placement:
    device = DeviceSpec(catalog=catalog, count=per_host)
    network = Link(bytes_per_s=1e9, latency_s=1e-5)
    return resolve(Cluster(hosts=(HostSpec(name="host", count=count // per_host, devices=(device,)),), network=network))


@pytest.fixture(scope="module")
def graph():
    return generate_sbm(SPEC)


@pytest.fixture(scope="module")
def statistics(graph):
    return measure(graph, parts=(2, 4), partitioner="kaminpar")


def counted(setting, part: np.ndarray, size: int) -> Counts:
    """A partition's own counts, taken from the matrix by hand."""
    matrix = setting.matrix.tocoo()
    rows, columns = part[matrix.row], part[matrix.col]
    local = rows == columns
    pairs = {(int(rows[i]), int(matrix.col[i])) for i in np.flatnonzero(~local)}
    routed = np.zeros((size, size), np.int64)
    for receiver, vertex in pairs:
        routed[part[vertex], receiver] += 1
    masks = (setting.graph.train_mask, setting.graph.val_mask, setting.graph.test_mask)
    own = tuple(np.bincount(part, minlength=size).tolist())
    return Counts(
        num_nodes=len(part),
        num_edges=int(setting.matrix.nnz),
        num_workers=size,
        shares=(1 / size,) * size,
        own=own,
        received=tuple(routed.sum(0).tolist()),
        sent=tuple(routed.sum(1).tolist()),
        local_edges=tuple(np.bincount(rows[local], minlength=size).tolist()),
        remote_edges=tuple(np.bincount(rows[~local], minlength=size).tolist()),
        split=tuple(tuple(np.bincount(part[mask], minlength=size).tolist()) for mask in masks),
        even_own=tuple(np.bincount(np.arange(len(part)) * size // len(part)).tolist()),
        busiest=(1.0,) * size,
        routed=routed,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "sgc", "appnp", "decoupled_gat"])
def test_a_partitions_own_counts_give_its_plans_seconds_and_bytes(graph, kind):
    """With counts that were counted, a program is priced to the nanosecond and byte as the one that was cut."""
    job = Job(graph=SPEC, model=ModelSpec(kind=kind, num_layers=2, hidden_channels=32))
    setting = setting_of(job, placed(), graph)
    part = np.random.default_rng(0).integers(0, SIZE, graph.num_nodes).astype(np.int32)
    machine = Machine(setting.placement, (1,) * SIZE, (), is_whole=True)
    shape = Shape(graph.num_features, graph.num_classes, is_multilabel=False, has_sparse_features=False)
    pricer = Pricer(Statistics(num_nodes=1200, num_edges=9000, num_features=48, num_classes=5), Structures())
    structures = pricer.structures.of(job, shape, setting.placement, is_alone=False)
    assert len({structure.layout.name for structure in structures}) == 2
    for structure in structures:
        counts = counted(setting, part, SIZE)
        if "halo rows" not in structure.layout.offers:  # slices share rows out by number, and splits with them
            ids = np.arange(graph.num_nodes) * SIZE // graph.num_nodes
            masks = (graph.train_mask, graph.val_mask, graph.test_mask)
            split = tuple(tuple(np.bincount(ids[mask], minlength=SIZE).tolist()) for mask in masks)
            counts = Counts(**{**counts.__dict__, "split": split})
        priced = pricer.priced(structure, machine, counts)
        cut = compose_candidate(setting, own_choices(structure, part))
        assert priced.epoch_s == cut.epoch_s
        assert [each.peak_bytes for each in priced.memory] == [each.peak_bytes for each in cut.memory]


def own_choices(structure: Structure, part: np.ndarray) -> list[Choice]:
    """The choices of a structure, with a partition of the real graph."""
    return [
        Choice(each.technique, each.decision, {name: part for name in each.arrays})
        if LAYOUT in technique(each.technique).claims
        else each
        for each in structure.choices
    ]


@pytest.mark.parametrize("per_host", [1, 2, 4])
def test_alike_workers_are_priced_once(statistics, per_host):
    """One worker that stands for all takes what each takes where all are priced, whatever hosts they share."""
    job = Job(graph=SPEC, model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=32))
    even = statistics.model_copy(
        update={"cuts": tuple(c.model_copy(update={"largest_halo": 1.0, "largest_own": 1.0}) for c in statistics.cuts)}
    )
    placement = placed(per_host=per_host)
    merged = machine_of(placement)
    assert merged.alike == (SIZE,)
    apart = Machine(placement, (1,) * SIZE, (), is_whole=True)
    pricer = Pricer(even, Structures())
    for one, each in zip(pricer.candidates(job, merged), pricer.candidates(job, apart), strict=True):
        assert each.busy_s("communicate").min() > 0
        assert one.epoch_s == pytest.approx(each.epoch_s, rel=0.02)
        assert one.memory[0].peak_bytes == pytest.approx(each.memory[0].peak_bytes, rel=0.01)


def test_statistics_of_a_graph_are_near_its_plans(graph, statistics):
    """Halo rows estimated from cuts into 2 and 4 parts price a cut into 4 as the cut itself, within a tenth."""
    job = Job(graph=SPEC, model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=32))
    setting = setting_of(job, placed(), graph)
    from gnnplan.planner.partitioning.partition import Partitioning

    part = Partitioning(graph.num_nodes, graph.edge_index).into(SIZE, "kaminpar")
    for priced in Pricer(statistics, Structures()).candidates(job, machine_of(setting.placement)):
        if "halo_exchange" in [choice.technique for choice in priced.choices]:
            choices = [Choice(c.technique, c.decision, {"part": part} if c.arrays else {}) for c in priced.choices]
            cut = compose_candidate(setting, choices)
            assert priced.epoch_s == pytest.approx(cut.epoch_s, rel=0.1)


def test_a_thousand_workers_cost_no_more_than_two(statistics):
    """A program of 1,024 alike workers has the sizes of one."""
    job = Job(graph=SPEC, model=ModelSpec(kind="gcn"))
    large = statistics.model_copy(update={"num_nodes": 10**9, "num_edges": 10**11, "degrees": ()})
    found = Pricer(large, Structures()).candidates(job, machine_of(placed(1024, 8)))
    assert all(each.cycle.num_workers == 1 for each in found)
    assert all(each.counts.num_workers == 1024 for each in found)
    assert all(0 < each.epoch_s < 1e4 for each in found)


def test_slow_workers_get_less(statistics):
    """Uneven devices share the graph by speed, and their shares add up to the graph."""
    job = Job(graph=SPEC, model=ModelSpec(kind="gcn", hidden_channels=256))
    devices = (DeviceSpec(catalog="rtx-3090", count=2), DeviceSpec(catalog="gtx-1650"))
    machine = machine_of(resolve(Cluster(hosts=(HostSpec(name="host", devices=devices),))))
    assert machine.alike == (2, 1)
    dense = statistics.model_copy(update={"num_nodes": 10**6, "num_edges": 10**8, "degrees": ()})
    for each in Pricer(dense, Structures()).candidates(job, machine):
        fast, slow = each.counts.shares
        assert fast > slow
        assert 2 * fast + slow == pytest.approx(1)


def test_memory_is_that_of_the_readers(statistics):
    """Bytes come from the reader of all plans."""
    job = Job(graph=SPEC, model=ModelSpec(kind="gcn"))
    machine = machine_of(placed())
    for each in Pricer(statistics, Structures()).candidates(job, machine):
        profile = machine.placement.profile_of(0)
        assert each.memory[0] == estimate_memory(each.cycle, 0, profile)


def test_uneven_halo_rows_come_from_all_others():
    """Of workers that stand for themselves, everyone's halo rows come from the others by their shares."""
    shares = (0.5, 0.3, 0.2)
    counts = counts_of(
        Halos(Statistics(num_nodes=1000, num_edges=9000, num_features=4, num_classes=2)), "gcn", shares, (1, 1, 1)
    )
    routes = counts.routes
    assert routes.sum(0) == pytest.approx(counts.received, abs=2)
    assert np.diag(routes).tolist() == [0, 0, 0]
    assert routes[0, 2] / routes[1, 2] == pytest.approx(5 / 3, rel=0.02)


def test_pins_that_leave_nothing_to_price_are_refused():
    """Groups of workers need a cut of the graph itself."""
    pin = PinnedDecisions(decisions={"feature_slices": {"num_groups": 2}})
    job = Job(name="grid", graph=SPEC, model=ModelSpec(kind="gcn"), pin=pin)
    pricer = Pricer(Statistics(num_nodes=1200, num_edges=9000, num_features=48, num_classes=5), Structures())
    with pytest.raises(UserError, match="grid: no layout that its pins leave can be priced from statistics"):
        pricer.candidates(job, Machine(placed(), (1,) * SIZE, (), is_whole=True))
