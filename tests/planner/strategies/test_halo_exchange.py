"""Halo exchange decides for the shortest epoch that fits, within the pins, and never beats its bound."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, RmatGraph, SbmGraph
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.halo_exchange import HaloExchangeStrategy
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from gnnplan.profiles.machine import Link

SBM = SbmGraph(source="sbm", num_nodes=600, average_degree=10, num_classes=4, num_features=24, homophily=0.9)
GRAPHS = {
    "sbm": generate_sbm(SBM),
    "skewed": generate_rmat(RmatGraph(source="rmat", num_nodes=3000, num_edges=40_000, num_features=64)),
    "wide": generate_sbm(SBM.model_copy(update={"num_features": 900})),
}
CLUSTERS = {
    "one": [("rtx-3090", 1, 1)],
    "host": [("rtx-3090", 4, 1)],
    "network": [("t4", 1, 3)],
    "mixed": [("rtx-3090", 1, 1), ("gtx-1650", 1, 2)],
    "contrary": [("h100-sxm", 1, 1), ("rtx-2060", 2, 1), ("v100", 1, 1)],
}
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]


def placement_of(name, *, memory_bytes=None, bytes_per_s=1e12):
    """One of the clusters above, on a network that hides nothing of the computation."""
    hosts = tuple(
        HostSpec(
            name=f"h{i}",
            count=hosts,
            devices=(DeviceSpec(catalog=device, count=count, memory_bytes=memory_bytes),),
            link=Link(bytes_per_s=bytes_per_s),
        )
        for i, (device, count, hosts) in enumerate(CLUSTERS[name])
    )
    return resolve(Cluster(hosts=hosts, device_link=Link(bytes_per_s=bytes_per_s)))


def problem_of(graph="sbm", cluster="network", *, model=None, pin=None, fidelity="exact", **placement):
    """A job of a two-layer GCN, unless another model is given."""
    model, pin = model or ModelSpec(hidden_channels=32), PinnedDecisions(**(pin or {}))
    job = Job(graph=SBM, model=model, pin=pin, fidelity=fidelity)
    held = GRAPHS[graph] if isinstance(graph, str) else graph
    return Problem(held, job, placement_of(cluster, **placement))


def decide(problem):
    """The decision, silently."""
    return HaloExchangeStrategy().decide(problem, lambda _: None)


def epoch_s(problem, decided):
    """Seconds of the decided epoch, from a strategy that has seen nothing yet."""
    return play(compile_schedule(HaloExchangeStrategy().lower(problem, decided))).makespan_s


def sparse_graph(num_features=2000, density=0.003):
    """Wide features, nearly all zero."""
    x = sp.random(600, num_features, density, "csr", np.float32, rng=np.random.default_rng(0))
    return replace(GRAPHS["sbm"], x=x)


def test_applicable_unless_a_worker_would_own_nothing():
    """More workers than vertices is refused in words."""
    assert HaloExchangeStrategy().applicable(problem_of()) is None
    tiny = generate_sbm(SBM.model_copy(update={"num_nodes": 2, "num_classes": 2, "average_degree": 1.0}))
    assert HaloExchangeStrategy().applicable(problem_of(tiny)) == "3 workers for 2 vertices"
    assert HaloExchangeStrategy().applicable(problem_of(tiny, "one")) is None


@pytest.mark.parametrize("cluster", ["one", "network", "mixed"])
@pytest.mark.parametrize("kind", KINDS)
def test_decision_is_the_shortest_epoch_considered(kind, cluster):
    """What was considered is sorted, and the first that fits is what the schedule plays out as."""
    problem = problem_of(cluster=cluster, model=ModelSpec(kind=kind, hidden_channels=32))
    decided = decide(problem)
    epochs = [candidate.epoch_s for candidate in decided.considered]
    assert epochs == sorted(epochs)
    assert epoch_s(problem, decided) == epochs[0]
    assert decided.considered[0].fits
    assert sorted(set(decided.part.tolist())) == list(range(len(problem.placement.workers)))


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin"])
def test_no_pinned_order_is_faster_than_the_free_choice(kind):
    """Pinning anything can only lengthen the epoch."""
    model = ModelSpec(kind=kind, hidden_channels=32)
    free = epoch_s(problem := problem_of("wide", model=model), decide(problem))
    for pin in ({"op_order": "multiply_first"}, {"op_order": "aggregate_first"}, {"precompute": False},
                {"partitioner": "ranges"}, {"partitioner": "metis"}):  # fmt: skip
        pinned = problem_of("wide", model=model, pin=pin)
        assert epoch_s(pinned, decide(pinned)) >= free


def test_what_does_not_fit_is_passed_over():
    """Between the leanest and the fastest decision, less memory leads to a slower one that fits."""
    loose = problem_of("wide", "one")
    fastest = decide(loose)
    needs = {}
    for name, pin in {"free": {}, "multiply": {"op_order": "multiply_first"}}.items():
        problem = problem_of("wide", "one", pin=pin)
        decided = decide(problem)
        needs[name] = HaloExchangeStrategy().memory(problem, decided)[0].peak_bytes
    assert fastest.decision.layers[0].precompute
    assert needs["multiply"] < needs["free"]
    tight = problem_of("wide", "one", memory_bytes=needs["free"] - 1)
    decided = decide(tight)
    assert HaloExchangeStrategy().memory(tight, decided)[0].peak_bytes < needs["free"]
    assert epoch_s(tight, decided) > epoch_s(loose, fastest)
    assert not decided.considered[0].fits


@pytest.mark.parametrize("partitioner", ["metis", "ranges"])
def test_pinned_partitioner_is_used(partitioner):
    """Nothing else is tried."""
    decided = decide(problem_of(pin={"partitioner": partitioner}))
    assert decided.decision.partitioner == partitioner
    assert all(candidate.summary.startswith(partitioner) for candidate in decided.considered)


@pytest.mark.parametrize("order", ["multiply_first", "aggregate_first"])
def test_pinned_order_holds_in_every_layer(order):
    """The pin is for the whole model."""
    layers = decide(problem_of(pin={"op_order": order, "precompute": False})).decision.layers
    assert [(layer.op_order, layer.precompute) for layer in layers] == [(order, False)] * 2


@pytest.mark.parametrize("precompute", [False, True])
def test_pinned_precompute_holds(precompute):
    """Also where the planner would choose otherwise."""
    assert decide(problem_of(pin={"precompute": precompute})).decision.layers[0].precompute == precompute


@pytest.mark.parametrize(
    ("model", "pin"),
    [
        ({"kind": "gat"}, {"op_order": "aggregate_first"}),
        ({"input_dropout": 0.1}, {"precompute": True}),
        ({}, {"op_order": "aggregate_first", "precompute": False, "sparse_features": True}),
    ],
)
def test_pins_that_cannot_be_exact_are_refused(model, pin):
    """The user's pin is refused in one line rather than dropped."""
    model = ModelSpec(hidden_channels=32, **model)
    with pytest.raises(UserError, match=r"pin\.op_order and pin\.precompute"):
        decide(problem_of(model=model, pin=pin))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_pinned_feature_format_holds(sparse, graph):
    """Dense features can be pinned sparse, and the other way round."""
    problem = problem_of("sbm" if graph == "dense" else sparse_graph(), pin={"sparse_features": sparse})
    assert decide(problem).decision.sparse_features == sparse


