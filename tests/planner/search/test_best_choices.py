"""The search finds the shortest epoch that fits, within the pins, over any of the workers."""

from itertools import combinations

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from gnnplan.profiles.machine import Link
from tests.planner.search.searched import CLUSTERS, GRAPHS, KINDS, SBM, found, job_of, placement_of, sparse_graph

FITTING = 1e-9  # relative: rounding of sums of seconds


def hosts_of(*rates):
    """A T4 on every host, each behind a link of its own, bytes/s."""
    hosts = (
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog="t4"),), link=Link(bytes_per_s=rate))
        for i, rate in enumerate(rates)
    )
    return resolve(Cluster(hosts=tuple(hosts)))


def test_more_workers_than_vertices_are_refused():
    """In words."""
    tiny = generate_sbm(SBM.model_copy(update={"num_nodes": 2, "num_classes": 2, "average_degree": 1.0}))
    with pytest.raises(UserError, match="3 workers for 2 vertices"):
        found(tiny)
    assert found(tiny, "one").best.setting.num_workers == 1


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["one", "network", "mixed"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_was_looked_at_and_fits_is_faster(kind, cluster):
    """Over all settings; and no candidate is faster than the bound."""
    result = found(cluster=cluster, model=ModelSpec(kind=kind, hidden_channels=32))
    epochs = [each.epoch_s for each in result.looked_at if each.fits]
    assert result.best.epoch_s <= min(epochs) * (1 + FITTING)
    assert min(epochs) >= result.bound.seconds * (1 - 1e-6) > 0
    assert result.best.epoch_s >= result.best.bound.seconds * (1 - 1e-6) > 0


@pytest.mark.long
@pytest.mark.parametrize("rates", [(1e9, 1e9, 1e9), (1e11, 1e11, 1e6), (1e6, 1e6, 1e6), (1e8, 1e7, 1e10)])
def test_no_subset_of_the_workers_is_faster(rates):
    """Every subset is searched on its own, as a cluster of those hosts alone."""
    placement, job = hosts_of(*rates), job_of()
    whole = decide(job, placement, GRAPHS["skewed"]).best
    for size in (1, 2, 3):
        for ranks in combinations(range(3), size):
            pinned = job_of(num_workers=size)
            alone = decide(pinned, placement.of(ranks), GRAPHS["skewed"]).best
            assert whole.epoch_s <= alone.epoch_s * (1 + 0.02), ranks


@pytest.mark.long
def test_a_worker_that_costs_more_than_it_computes_is_left_out():
    """Behind a link so slow that its exchanges dwarf the epoch; it is not even left a vertex."""
    result = found("skewed", placement=hosts_of(1e11, 1e11, 1e6))
    assert [worker.host for worker in result.best.setting.placement.workers] == ["h0", "h1"]
    assert found("skewed", placement=hosts_of(1e11, 1e11, 1e6), num_workers=3).best.epoch_s > result.best.epoch_s


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "sage", "gin"])
def test_no_pin_makes_anything_faster(kind):
    """Pinning anything can only lengthen the epoch."""
    model = ModelSpec(kind=kind, hidden_channels=32)
    free = found("wide", model=model).best.epoch_s
    for pin in ({"op_order": "multiply_first"}, {"op_order": "aggregate_first"}, {"precompute": False},
                {"partitioner": "ranges"}, {"partitioner": "metis"}, {"overlap": False}, {"overlap": True},
                {"feature_cache": False}, {"num_workers": 3}, {"balance": "equal"}):  # fmt: skip
        assert found("wide", model=model, **pin).best.epoch_s >= free * (1 - FITTING), pin


def test_what_does_not_fit_is_passed_over():
    """Between the leanest and the fastest choices, less memory leads to slower ones that fit."""
    loose = found("wide", "one").best
    needs = int(loose.memory[0].peak_bytes)
    lean = found("wide", "one", op_order="multiply_first").best
    assert loose.choice("first_aggregation")
    assert int(lean.memory[0].peak_bytes) < needs
    tight = found("wide", "one", on={"memory_bytes": needs - 1})
    assert tight.best.memory[0].peak_bytes < needs
    assert tight.best.epoch_s > loose.epoch_s
    assert not all(each.fits for each in tight.looked_at)


@pytest.mark.parametrize("order", ["multiply_first", "aggregate_first"])
def test_a_pinned_order_holds_in_every_layer(order):
    """The pin is for the whole model."""
    best = found(op_order=order, precompute=False).best
    assert set(best.choice("operator_order").decision.of.values()) == {order}
    assert best.choice("first_aggregation") is None


