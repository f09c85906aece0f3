"""Tables show the figures of plan, trace, comparison and profile in units one reads."""

import io
from dataclasses import replace
from typing import get_args

import pytest
from rich.console import Console

from gnnplan.planner.causes import Cause
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.compare import TaskFigure, compare
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.report.tables import comparison_table, plan_table, profile_table, trace_table
from gnnplan.planner.report.units import seconds, size
from gnnplan.planner.search import make_plan, simulate_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import CollectiveTable, Link, MeasuredHost, OperatorTable, Point

SPEC = SbmGraph(source="sbm", num_nodes=1200, average_degree=5, num_classes=3, num_features=10)
PINNED = PinnedDecisions(num_workers=2, dependencies="communicate")


@pytest.fixture(scope="module")
def plan():
    """A plan for two devices."""
    cluster = Cluster(hosts=(HostSpec(name="box", devices=(DeviceSpec(catalog="t4", count=2),)),))
    job = Job(graph=SPEC, model=ModelSpec(kind="sage", hidden_channels=16), pin=PINNED)
    return make_plan(job, cluster, generate_sbm(SPEC))[0]


@pytest.fixture(scope="module")
def pruned_plan():
    """A plan whose halos are pruned: the slow device alone has one."""
    hosts = (HostSpec(name="fast", devices=(DeviceSpec(catalog="h100-sxm"),)),)
    hosts += (HostSpec(name="slow", devices=(DeviceSpec(catalog="gtx-1650"),), link=Link(bytes_per_s=1e6)),)
    pin = PinnedDecisions(
        prune="rapa", balance="equal", partitioner="ranges", num_workers=2, dependencies="communicate"
    )
    job = Job(graph=SPEC, model=ModelSpec(hidden_channels=16), fidelity="approximate", pin=pin)
    graph = generate_sbm(SPEC)
    graph = replace(graph, edge_index=graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]])
    return make_plan(job, Cluster(hosts=hosts), graph)[0]


