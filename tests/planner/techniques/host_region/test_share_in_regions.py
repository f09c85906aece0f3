"""Rows that hosts hold for their workers: what travels, who writes, and that no number changes."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.program.labels import Label, brings
from gnnplan.planner.readers.liveness import training_bytes
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


@pytest.mark.parametrize("name", MODELS)
def test_an_evaluation_between_epochs_changes_no_number(name):
    """It writes no region that training reads."""
    case = with_regions(case_of(name))
    plain, evaluated = played(case), case.play(epochs=0)
    for epoch in range(EPOCHS):
        evaluated.train([epoch])
        evaluated.executor.run("evaluate")
    assert_same(plain, evaluated)


@pytest.mark.parametrize("passes", [(), ("overlap",)])
@pytest.mark.parametrize("name", MODELS)
def test_edges_are_enough(name, passes):
    """Operators in any order that keeps their edges give the same bits."""
    case, rng = with_regions(case_of(name, *passes)), np.random.default_rng(0)
    for _ in range(2):
        assert_same(played(case), played(case, order=lambda cycle, program: topological(cycle, program, rng)))