@pytest.mark.parametrize("pin", [{"partitioner": "metis"}, {"partitioner": "ranges"}, {"balance": "equal"}], ids=str)
def test_a_pinned_layout_is_used(pin):
    """Nothing else is tried."""
    ((name, value),) = pin.items()
    for each in found(num_workers=3, **pin).looked_at:
        layout = each.choice("halo_exchange") or each.choice("feature_slices")
        assert getattr(layout.decision, name) == value


@pytest.mark.parametrize(
    ("model", "pin"),
    [
        ({"kind": "gat", "heads": 2}, {"op_order": "aggregate_first"}),
        ({"kind": "gat"}, {"precompute": True}),
        ({"input_dropout": 0.1}, {"precompute": True}),
        ({}, {"op_order": "multiply_first", "precompute": True}),
        ({}, {"op_order": "aggregate_first", "precompute": False, "sparse_features": True}),
    ],
)
def test_pins_that_cannot_be_exact_are_refused(model, pin):
    """The user's pin is refused in one line rather than dropped."""
    with pytest.raises(UserError, match=r"pin\.op_order and pin\.precompute"):
        found(model=ModelSpec(hidden_channels=32, **model), **pin)


@pytest.mark.long
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_a_pinned_feature_format_holds(sparse, graph):
    """Dense features can be pinned sparse, and the other way round."""
    best = found("sbm" if graph == "dense" else sparse_graph(), sparse_features=sparse).best
    assert bool(best.choice("sparse_features")) == sparse


def test_sparse_features_are_chosen_for_wide_and_mostly_zero_ones():
    """Where nearly all entries are zero the sparse product wins; features that are held dense are not even tried."""
    result = found(sparse_graph(num_features=20_000, density=0.0005), "one")
    assert result.best.choice("sparse_features")
    assert not all(each.choice("sparse_features") for each in result.looked_at)
    assert not any(each.choice("sparse_features") for each in found("wide").looked_at)


ONE_HEAD = ModelSpec(kind="gat", num_layers=2, hidden_channels=64, heads=1)


def test_one_head_sums_no_sparse_rows():
    """There is no kernel for it, so plans that sum inputs first hold them dense."""
    for each in found(sparse_graph(), model=ONE_HEAD, num_workers=2).looked_at:
        first = {key for key, order in each.choice("operator_order").decision.of.items() if order == "aggregate_first"}
        assert not (each.choice("sparse_features") and "l0/weigh" in first)


def test_one_head_is_tried_in_both_orders():
    """The one that is pinned, or both of every layer."""
    looked_at = found(model=ONE_HEAD, num_workers=2).looked_at
    tried = {item for each in looked_at for item in each.choice("operator_order").decision.of.items()}
    orders = ("aggregate_first", "multiply_first")
    assert tried == {(f"l{layer}/weigh", order) for layer in range(2) for order in orders}
    for each in found(model=ONE_HEAD, num_workers=2, op_order="aggregate_first").looked_at:
        assert set(each.choice("operator_order").decision.of.values()) == {"aggregate_first"}


@pytest.mark.long
def test_no_plan_fits_names_the_missing_bytes():
    """With so much more memory a plan fits, with one byte less none does."""
    with pytest.raises(NoPlanFitsError, match="which has 1,000; ") as caught:
        found("wide", "one", on={"memory_bytes": 1000})
    need = 1000 + int(str(caught.value).split("; ")[-1].split(" bytes")[0].replace(",", ""))
    found("wide", "one", on={"memory_bytes": need})
    with pytest.raises(NoPlanFitsError, match="; 1 bytes are missing"):
        found("wide", "one", on={"memory_bytes": need - 1})


@pytest.mark.long
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_bound_holds_on_every_cluster(cluster):
    """On equal and on mixed devices, a graph that is skewed."""
    result = found("skewed", cluster, num_workers=len(placement_of(cluster).workers))
    assert min(each.epoch_s for each in result.looked_at) >= result.bound.seconds * (1 - 1e-6)


@pytest.mark.parametrize("bytes_per_s", [1e6, 1e8])
def test_the_bound_counts_the_sum_of_gradients(bytes_per_s):
    """Where it alone takes longer than all the work on one worker, no set is bounded below that worker."""
    result = found("wide", "network", on={"bytes_per_s": bytes_per_s})
    alone = found("wide", "one", on={"bytes_per_s": bytes_per_s}, placement=placement_of("network").take(1))
    assert result.best.setting.num_workers == 1
    assert result.best.epoch_s == alone.best.epoch_s
    assert result.bound.set_by == "compute of h0-0 alone"
    assert result.best.epoch_s <= 1.2 * result.bound.seconds


