"""On a terminal of 80 columns no table loses a figure, and what was disturbed is said."""

import io
import re

import numpy as np
import pytest
from matplotlib import image
from rich.console import Console

from gnnplan.planner.cluster import Cluster
from gnnplan.planner.compare import compare
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.money import Choice
from gnnplan.planner.report.choices import choice_facts, choices_table
from gnnplan.planner.report.disturbance import profile_was_disturbed, run_was_disturbed
from gnnplan.planner.report.partition import edges_between, write_partition_picture
from gnnplan.planner.report.tables import (
    comparison_table,
    fluctuation_note,
    plan_table,
    profile_table,
    trace_table,
)
from gnnplan.planner.search import make_plan, simulate_plan
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Anchor

HOST = "a-host-with-quite-a-long-name.somewhere.example.org"
SPEC = SbmGraph(source="sbm", num_nodes=4000, average_degree=9, num_classes=3, num_features=64)
GRAPH = generate_sbm(SPEC)


@pytest.fixture(scope="module")
def made():
    """A plan for two devices of a host whose name is long, with its partition."""
    host = {"name": HOST, "price_per_hour": 3.0, "devices": [{"catalog": "t4", "count": 2}]}
    job = Job(graph=SPEC, pin={"num_workers": 2})
    return make_plan(job, Cluster.model_validate({"hosts": [host]}), GRAPH)


@pytest.fixture(scope="module")
def comparison(made):
    """Of a run that took 1,234 times as long, disturbed."""
    predicted = simulate_plan(made[0], 100)
    changes = {"origin": "measured", "epoch_s": (123.456,) * 5, "others_share": 0.4, "accuracy": {"test": 0.7}}
    return compare(predicted, predicted.model_copy(update=changes))


def shown(table, width):
    """The table as text of so many columns."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(table)
    return console.file.getvalue()


def figures(text):
    """Every number with its unit, in any order; words may have moved to the next line."""
    return sorted(re.findall(r"\d[\d,.]*", text.replace("\n", " ")))


@pytest.mark.long
@pytest.mark.parametrize("what", ["plan", "trace", "comparison", "profile", "choices"])
def test_eighty_columns_lose_no_figure(what, made, comparison):
    """What is shown on a very wide terminal is shown on a narrow one."""
    plan, _ = made
    choices = [Choice("a-cluster-with-quite-a-long-name-too", plan), Choice("tiny", None, "no plan fits")]
    tables = {
        "plan": plan_table(plan),
        "trace": trace_table(simulate_plan(plan, 100)),
        "comparison": comparison_table(comparison),
        "profile": profile_table(catalog_profile("t4")),
        "choices": choices_table(choices),
    }
    narrow = shown(tables[what], 80)
    assert figures(narrow) == figures(shown(tables[what], 400))
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80


def test_the_same_epoch_everywhere(made, comparison):
    """The plan's table, the simulation's and the comparison's show one figure for what is predicted."""
    plan, _ = made
    predicted = simulate_plan(plan, 1000)
    assert plan.prediction.expected_epoch_s == predicted.expected_epoch_s
    assert plan.prediction.fluctuating == predicted.fluctuating


def test_considered_has_no_row_twice(made):
    """By its words."""
    summaries = [candidate.summary for candidate in made[0].considered]
    assert len(set(summaries)) == len(summaries) > 1


def test_figures_of_a_catalog_are_not_called_measured(made):
    """Nobody measured them, and nothing fluctuates."""
    plan, _ = made
    note = fluctuation_note(plan, simulate_plan(plan, 10), 10)
    assert "measured" not in note
    assert "published or scaled" in note


def test_the_assumed_link_is_said(made):
    """Two devices share a host, and the cluster names no link between them."""
    assert "GB/s between devices of a host is assumed" in shown(plan_table(made[0]), 400)


def test_dollars_are_of_the_job(made):
    """Epochs times seconds times the price of the host, and what is left of the memory."""
    plan, _ = made
    facts = choice_facts(Choice("a", plan))
    assert facts["job_s"] == pytest.approx(100 * plan.prediction.expected_epoch_s)
    assert facts["dollars"] == pytest.approx(facts["job_s"] * 3.0 / 3600)
    most = max(load.peak_bytes / load.capacity_bytes for load in plan.prediction.workers)
    assert facts["memory_left_share"] == pytest.approx(1 - most)


def test_disturbed_runs_say_so(comparison):
    """With the share; quiet ones say nothing."""
    assert "other programs used 40% of the machine's processor time" in shown(comparison_table(comparison), 400)
    assert run_was_disturbed(0.01, 0.01) == []
    assert len(run_was_disturbed(0.5, 0.5)) == 2


def test_disturbed_profiles_say_so(made):
    """In their own table, and in that of every plan that rests on them."""
    anchors = [Anchor(operator="gemm", shape=(1.0,), first_s=1e-3, again_s=s) for s in (1.2e-3, 2e-3, 0.5e-3)]
    profile = catalog_profile("t4").model_copy(update={"others_share": 0.3, "anchors": tuple(anchors)})
    load, drift = profile_was_disturbed(profile)
    assert "used 30% of the processor time" in load
    assert "2 of 3 points took another time at its end (gemm: 1 ms, then 2 ms)" in drift
    placement = made[0].placement.model_copy(update={"profiles": dict.fromkeys(made[0].placement.profiles, profile)})
    assert "drifted" in shown(plan_table(made[0].model_copy(update={"placement": placement})), 400)
    assert profile_was_disturbed(catalog_profile("t4")) == []


def test_edges_are_counted_from_owner_to_owner():
    """Rows are where edges begin."""
    counts = edges_between(np.array([0, 0, 1], np.int32), np.array([[0, 0, 2, 1], [1, 2, 2, 2]]), 2)
    assert counts.tolist() == [[1, 2], [0, 1]]


def test_the_partition_is_a_picture(made, tmp_path):
    """Wide enough for its three parts, with own vertices and memory in their colours."""
    plan, partition = made
    path = write_partition_picture(tmp_path / "partition.png", plan, partition, GRAPH)
    pixels = (image.imread(path)[..., :3] * 255).round().astype(np.uint8)
    assert pixels.shape[1] > 1000
    for color in ((0x44, 0x77, 0xAA), (0xDD, 0xDD, 0xDD)):
        assert (pixels == np.array(color, np.uint8)).all(-1).any()