def test_sparse_features_are_chosen_for_wide_and_mostly_zero_ones():
    """Where nearly all entries are zero the sparse product wins, and the dense one was looked at."""
    decided = decide(problem_of(sparse_graph(num_features=20_000, density=0.0005), "one"))
    assert decided.decision.sparse_features
    assert any("dense" in candidate.summary for candidate in decided.considered)


def test_dense_features_stay_dense():
    """Features held dense are not even tried as sparse."""
    decided = decide(problem_of("wide"))
    assert not decided.decision.sparse_features
    assert not any("sparse" in candidate.summary for candidate in decided.considered)


@pytest.mark.parametrize("model", [ModelSpec(kind="gat", hidden_channels=32),
                                   *[ModelSpec(kind=kind, hidden_channels=32, input_dropout=0.3)
                                     for kind in KINDS]], ids=str)  # fmt: skip
@pytest.mark.parametrize("graph", ["sbm", "sparse"])
def test_precompute_is_never_considered_where_it_is_not_exact(model, graph):
    """GAT transforms first, and dropped inputs change from epoch to epoch."""
    decided = decide(problem_of(sparse_graph() if graph == "sparse" else graph, model=model))
    assert not any(layer.precompute for layer in decided.decision.layers)
    assert not any("AX once" in candidate.summary for candidate in decided.considered)


