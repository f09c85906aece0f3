"""A job may pin techniques by their names, those of other packages too; which layout is best is searched."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job_pins import PartialReducePin
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.make import make_plan
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from gnnplan.profiles.machine import Link
from tests.planner.search.searched import GRAPHS, cluster_of, found, job_of, placement_of

SLICES, ROWS = {"feature_slices": True}, {"halo_exchange": True}
DEEP = ModelSpec(kind="gcn", num_layers=3, hidden_channels=32)
DENSE = generate_rmat(RmatGraph(source="rmat", num_nodes=2000, num_edges=100_000, num_features=64))
CLUSTER = Cluster(schema_version=1, hosts=(HostSpec(name="h", devices=(DeviceSpec(catalog="t4"),)),))


def names(candidate):
    return {choice.technique for choice in candidate.choices}


@pytest.mark.parametrize("layout", [SLICES, ROWS], ids=str)
def test_a_pinned_layout_is_the_only_one(layout):
    """Whoever claims the same is left out of everything that is looked at."""
    result = found(num_workers=3, techniques=layout)
    other = ({*SLICES, *ROWS} - {*layout}).pop()
    assert all(layout.keys() <= names(each) and other not in names(each) for each in result.looked_at)
    assert result.bound.seconds <= result.best.epoch_s


@pytest.mark.parametrize("is_on", [True, False])
def test_a_technique_is_pinned_on_or_off(is_on):
    """In every plan that is looked at, or in none."""
    looked_at = found(num_workers=3, techniques={"overlap": is_on}).looked_at
    assert {"overlap" in names(each) for each in looked_at} == {is_on}


def test_what_is_pinned_off_is_left_out_on_one_worker_too():
    """A layout stays: one worker's rows are all rows, whatever the layout."""
    off = {"first_aggregation": False, "halo_exchange": False}
    best = found(num_workers=1, techniques=off).best
    assert "halo_exchange" in names(best)
    assert "first_aggregation" not in names(best)
    assert "first_aggregation" in names(found(num_workers=1).best)


def test_what_is_pinned_and_cannot_be_is_refused():
    """Rows that are kept for one epoch are rows that are sent: no plan has both pins."""
    with pytest.raises(UserError, match=r"no plan keeps pin\.techniques"):
        found(num_workers=3, fidelity="stale(1)", techniques={"joint_cache": True})


@pytest.mark.parametrize(
    ("graph", "fidelity", "rate", "name"),
    [("sbm", "stale(3)", 1e7, "joint_cache"), ("wide", "exact", 1e8, "feature_cache")],
)
def test_what_is_pinned_has_rows_before_others_take_them(graph, fidelity, rate, name):
    """Replicas would make all of them, and another order would send others."""
    best = found(graph, num_workers=3, fidelity=fidelity, on={"bytes_per_s": rate}, techniques={name: True}).best
    assert name in names(best)


def test_a_form_without_what_is_pinned_is_left_out():
    """The coupled model sums its features once, and the decoupled one has nothing of the kind."""
    job = job_of(fidelity="decoupled", num_workers=2, techniques={"first_aggregation": True})
    plan, _ = make_plan(job, cluster_of("network"), GRAPHS["sbm"])
    assert plan.job.model.kind == "gcn"


def test_what_has_a_pin_is_taken_though_others_are_faster():
    """Only the slow host has two workers that could share rows. No worker has room for the whole graph alone."""

    def best(memory_bytes, **pin):
        def device(name, count=1):
            return (DeviceSpec(catalog=name, count=count, memory_bytes=memory_bytes),)

        hosts = (
            HostSpec(name="a", devices=device("gtx-1650", 2), link=Link(bytes_per_s=1e7), region_bytes=10**9),
            HostSpec(name="b", devices=device("h100-sxm"), link=Link(bytes_per_s=1e11)),
            HostSpec(name="c", devices=device("h100-sxm"), link=Link(bytes_per_s=1e11)),
        )
        placement = resolve(Cluster(hosts=hosts, device_link=Link(bytes_per_s=1e11)))
        return decide(job_of(DEEP, **pin), placement, DENSE).best

    room = int(0.8 * best(10**9).memory[0].peak_bytes)
    plain, pinned = best(room), best(room, techniques={"host_region": True})
    assert plain.setting.num_workers > 1
    assert "host_region" not in names(plain)
    assert "host_region" in names(pinned)
    assert pinned.epoch_s > plain.epoch_s


