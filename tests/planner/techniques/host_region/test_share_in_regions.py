"""Rows that hosts hold for their workers: what travels, who writes, and that no number changes."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label, brings
from gnnplan.planner.readers.bound import bound_of
from gnnplan.planner.readers.liveness import training_bytes
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.profiles.machine import Link
from tests.planner.program.cases import HOSTS, MODELS, ORDERS, Case, Run, codes, subset, topological, travels, watched

EPOCHS = 4
PASSES = ("split", "storage")


def case_of(name, *passes, interval=3, order="multiplied"):
    """Rows of two hosts of two workers, of which hosts hold some and workers others."""
    model = MODELS[name]
    marked = {Label.SHARED: subset(model, 4, 1, 0.5), Label.KEPT: subset(model, 4, 2, 0.3)}
    return Case(model, 4, ORDERS[order], codes(model, 4, marked), (*PASSES, *passes), interval)


def with_regions(case):
    return replace(case, passes=(*case.passes, "regions"))


def played(case, cycle=None, order=None):
    run = Run(case, watched(cycle or case.cycle()))
    run.train(range(EPOCHS), order)
    return run


def assert_same(one, other):
    assert one.losses == other.losses
    for name, workers in one.params.items():
        assert all(a.equal(b) for a, b in zip(workers, other.params[name], strict=True)), name


CASES = [
    (interval, passes, order)
    for interval in (1, 3)
    for passes, order in (((), "multiplied"), (("once",), "aggregated"), (("overlap",), "mixed"))
]


@pytest.mark.long
@pytest.mark.parametrize(("interval", "passes", "order"), CASES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_regions_change_no_bit(name, interval, passes, order):
    """Losses and parameters over more than a refresh, and what an evaluation counts."""
    plain = case_of(name, *passes, interval=interval, order=order)
    shared = with_regions(plain)
    one, other = played(plain), played(shared)
    assert_same(one, other)
    hits = [run.executor.run("evaluate")["hits"][0].tolist() for run in (one, other)]
    assert hits[0] == hits[1]


@pytest.mark.parametrize("name", MODELS)
def test_a_row_comes_to_a_host_once_or_not_at_all(name):
    """Not where its owner is there; else to one of its readers. In between nothing of it travels."""
    plain, shared = (each.cycle() for each in (case_of(name), with_regions(case_of(name))))
    exchanges = [op for op in plain.programs["train"] if brings(op, (Label.SHARED,)) and not op.attributes.get("back")]
    assert exchanges
    for op in exchanges:
        route = plain.routes[op.attributes["route"]]
        want = [0, 0]
        for host in (0, 1):
            wanted = {v: int(owner) for v, owner in rows_of(plain, route, [w for w in range(4) if HOSTS[w] == host])}
            want[host] = sum(HOSTS[owner] != host for owner in wanted.values())
        counts = shared.routes[f"route {route.target} by host"].counts
        received = counts.sum(0)
        assert [int(received[[w for w in range(4) if HOSTS[w] == host]].sum()) for host in (0, 1)] == want
        assert not any(counts[p, q] for p in range(4) for q in range(4) if HOSTS[p] == HOSTS[q])
        assert 0 < counts.sum() < route.counts.sum()
    assert travels(shared.programs["train"], shared)["shared"] < travels(plain.programs["train"], plain)["shared"]
    assert "shared" not in travels(shared.programs["train/reuse"], shared)


def rows_of(cycle, route, ranks):
    """(vertex, owner) of every row that some workers receive."""
    for rank in ranks:
        owners = np.repeat(np.arange(4), route.counts[:, rank])
        yield from zip(cycle.arrays.ids[route.target][rank].tolist(), owners, strict=True)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_go_back_from_every_reader(name):
    """As without regions, row by row."""
    plain, shared = (each.cycle() for each in (case_of(name), with_regions(case_of(name))))
    for program in ("train", "train/reuse"):
        assert travels(plain.programs[program], plain, back=True) == travels(
            shared.programs[program], shared, back=True
        )


@pytest.mark.parametrize("name", MODELS)
def test_what_outlives_an_epoch_is_the_region_alone(name):
    """No worker holds rows of its region between epochs; in a reusing one each finds them again."""
    cycle = with_regions(case_of(name)).cycle()
    found = [op for op in cycle.programs["train/reuse"] if op.kind == "find"]
    assert found
    assert {op.kind for op in cycle.programs["train"]} >= {"publish", "host_barrier", "find"}
    assert not {"publish", "host_barrier"} & {op.kind for op in cycle.programs["train/reuse"]}
    for op in found:
        region = cycle.values[op.reads[0]]
        assert (region.role, region.tier) == ("cell", "region")
        assert cycle.values[op.writes[0]].role == "temporary"


def test_regions_take_from_workers_what_they_hold():
    """By the text: bytes of a worker are fewer by about the rows that its host holds, of all levels but one."""
    plain, shared = (each.cycle() for each in (case_of("gcn"), with_regions(case_of("gcn"))))
    for worker in range(4):
        assert training_bytes(shared, worker).peak_bytes < training_bytes(plain, worker).peak_bytes


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_an_evaluation_between_epochs_changes_no_number(name):
    """It writes no region that training reads."""
    case = with_regions(case_of(name))
    plain, evaluated = played(case), case.play(epochs=0)
    for epoch in range(EPOCHS):
        evaluated.train([epoch])
        evaluated.executor.run("evaluate")
    assert_same(plain, evaluated)


@pytest.mark.long
@pytest.mark.parametrize("passes", [(), ("overlap",)])
@pytest.mark.parametrize("name", MODELS)
def test_edges_are_enough(name, passes):
    """Operators in any order that keeps their edges give the same bits."""
    case, rng = with_regions(case_of(name, *passes)), np.random.default_rng(0)
    for _ in range(2):
        assert_same(played(case), played(case, order=lambda cycle, program: topological(cycle, program, rng)))


def placement():
    """Two hosts of two T4s."""
    host = HostSpec(name="h", count=2, devices=(DeviceSpec(catalog="t4", count=2),), region_bytes=2**20)
    inner = Link(bytes_per_s=1e10, latency_s=1e-6)
    return resolve(Cluster(hosts=(host,), network=Link(bytes_per_s=1e9), device_link=inner))


@pytest.mark.parametrize("passes", [(), ("overlap",)])
def test_only_the_workers_of_a_host_wait_for_each_other(passes):
    """A barrier is a rendezvous of each host's workers, and stands where it is though exchanges run beside."""
    cycle = with_regions(case_of("gcn", *passes)).cycle()
    barriers = [op for op in cycle.programs["train"] if op.kind == "host_barrier"]
    assert {op.lane for op in barriers} == {"compute"}
    tasks = schedule_of(cycle, "train", placement()).tasks
    for op in barriers:
        mine = [task for task in tasks if task.key == op.key]
        groups = [[task.worker for task in mine if task.group == group] for group in {task.group for task in mine}]
        assert sorted(groups) == [[0, 1], [2, 3]]
        assert all(task.seconds > 0 and task.category == "communicate" for task in mine)
    groups = {task.group for task in tasks if task.group >= 0}
    assert groups == set(range(len(groups)))
    assert len(groups) == len([op for op in cycle.programs["train"] if KINDS[op.kind].collective]) + len(barriers)