@pytest.mark.parametrize("memory_bytes", [1, 100_000])
def test_no_plan_fits_names_the_missing_bytes(memory_bytes):
    """The nearest miss says what it needs, what is there, and the difference."""
    with pytest.raises(NoPlanFitsError) as caught:
        decide(problem_of("wide", memory_bytes=memory_bytes))
    text = str(caught.value)
    assert "\n" not in text
    need = int(text.split(" needs ")[1].split(" bytes")[0].replace(",", ""))
    missing = int(text.split("; ")[-1].split(" bytes are missing")[0].replace(",", ""))
    assert need - memory_bytes == missing > 0
    assert f"which has {memory_bytes:,}; {missing:,} bytes are missing" in text


def test_the_missing_bytes_are_exactly_what_is_missing():
    """With so much more memory a plan fits, with one byte less none does."""
    with pytest.raises(NoPlanFitsError) as caught:
        decide(problem_of("wide", "one", memory_bytes=1000))
    need = 1000 + int(str(caught.value).split("; ")[-1].split(" bytes")[0].replace(",", ""))
    decide(problem_of("wide", "one", memory_bytes=need))
    with pytest.raises(NoPlanFitsError, match="; 1 bytes are missing"):
        decide(problem_of("wide", "one", memory_bytes=need - 1))


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_simulated_epoch_is_never_below_the_bound(kind, graph, cluster):
    """The bound holds for the decision taken and for both partitions, on equal and on mixed devices."""
    problem = problem_of(graph, cluster, model=ModelSpec(kind=kind, hidden_channels=32))
    bound = HaloExchangeStrategy().bound(problem)
    decided = decide(problem)
    assert bound.seconds > 0
    assert min(candidate.epoch_s for candidate in decided.considered) >= bound.seconds * (1 - 1e-6)


def test_bound_holds_for_partitions_nobody_chose():
    """Any assignment of vertices, however lopsided, takes at least the bound."""
    problem = problem_of("skewed", "mixed")
    strategy = HaloExchangeStrategy()
    bound, decided = strategy.bound(problem), strategy.decide(problem, lambda _: None)
    rng = np.random.default_rng(0)
    in_degree = np.bincount(GRAPHS["skewed"].edge_index[1], minlength=3000)
    by_degree = np.argsort(np.argsort(in_degree))
    for cut in (0.5, 0.8, 0.95):
        part = np.where(by_degree < cut * 3000, 0, rng.integers(1, 3, 3000)).astype(np.int32)
        for candidate in (part, (part + 1) % 3):
            assert epoch_s(problem, replace(decided, part=candidate)) >= bound.seconds


def test_faster_devices_are_given_more():
    """Target weights follow the devices' speed, and the fast device owns the larger share."""
    decided = decide(problem_of("skewed", "mixed", pin={"partitioner": "metis", "balance": "speed"}))
    weights = decided.decision.target_weights
    assert sum(weights) == pytest.approx(1)
    assert weights[0] > weights[1] == weights[2]


def test_equal_devices_are_given_equal_shares():
    """Without a reason there is no difference."""
    assert decide(problem_of(cluster="host")).decision.target_weights == (0.25,) * 4


def test_memory_states_what_each_worker_has_and_sends():
    """Loads are by rank, with the capacity of the worker's own device."""
    problem = problem_of(cluster="mixed", pin={"balance": "speed"})
    strategy = HaloExchangeStrategy()
    decided = strategy.decide(problem, lambda _: None)
    loads = strategy.memory(problem, decided)
    assert [load.capacity_bytes for load in loads] == [worker.memory_bytes for worker in problem.placement.workers]
    assert all(0 < load.peak_bytes <= load.capacity_bytes for load in loads)
    assert all(load.sent_bytes > 0 for load in loads)