def test_an_unknown_technique_is_refused():
    """With the names that there are."""
    with pytest.raises(UserError, match="'feature_slicer' is not known; choose of sparse_features"):
        make_plan(job_of(techniques={"feature_slicer": True}), CLUSTER, GRAPHS["sbm"])


def test_pins_that_contradict_each_other_are_refused():
    """Replicas are of halo rows, and slices have none."""
    with pytest.raises(UserError, match=r"no plan keeps pin.techniques \(feature_slices = true\) beside"):
        found(num_workers=3, techniques=SLICES, partitioner="metis")


@pytest.mark.long
@pytest.mark.parametrize("graph", ["sbm", "skewed", "dense"])
@pytest.mark.parametrize("bytes_per_s", [1e8, 1e9])
def test_the_faster_layout_is_chosen(graph, bytes_per_s):
    """Of the layouts' best plans: also where one begins slower, and replicas, say, make it faster in the end."""
    pins = {"num_workers": 4, "on": {"bytes_per_s": bytes_per_s}, "model": DEEP}
    graph = DENSE if graph == "dense" else graph
    both, *each = (found(graph, "host", techniques=layout, **pins).best.epoch_s for layout in ({}, SLICES, ROWS))
    assert both <= min(each) * 1.0001


@pytest.mark.long
def test_each_layout_wins_somewhere():
    """Slices where nearly all rows are halo rows, rows where clusters are apart; replicas would beat both here."""
    pins = {"num_workers": 4, "on": {"bytes_per_s": 3e8}, "techniques": {"replicas": False, "overlap": False}}
    assert "feature_slices" in names(found(DENSE, "host", model=DEEP, **pins).best)
    assert "halo_exchange" in names(found("sbm", "host", model=DEEP, **pins).best)


@pytest.mark.long
def test_a_decoupled_model_has_slices_where_they_are_faster():
    """Ten propagations cost rows ten exchanges each way, where none are made; slices turn their logits twice."""
    model = ModelSpec(kind="appnp", num_layers=2, hidden_channels=32, num_hops=10)
    pins = {"num_workers": 4, "on": {"bytes_per_s": 1e9}, "model": model}
    sent = {"replicas": False}
    best, rows = (found("sbm", "host", techniques={**sent, **layout}, **pins).best for layout in ({}, ROWS))
    assert "feature_slices" in names(best)
    assert Counter(op.kind for op in best.cycle.programs["train"])["transpose"] == 4
    assert best.epoch_s < rows.epoch_s


def test_all_edges_on_every_worker_are_counted():
    """Blocks of slices are the whole graph's, on every worker; of rows each has its own edges alone."""
    slices = found("skewed", num_workers=3, techniques=SLICES).best
    rows = found("skewed", num_workers=3, techniques=ROWS, dependencies="communicate").best
    for one, other in zip(slices.memory, rows.memory, strict=True):
        assert one.graph_bytes > 1.5 * other.graph_bytes
    num_edges = {edges for block in slices.cycle.blocks.values() if block.content for edges in block.num_edges}
    assert num_edges == {slices.setting.matrix.nnz}


@pytest.mark.long
def test_where_all_edges_do_not_fit_the_plan_says_so():
    """A worker that has room for them and for nothing else has room for its rows, or for its group's."""
    memory = found(DENSE, "host", num_workers=4, techniques=SLICES).best.memory[0]
    pins = {"num_workers": 4, "on": {"memory_bytes": memory.base_bytes + memory.graph_bytes}}
    assert "halo_exchange" in names(found(DENSE, "host", **pins).best)
    with pytest.raises(NoPlanFitsError, match="no plan fits: the nearest needs"):
        found(DENSE, "host", decisions={"feature_slices": {"num_groups": 1}}, techniques={"offload": False}, **pins)
    decision = found(DENSE, "host", techniques=SLICES, **pins).best.choice("feature_slices").decision
    assert decision.num_groups == 2