def test_who_is_alone_on_a_host_waits_for_nobody():
    """Its barrier takes no time."""
    host = HostSpec(name="h", devices=(DeviceSpec(catalog="t4", count=2),))
    alone = HostSpec(name="alone", devices=(DeviceSpec(catalog="t4"),))
    case = replace(with_regions(case_of("gcn")), num_workers=3)
    model = case.model
    case = replace(case, labels=codes(model, 3, {Label.SHARED: subset(model, 3, 1, 0.5)}))
    schedule = schedule_of(case.cycle(), "train", resolve(Cluster(hosts=(host, alone))))
    waits = {task.worker: task.seconds for task in schedule.tasks if task.key.endswith("/barrier")}
    assert waits[0] == waits[1] > 0 == waits[2]
    assert play(compile_schedule(schedule)).makespan_s > waits[0]


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_no_order_beats_the_bound(name):
    """Operators in any order that keeps their edges take as long as the bound says, at least."""
    cycle, rng = with_regions(case_of(name, "overlap")).cycle(), np.random.default_rng(1)
    for program in ("train", "train/reuse"):
        bound = bound_of(cycle, program, placement())
        assert bound.seconds > 0
        for _ in range(5):
            order = topological(cycle, cycle.programs[program], rng)
            moved = tuple(cycle.programs[program][number] for number in order)
            other = replace(cycle, programs={**cycle.programs, program: moved})
            schedule = schedule_of(other, program, placement())
            assert bound.seconds <= play(compile_schedule(schedule)).makespan_s


def test_device_and_region_are_counted_apart():
    """The region's bytes are those of its rows, once a host; a worker's own have none of them."""
    cycle = with_regions(case_of("gcn")).cycle()
    cells = [value for value in cycle.values.values() if (value.tier, value.role) == ("region", "cell")]
    assert cells
    for worker in range(4):
        estimate = estimate_memory(cycle, worker, placement().profile_of(worker))
        rows = sum(cycle.num_bytes(value.name, worker) for value in cells)
        assert rows < estimate.region_bytes <= rows + 64 * (len(cells) + 1)
        assert estimate.region_bytes == estimate_memory(cycle, worker ^ 1, placement().profile_of(0)).region_bytes