def test_every_step_of_the_search_is_told():
    """A user sees what the planner is doing."""
    told = []
    HaloExchangeStrategy().decide(problem_of(), told.append)
    assert any("metis" in line for line in told)
    assert any("ranges" in line for line in told)


def test_the_same_problem_is_decided_the_same_way():
    """Planning is deterministic, down to the partition."""
    first, again = (decide(problem_of("skewed", "mixed")) for _ in range(2))
    assert first.decision == again.decision
    assert first.considered == again.considered
    np.testing.assert_array_equal(first.part, again.part)


@pytest.mark.parametrize("cluster", ["mixed", "contrary"])
def test_refined_shares_are_never_slower_and_equal_ones_never_faster(cluster):
    """On uneven devices the search has refined shares among what it looks at."""
    epochs_s = {}
    for balance in ("equal", "speed", None):
        problem = problem_of("skewed", cluster, pin={"balance": balance, "partitioner": "metis"})
        epochs_s[balance] = epoch_s(problem, decide(problem))
    assert epochs_s[None] <= epochs_s["speed"]
    assert epochs_s[None] < epochs_s["equal"]


def test_a_pinned_balance_is_kept():
    """In the decision and in what is said of it."""
    for balance in ("equal", "speed"):
        decided = decide(problem_of("skewed", "mixed", pin={"balance": balance}))
        assert decided.decision.balance == balance
    refined = decide(problem_of("skewed", "contrary", pin={"balance": "refined", "partitioner": "metis"})).decision
    assert refined.balance == "refined"
    assert sum(refined.target_weights) == pytest.approx(1)
    assert "equal shares" in decide(problem_of("skewed", "mixed", pin={"balance": "equal"})).considered[0].summary


def test_exchanges_are_overlapped_where_that_is_faster():
    """On a slow network a free search overlaps and beats both; a pin decides alone. GAT needs it; one worker cannot."""
    epochs_s = {}
    for overlap in (None, True, False):
        problem = problem_of(pin={"overlap": overlap, "balance": "speed"}, bytes_per_s=1e8)
        decided = decide(problem)
        epochs_s[overlap] = epoch_s(problem, decided)
        if overlap is not None:
            assert decided.decision.overlap == overlap
            assert all(("overlapped" in entry.summary) == overlap for entry in decided.considered)
    assert epochs_s[None] == epochs_s[True] < epochs_s[False]
    assert not decide(problem_of(model=ModelSpec(kind="gat", hidden_channels=32))).decision.overlap
    assert not decide(problem_of(cluster="one")).decision.overlap


def test_shares_are_refined_by_what_ports_take():
    """One worker behind a link a hundred times slower gets less than by its speed alone, and the epoch is shorter."""
    hosts = tuple(
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog="t4"),), link=Link(bytes_per_s=rate))
        for i, rate in enumerate((1e9, 1e9, 1e7))
    )
    placement = resolve(Cluster(hosts=hosts))
    found = {}
    for balance in ("speed", "refined"):
        problem = replace(problem_of("skewed", pin={"balance": balance, "partitioner": "metis"}), placement=placement)
        found[balance] = decide(problem), epoch_s(problem, decide(problem))
    assert found["refined"][0].decision.target_weights[2] < 0.9 * found["speed"][0].decision.target_weights[2]
    assert found["refined"][1] < found["speed"][1]


def test_a_worker_that_costs_more_than_it_computes_is_left_one_vertex():
    """Behind a link so slow that its exchanges dwarf the epoch; said in the summary; a pin looks at nothing else."""
    hosts = tuple(
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog="t4"),), link=Link(bytes_per_s=rate))
        for i, rate in enumerate((1e11, 1e11, 1e6))
    )
    placement = resolve(Cluster(hosts=hosts))
    found = {}
    for balance in (None, "refined", "concentrated"):
        problem = replace(problem_of("skewed", pin={"balance": balance, "partitioner": "metis"}), placement=placement)
        decided = decide(problem)
        found[balance] = decided.decision, epoch_s(problem, decided)
        assert (decided.part == 2).sum() == 1
        assert (decided.decision.balance == "concentrated") == (" of 3 workers)" in decided.considered[0].summary)
    assert found["concentrated"][0].target_weights[2] == 0
    assert found[None][1] == min(seconds for _, seconds in found.values())