def shown(renderable):
    """What a wide terminal shows."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_plan_table_shows_decision_prediction_and_workers(plan):
    """Everything a user decides by stands in the table."""
    text = shown(plan_table(plan))
    assert "sbm: 1,200 vertices" in text
    assert "sage, 2 layers, hidden 16" in text
    assert f"{seconds(plan.prediction.epoch_s)} predicted" in text
    assert f"gap {plan.prediction.gap:.0%}" in text
    assert text.count(" box ") == 2
    for (num_own, _, _), load in zip(plan.shares(), plan.prediction.workers, strict=True):
        assert f"{num_own:,}" in text
        assert size(load.peak_bytes) in text
    for candidate in plan.considered:
        assert candidate.summary in text


def test_plan_table_tells_guesses(plan):
    """Tasks outside the profile are counted; a plan without any does not mention them."""
    assert f"{len(plan.prediction.unprofiled)} task(s) outside the profiled shapes" in shown(plan_table(plan))
    sure = plan.model_copy(update={"prediction": plan.prediction.model_copy(update={"unprofiled": ()})})
    assert "unprofiled" not in shown(plan_table(sure))


def test_candidates_that_do_not_fit_say_no(plan):
    """The fastest decision may have been passed over."""
    considered = (plan.considered[0].model_copy(update={"fits": False}), *plan.considered[1:])
    lines = shown(plan_table(plan.model_copy(update={"considered": considered}))).splitlines()
    (line,) = [line for line in lines if plan.considered[0].summary in line]
    assert " no " in line


def test_trace_table_splits_the_epoch(plan):
    """The three categories with their seconds."""
    trace = simulate_plan(plan)
    text = shown(trace_table(trace))
    assert f"predicted epoch {seconds(trace.median_epoch_s)}" in text
    for category in ("compute", "communicate", "host"):
        assert seconds(trace.category_s(category)) in text


def test_comparison_table_shows_errors_and_misses(plan):
    """Errors are signed, the accuracy reached stands below, and misses name their tasks."""
    predicted = simulate_plan(plan)
    changes = {"origin": "measured", "epoch_s": (predicted.median_epoch_s * 2,), "accuracy": {"test": 0.75}}
    comparison = compare(predicted, predicted.model_copy(update=changes))
    text = shown(comparison_table(comparison))
    assert "-50.0%" in text
    assert "+0.0%" in text
    assert "75.00%" in text
    assert comparison.tasks[0].task in text
    assert "went on" not in text
    partial = predicted.model_copy(update=changes | {"num_members": (predicted.num_workers - 1,)})
    words = " ".join(shown(comparison_table(compare(predicted, partial))).split())
    assert "100% of the steps went on without some worker" in words


@pytest.mark.parametrize("cause", get_args(Cause))
def test_a_miss_says_why(plan, cause):
    """In the words of its cause, and of no other."""
    words = {
        "unprofiled": "shape outside the profile",
        "waiting": "waited for worker 1",
        "less_waiting": "waited less for worker 1 than predicted",
        "variance": "varies as much from epoch to epoch",
        "contention": "all of the worker is slower than profiled",
        "operator": "the operator itself",
    }
    predicted = simulate_plan(plan)
    comparison = compare(predicted, predicted.model_copy(update={"origin": "measured"}))
    task = TaskFigure(
        task="reduce", category="communicate", predicted_s=1, measured_s=2, unprofiled=False, cause=cause, worker=1
    )
    text = shown(comparison_table(comparison.model_copy(update={"tasks": (task,)})))
    assert [name for name, its in words.items() if its in text] == [cause]


def test_profile_table_tells_pairs_apart():
    """By the host that they are with."""
    members = tuple(MeasuredHost(name=name, num_workers=2, link=Link(bytes_per_s=1e8)) for name in ("a", "b", "c"))
    table = OperatorTable(axes=("num_bytes",), points=(Point(shape=(4.0,), median_s=1e-3),))
    collectives = tuple(
        CollectiveTable(collective="all_to_all_pair", backend="gloo", num_workers=6, table=table, peer=peer)
        for peer in (0, 1, 2)
    )
    changes = {"members": members, "host": "b", "collectives": collectives}
    text = shown(profile_table(catalog_profile("t4").model_copy(update=changes)))
    for words in ("with a", "on this host", "with c"):
        assert f"all_to_all_pair {words} x6 (gloo)" in text
    alone = {"collectives": collectives[:1]}
    assert "all_to_all_pair on this host x6" in shown(profile_table(catalog_profile("t4").model_copy(update=alone)))


@pytest.mark.parametrize("cores", [0.5, 0.8])
def test_plan_table_says_what_changed_since_hosts_were_profiled(cores, tmp_path):
    """And no figure of a host with other cores counts as profiled."""
    member = MeasuredHost(name="box", num_workers=1, link=Link(bytes_per_s=1e8), cpu_cores=0.5)
    profile = catalog_profile("t4").model_copy(update={"members": (member,), "host": "box"})
    devices = (DeviceSpec(profile=profile.save(tmp_path / "box.json")),)
    cluster = Cluster(hosts=(HostSpec(name="box", devices=devices, cpu_cores=cores),))
    made = make_plan(Job(graph=SPEC, model=ModelSpec(hidden_channels=16)), cluster, generate_sbm(SPEC))[0]
    text = shown(plan_table(made))
    assert ("box: cpu_cores 0.8, profiled with 0.5" in text) == (cores == 0.8)
    assert ("changed" in text) == (cores == 0.8)
    if cores == 0.8:
        assert {"loss", "optimizer"} <= set(made.prediction.unprofiled)
    else:
        assert "zero_grad" not in made.prediction.unprofiled


def test_profile_table_lists_every_operator():
    """Each with its largest shape and where its figure comes from."""
    profile = catalog_profile("rtx-3090")
    text = shown(profile_table(profile))
    for name in profile.operators:
        assert f" {name} " in text
    assert "scaled" in text
    assert profile.device_name in text


def test_plan_table_says_what_is_pruned(plan, pruned_plan):
    """Vertices and the share of the aggregation's entries, and that nobody knows the accuracy; else nothing."""
    text = " ".join(shown(plan_table(pruned_plan)).split())
    (of,) = (each.decision for each in pruned_plan.choices if each.technique == "pruning")
    assert "fidelity approximate" in text
    assert f"{of['num_vertices']:,} halo vertices, {of['vertex_share']:.1%} of them" in text
    assert f"{of['edge_share']:.2%} of the aggregation's edges" in text
    assert "halo vertices" not in shown(plan_table(plan))