def test_a_section_of_partial_reduce_beside_what_claims_the_same_is_refused():
    """It was left out in silence."""
    chunks = {"source_chunks": {"num_chunks": 2}}
    with pytest.raises(UserError, match=r"pin\.partial_reduce does not go with source_chunks"):
        make_plan(
            job_of(None, "approximate", decisions=chunks, partial_reduce=PartialReducePin()), CLUSTER, GRAPHS["sbm"]
        )


def test_the_number_of_chunks_follows_from_what_else_is_said():
    """Two divisions make a plan of B chunks stale(2B - 1), and a cycle may be no longer than 400 steps."""

    def chosen(fidelity, **fields):
        setting = SimpleNamespace(job=job_of(fidelity=fidelity, decisions={"source_chunks": fields}))
        (choice,) = technique("source_chunks").options(setting, None)
        return choice.decision.num_chunks

    assert chosen("stale(10)") == 10
    assert chosen("stale(10)", num_shuffles=2) == 5
    assert chosen("stale(100)", exact_every=30) == 10
    assert chosen("stale(100)", exact_every=30, num_chunks=3) == 3


@pytest.mark.parametrize(
    ("name", "fields", "can"),
    [
        ("halo_exchange", {"partitioner": "ranges"}, ""),
        ("feature_slices", {"balance": "equal"}, ", only num_groups can"),
    ],
)
def test_a_field_that_no_pin_settles_is_refused(name, fields, can):
    """It was read, and then the search decided it all the same."""
    (field,) = fields
    with pytest.raises(UserError, match=f"pin.decisions.{name}: {field} cannot be pinned here{can};"):
        make_plan(job_of(decisions={name: fields}), CLUSTER, GRAPHS["sbm"])


def test_sums_are_direct_up_to_the_size_that_is_pinned():
    """It was read, and all sums were direct."""
    best = found(num_workers=3, decisions={"direct_sum": {"most_bytes": 700}}).best
    assert best.choice("direct_sum").decision.most_bytes == 700


def test_the_docs_name_every_technique_that_has_fields_to_pin():
    """In the paragraph of pins."""
    text = (Path(__file__).parents[3] / "docs" / "techniques.md").read_text()
    paragraph = next(each for each in text.split("\n\n") if each.startswith("**Pins.**"))
    assert all(f"`{name}`" in paragraph for name, each in techniques().items() if each.pins)


@pytest.mark.parametrize(
    ("name", "allows"), [("pruning", "approximate"), ("late_halos", "stale(2)"), ("joint_cache", "stale(2)")]
)
def test_what_the_fidelity_forbids_is_refused_with_what_would_allow_it(name, allows):
    """However few workers would be chosen without it."""
    job = job_of(techniques={name: True})
    with pytest.raises(UserError, match=rf'pin\.techniques\.{name} is .*write fidelity = "{re.escape(allows)}"'):
        make_plan(job, cluster_of("network"), GRAPHS["sbm"])


def test_on_one_worker_what_is_pinned_takes_part_where_it_can():
    """Also where it is slower."""
    looked_at = found(num_workers=1, techniques={"first_aggregation": True}).looked_at
    assert all("first_aggregation" in names(each) for each in looked_at)


def test_a_set_that_cannot_keep_a_pin_is_passed_over():
    """Two groups of three workers cannot be; of four and of two they can."""
    result = found("sbm", "host", decisions={"feature_slices": {"num_groups": 2}})
    sizes = {each.setting.num_workers for each in result.looked_at}
    assert 3 not in sizes
    assert sizes & {2, 4}


def test_a_pin_that_no_several_workers_can_keep_is_refused():
    """One worker has all that is pinned, and is not taken in silence."""
    with pytest.raises(UserError, match="does not divide"):
        found(placement=placement_of("network").of((0, 1, 2)), decisions={"feature_slices": {"num_groups": 5}})


def test_names_that_are_not_known_are_refused_also_where_they_are_pinned_off():
    """A slip of the pen would do nothing."""
    with pytest.raises(UserError, match="featrue_cache"):
        make_plan(job_of(techniques={"featrue_cache": False}), cluster_of("network"), GRAPHS["sbm"])