def test_faster_devices_are_given_more():
    """Shares follow the devices' speed; without a reason there is no difference."""
    shares = found("skewed", "mixed", partitioner="metis", balance="speed", num_workers=3).best
    first, *others = shares.choice("halo_exchange").decision.shares
    assert first > others[0] == others[1]
    assert (
        found(cluster="host", num_workers=4, balance="speed").best.choice("halo_exchange").decision.shares
        == (0.25,) * 4
    )


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["mixed", "contrary"])
def test_refined_shares_are_never_slower_and_equal_ones_never_faster(cluster):
    """On uneven devices the search has refined shares among what it looks at."""
    pins = {"partitioner": "metis", "num_workers": len(placement_of(cluster).workers)}
    epochs_s = {
        balance: found("skewed", cluster, balance=balance, **pins).best.epoch_s for balance in ("equal", "speed", None)
    }
    assert epochs_s[None] <= epochs_s["speed"]
    assert epochs_s[None] < epochs_s["equal"]


def test_exchanges_are_overlapped_where_that_is_faster():
    """On a slow network a free search overlaps; a pin decides alone; one worker has nothing to overlap."""
    pins, on = {"balance": "speed", "num_workers": 3, "dependencies": "communicate"}, {"bytes_per_s": 1e8}
    epochs_s = {each: found(on=on, overlap=each, **pins).best.epoch_s for each in (None, True, False)}
    assert epochs_s[None] == pytest.approx(epochs_s[True])
    assert epochs_s[True] < epochs_s[False]
    assert found(cluster="one").best.choice("overlap") is None


@pytest.mark.long
def test_rows_are_kept_where_the_job_allows_it():
    """As many epochs as pinned, and only where that is faster."""
    model, on = ModelSpec(hidden_channels=32, num_layers=3), {"bytes_per_s": 1e7}
    pins = {"num_workers": 3, "dependencies": "communicate"}
    stale = found(model=model, fidelity="stale", refresh_interval=4, on=on, **pins).best
    assert stale.choice("joint_cache").decision.interval == 4
    assert len(stale.cycle.order) == 4
    exact = found(model=model, on=on, **pins).best
    assert stale.epoch_s < exact.epoch_s
    assert exact.choice("joint_cache") is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("fidelity", "pins", "interval"),
    [
        ("stale(3)", {}, 3),
        ("stale(3)", {"refresh_interval": 2}, 2),
        ("stale(3)", {"refresh_interval": 1}, 1),
        ("stale", {}, 1),
    ],
)
def test_rows_are_kept_as_long_as_allowed_unless_pinned(fidelity, pins, interval):
    """Nothing has to be pinned; without a number in the fidelity nothing is kept unasked."""
    on, pins = {"bytes_per_s": 1e7}, {"num_workers": 3, "dependencies": "communicate", **pins}
    best = found(model=ModelSpec(hidden_channels=32, num_layers=3), fidelity=fidelity, on=on, **pins).best
    assert len(best.cycle.order) == interval


def test_features_are_sent_once_where_they_would_travel():
    """A job that may not aggregate once keeps them instead, unless it may not do that either."""
    pins = {"precompute": False, "op_order": "aggregate_first", "num_workers": 3, "dependencies": "communicate"}
    kept, sent = (found("wide", on={"bytes_per_s": 1e8}, feature_cache=each, **pins).best for each in (True, False))
    assert kept.choice("feature_cache")
    assert sent.choice("feature_cache") is None
    assert kept.epoch_s < sent.epoch_s


@pytest.mark.long
def test_the_same_job_is_decided_the_same_way():
    """Planning is deterministic, down to the arrays."""
    first, again = (found("skewed", "mixed").best for _ in range(2))
    assert [c.decision for c in first.choices] == [c.decision for c in again.choices]
    for one, other in zip(first.choices, again.choices, strict=True):
        for name, array in one.arrays.items():
            np.testing.assert_array_equal(array, other.arrays[name])


def test_every_step_of_the_search_is_told():
    """A user sees what the planner is doing."""
    told = []
    decide(job_of(), placement_of("mixed"), GRAPHS["sbm"], told.append)
    assert told[0] == "choosing operators for h0 alone"
    assert any("3 worker(s) on h0, h1-0, h1-1" in line for line in told)