@pytest.mark.long
def test_a_plan_with_regions_says_where_rows_are():
    """That hosts hold rows, and how much memory of each they take."""
    link = Link(bytes_per_s=1e6)
    devices = (DeviceSpec(catalog="t4", count=2),)
    pin = PinnedDecisions(refresh_interval=4, balance="equal", num_workers=2, dependencies="communicate")
    job = Job(graph=SPEC, model=ModelSpec(hidden_channels=16), fidelity="stale", pin=pin)
    for region_bytes in (2**24, 0):
        cluster = Cluster(hosts=(HostSpec(name="box", devices=devices, region_bytes=region_bytes),), device_link=link)
        plan = make_plan(job, cluster, generate_sbm(SPEC))[0]
        text, layouts = shown(plan_table(plan)), plan.region_layouts()
        assert list(layouts) == (["box"] if region_bytes else [])
        assert ("all of its workers read them from a region" in text) == bool(region_bytes)
        for layout in layouts.values():
            assert f"box {size(layout.num_bytes)}" in text


def test_a_stale_plan_says_so():
    """Its fidelity, how often halo rows travel, and what is sent in an epoch on average."""
    link = Link(bytes_per_s=1e6)
    cluster = Cluster(hosts=(HostSpec(name="box", devices=(DeviceSpec(catalog="t4", count=2),)),), device_link=link)
    pin = PinnedDecisions(refresh_interval=4, balance="speed", num_workers=2, dependencies="communicate")
    job = Job(graph=SPEC, model=ModelSpec(hidden_channels=16), fidelity="stale", pin=pin)
    plan = make_plan(job, cluster, generate_sbm(SPEC))[0]
    text = shown(plan_table(plan))
    assert "fidelity stale(4)" in text
    assert "kept, and refreshed every 4 epochs" in text
    assert size(plan.prediction.workers[0].sent_bytes / 4) in text


def test_shares_and_overlap_are_said():
    """A sentence each."""
    link = Link(bytes_per_s=1e6)
    cluster = Cluster(hosts=(HostSpec(name="box", devices=(DeviceSpec(catalog="t4", count=2),)),), device_link=link)
    for pin, words in (
        ({"balance": "speed", "overlap": True}, ("shares by speed", "Rows travel while workers compute.")),
        ({"balance": "equal", "overlap": False}, ("equal shares", "fidelity exact")),
    ):
        job = Job(graph=SPEC, model=ModelSpec(hidden_channels=16), pin=PinnedDecisions(num_workers=2, **pin))
        text = " ".join(shown(plan_table(make_plan(job, cluster, generate_sbm(SPEC))[0])).split())
        assert all(word in text for word in words)


def test_plan_table_says_how_workers_go_on_without_each_other():
    """And what epochs the weather of the job makes of it."""
    cluster = Cluster(hosts=(HostSpec(name="box", devices=(DeviceSpec(catalog="t4", count=3),)),))
    training = TrainingSpec(epochs=20, weather=SleepWeather(sleep_epochs=2.0))
    pin = PinnedDecisions(num_workers=3, partial_reduce=PartialReducePin(alpha=0.25, max_staleness=2))
    job = Job(graph=SPEC, training=training, fidelity="stale", pin=pin)
    made = make_plan(job, cluster, generate_sbm(SPEC))[0]
    text = shown(plan_table(made))
    assert "fidelity stale(3)" in text
    assert "until 1.25 times the usual, 2 workers may step, nothing is older than 2 epochs" in " ".join(text.split())
    assert f"mean epoch {seconds(made.prediction.weather.mean_epoch_s)}" in text
