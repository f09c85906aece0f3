"""A plan that was edited is refused by the name of what was edited, from the plan alone or beside its graph."""

import json
import re
from itertools import chain

import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.difference import difference
from gnnplan.planner.run import prepare_run
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link

GRAPH = SbmGraph(source="sbm", num_nodes=60, average_degree=6, num_classes=3, num_features=8)


def planned(folder, **pinned):
    """A plan of three workers."""
    host = HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=3),))
    pin = PinnedDecisions(num_workers=3, dependencies="communicate", op_order="aggregate_first", **pinned)
    training = TrainingSpec(epochs=4)
    job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=8), training=training, fidelity=str(pin.needs[0]), pin=pin)
    api.plan(job, Cluster(hosts=(host,), device_link=Link(bytes_per_s=1e5)), folder / "plan.json")
    return folder / "plan.json"


@pytest.fixture(scope="module")
def stale(tmp_path_factory):
    """Of a plan that keeps rows for three epochs: its file."""
    return planned(tmp_path_factory.mktemp("stale"), refresh_interval=3)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Of a plan that aggregates the features once: its file."""
    return planned(tmp_path_factory.mktemp("exact"), precompute=True)


def fault_of(path, edit, folder):
    """What is said of the plan at `path` when it is run after an edit."""
    raw = json.loads(path.read_text())
    edit(raw)
    (folder / "plan.json").write_text(json.dumps(raw))
    (folder / path.with_suffix(".partition.npz").name).write_bytes(path.with_suffix(".partition.npz").read_bytes())
    with pytest.raises(UserError) as caught:
        prepare_run(folder / "plan.json", folder / "run")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def first(raw, kind):
    """The first operator of a kind in the first program of an epoch."""
    return next(op for op in raw["cycle"]["programs"][raw["cycle"]["order"][0]] if op["kind"] == kind)


def set_at(*path, to):
    """An edit that replaces one field."""

    def edit(raw):
        at = raw
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = to(at[path[-1]]) if callable(to) else to

    return edit


def swap_spaces(raw):
    """The shapes of two workers exchanged in every space."""
    for space in raw["cycle"]["spaces"].values():
        space["sizes"][0], space["sizes"][1] = space["sizes"][1], space["sizes"][0]
        if space["num_own"]:
            space["num_own"][0], space["num_own"][1] = space["num_own"][1], space["num_own"][0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (set_at("cycle", "order", to=lambda order: order[:1]), "prediction|cycle.order"),
        (set_at("cycle", "seed", to=7), "cycle.seed is 7, and should be 0"),
        (set_at("graph", "num_classes", to=9), "cycle.parameters"),
        (set_at("graph", "num_features", to=9), "num_features|cycle.parameters"),
        (set_at("graph", "num_nodes", to=61), "graph.num_nodes is 61, and workers own fewer rows"),
        (set_at("graph", "num_edges", to=1), "graph.num_edges is 1, and should be"),
        (set_at("job", "model", "hidden_channels", to=16), "cycle.parameters"),
        (set_at("job", "training", "learning_rate", to=0.5), "cycle.programs"),
        (set_at("prediction", "epoch_s", to=1e-9), "prediction.epoch_s"),
        (set_at("prediction", "workers", 1, "peak_bytes", to=1), "prediction.workers of worker 1.peak_bytes is 1"),
        (set_at("prediction", "unprofiled", to=["x"]), "prediction.unprofiled"),
        (lambda raw: first(raw, "step")["attributes"].update(learning_rate=0.5), "learning_rate is 0.5"),
        (lambda raw: first(raw, "exchange").update(lane="compute"), "lane|prediction"),
        (lambda raw: first(raw, "loss")["attributes"].update(denominator=1), "denominator is 1, and should be 36"),
        (swap_spaces, "routes|blocks|spaces"),
    ],
)
def test_an_edit_is_named(stale, tmp_path, edit, named):
    """With what stands there, and what should."""
    assert re.search(named, fault_of(stale, edit, tmp_path))


def test_send_counts_are_those_of_the_spaces(stale, tmp_path):
    """A row more is noticed without the graph, with its worker."""

    def edit(raw):
        route = next(iter(raw["cycle"]["routes"].values()))
        route["counts"][1][2] += 1

    assert re.search(r"routes\..* of worker 1", fault_of(stale, edit, tmp_path))


def test_what_varies_is_not_made_once(exact, tmp_path):
    """An aggregation of hidden rows that was moved before training is no choice's program, and no exact one."""

    def edit(raw):
        programs = raw["cycle"]["programs"]
        hidden = [op for op in programs["train"] if op["kind"] in ("aggregate", "exchange", "pack")]
        programs["setup"] += hidden[-1:]
        programs["train"].remove(hidden[-1])

    assert "cycle" in fault_of(exact, edit, tmp_path) or "programs" in fault_of(exact, edit, tmp_path)


def test_choices_that_repeat_one_program_are_exact(stale, exact, tmp_path):
    """A plan that calls itself exact plays one program in all epochs."""

    def edit(raw):
        raw["cycle"]["order"] *= 2

    assert "choices that are exact repeat one" in fault_of(exact, edit, tmp_path)


def test_equation_13_is_counted_on_the_graph(tmp_path):
    """Contributing vertices weigh the gradients of groups, so edited ones would train on wrong sums."""
    path = planned(tmp_path, partial_reduce=PartialReducePin())

    def edit(raw):
        decision = next(each["decision"] for each in raw["choices"] if each["technique"] == "partial_reduce")
        decision["contributing"][0][1] += 1
        for op in chain.from_iterable(raw["cycle"]["programs"].values()):
            if "contributing" in op["attributes"]:
                op["attributes"]["contributing"] = decision["contributing"]

    (tmp_path / "edited").mkdir()
    assert "partial_reduce: contributing[0][1]" in fault_of(path, edit, tmp_path / "edited")


def test_an_unedited_plan_is_sound(stale, exact):
    """Also after it was written and read again."""
    for path in (stale, exact):
        assert load_plan(path) == Plan.load(path)


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1.0}, {"a": 1.0 + 1e-12}, None),
        ({"a": [1, 2]}, {"a": [1, 3]}, "x.a[1] is 2, and should be 3"),
        ({"sizes": [1, 2]}, {"sizes": [1, 3]}, "x.sizes of worker 1 is 2, and should be 3"),
        ({"a": [1]}, {"a": [1, 3]}, "x.a has 1 entries, and should have 2"),
        ({}, {"a": 1}, "x.a is missing"),
        ({"a": 1}, {}, "x.a should not be there"),
        ({"a": True}, {"a": 1}, "x.a is True, and should be 1"),
    ],
)
def test_a_difference_has_a_name(found, wanted, words):
    """The field's path, and worker where there is one."""
    assert difference(found, wanted, "x") == words
