"""A plan on disk is the plan that was made, and any other graph, partition or version is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import GraphFacts, Plan
from gnnplan.planner.plan_files import load_partition, save_plan
from gnnplan.planner.search import make_plan, named, simulate_plan
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link

SPEC = SbmGraph(source="sbm", num_nodes=80, average_degree=6, num_classes=3, num_features=10)
GRAPH = generate_sbm(SPEC)


@pytest.fixture(scope="module")
def made():
    """A plan for two workers and its partition."""
    cluster = Cluster(hosts=(HostSpec(name="a", devices=(DeviceSpec(catalog="t4", count=2),)),))
    pin = PinnedDecisions(num_workers=2, dependencies="communicate")
    return make_plan(Job(graph=SPEC, model=ModelSpec(hidden_channels=16), pin=pin), cluster, GRAPH)


@pytest.fixture
def saved(made, tmp_path):
    """The path of the plan on disk, its partition beside it."""
    path = tmp_path / "plan.json"
    plan, partition = made
    return save_plan(named(plan, path), partition, path)


@pytest.fixture
def saved_pruned(tmp_path):
    """The path of a plan whose halos are pruned: of two equal devices the one behind a narrow link alone has one."""
    hosts = [
        HostSpec(name=f"h{rate}", devices=(DeviceSpec(catalog="t4"),), link=Link(bytes_per_s=rate))
        for rate in (1e8, 1e6)
    ]
    pin = PinnedDecisions(
        prune="rapa", balance="equal", partitioner="ranges", num_workers=2, dependencies="communicate"
    )
    job = Job(graph=SPEC, model=ModelSpec(hidden_channels=16), fidelity="approximate", pin=pin)
    path = tmp_path / "plan.json"
    graph = replace(GRAPH, edge_index=GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]])
    plan, partition = make_plan(job, Cluster(hosts=tuple(hosts)), graph)
    return save_plan(named(plan, path), partition, path)


def fault(call, *arguments):
    """The one line of a UserError."""
    with pytest.raises(UserError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_save_and_load_round_trip(made, saved):
    """Plan and partition read back equal those written."""
    plan, partition = made
    loaded = Plan.load(saved)
    assert loaded == named(plan, saved)
    assert loaded.fingerprint() == named(plan, saved).fingerprint()
    read = load_partition(loaded, saved)
    np.testing.assert_array_equal(read.part, partition.part)
    assert read.part.dtype == np.int32
    assert read.chosen.keys() == partition.chosen.keys()


def test_only_plan_and_partition_are_written(saved):
    """No temporary file is left beside them."""
    assert sorted(path.name for path in saved.parent.iterdir()) == ["plan.json", "plan.partition.npz"]


def test_a_loaded_plan_simulates_as_predicted(saved):
    """The plan alone is enough to play its epoch again."""
    plan = Plan.load(saved)
    trace = simulate_plan(plan)
    assert trace.epoch_s == (plan.prediction.epoch_s,)
    assert trace.plan_fingerprint == plan.fingerprint()


def test_moving_both_files_together_is_allowed(saved, tmp_path):
    """The partition is found beside the plan, wherever that is."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("plan.json", "plan.partition.npz"):
        (tmp_path / name).rename(folder / name)
    assert len(load_partition(Plan.load(folder / "plan.json"), folder / "plan.json").part) == 80


def test_its_own_graph_is_accepted(made):
    """A graph drawn again from the same seed is the same graph."""
    made[0].check_graph(generate_sbm(SPEC))
    made[0].check_graph(replace(GRAPH, name="renamed"))


@pytest.mark.parametrize("change", ["edges", "features", "labels", "split"])
def test_another_graph_is_a_user_error(made, change):
    """Both graphs are named, with what to do."""
    other = {
        "edges": {"edge_index": GRAPH.edge_index[:, :-1]},
        "features": {"x": GRAPH.x + 1},
        "labels": {"y": (GRAPH.y + 1) % 3},
        "split": {"train_mask": ~GRAPH.train_mask},
    }[change]
    text = fault(made[0].check_graph, replace(GRAPH, name="other", **other))
    assert "was made for graph sbm" in text
    assert GRAPH.fingerprint in text
    assert "make a new plan" in text


def other_partition(path, part):
    """Another partition in place of the plan's."""
    np.savez(path, **{"halo_exchange/part": part})


DAMAGE = {
    "missing": (lambda path: path.unlink(), "partition is missing; keep it beside the plan"),
    "empty": (lambda path: path.write_bytes(b""), "not a partition file"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-30]), "not a partition file"),
    "text": (lambda path: path.write_text("part"), "not a partition file"),
    "flipped": (lambda path: path.write_bytes(bytes(b ^ 0xFF for b in path.read_bytes())), "not a partition file"),
    "other key": (lambda path: np.savez(path, part=np.zeros(80, np.int32)), "not the partition this plan"),
    "pickled": (lambda path: other_partition(path, np.array([{}], dtype=object)), "not a partition file"),
    "a bare array": (lambda path: np.save(path.open("wb"), np.zeros(80, np.int32)), "not a partition file"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read as a partition file"),
    "other size": (lambda path: other_partition(path, np.zeros(79, np.int32)), "not the partition this plan"),
    "other shape": (lambda path: other_partition(path, np.zeros((80, 1), np.int32)), "not the partition this plan"),
    "other owners": (lambda path: other_partition(path, np.zeros(80, np.int32)), "not the partition this plan"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_missing_or_damaged_partition_is_a_user_error(damage, saved):
    """Whatever is wrong with the partition, one line names its file."""
    path = saved.with_name("plan.partition.npz")
    destroy, wanted = DAMAGE[damage]
    destroy(path)
    text = fault(load_partition, Plan.load(saved), saved)
    assert text.startswith(f"{path}: ")
    assert wanted in text


def test_flipped_bytes_inside_the_array_are_found(saved):
    """A damaged compressed stream is no other partition but a damaged file."""
    path = saved.with_name("plan.partition.npz")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle - 8 : middle + 8] = bytes(16)
    path.write_bytes(data)
    assert str(path) in fault(load_partition, Plan.load(saved), saved)


def at(raw, *keys):
    """The value deep in a decoded document."""
    for key in keys:
        raw = raw[key]
    return raw


EDITS = {
    "other version": (
        lambda raw: raw.update(schema_version=1),
        "version: gnnplan plan JOB CLUSTER -o PLAN",
    ),
    "no version": (lambda raw: raw.pop("schema_version"), "schema_version is missing"),
    "other kind": (lambda raw: raw.update(kind="trace"), "this is a 'trace' file, a 'plan' file is needed"),
    "unknown key": (lambda raw: raw.update(foo=1), "foo: unknown key"),
    "of an older version": (lambda raw: raw.update(decision={}), "decision: unknown key"),
    "missing key": (lambda raw: raw.pop("cycle"), "cycle: "),
    "no choices": (lambda raw: raw.update(choices=[]), "choices: "),
    "no workers": (
        lambda raw: at(raw, "placement").update(workers=[]),
        "placement.workers: Tuple should have at least 1",
    ),
    "a load missing": (lambda raw: at(raw, "prediction", "workers").pop(), "prediction.workers must have 2 workers"),
    "profile missing": (lambda raw: at(raw, "placement").update(profiles={}), "placement.profiles lacks t4@"),
    "NaN": (lambda raw: at(raw, "prediction").update(epoch_s=float("nan")), "prediction.epoch_s"),
    "negative bytes": (lambda raw: at(raw, "prediction", "workers", 0).update(peak_bytes=-1), "peak_bytes"),
    "text for a number": (lambda raw: at(raw, "graph").update(num_nodes="many"), "graph.num_nodes"),
}


@pytest.mark.long
@pytest.mark.parametrize("edit", EDITS)
def test_every_inconsistency_is_one_line(edit, saved):
    """A plan edited by hand is checked in full before it is used."""
    raw = json.loads(saved.read_text())
    change, wanted = EDITS[edit]
    change(raw)
    saved.write_text(json.dumps(raw))
    text = fault(Plan.load, saved)
    assert text.startswith(f"{saved}: ")
    assert wanted in text


def test_gap_is_simulated_over_bound(made):
    """The gap is what is printed with every plan."""
    prediction = made[0].prediction
    assert prediction.gap == pytest.approx(prediction.epoch_s / prediction.bound_s - 1)
    assert prediction.model_copy(update={"bound_s": 0.0}).gap == 0.0


def test_facts_are_the_graphs():
    """What the plan remembers of the graph is read off it."""
    facts = GraphFacts.of(GRAPH)
    assert (facts.num_nodes, facts.num_edges) == (80, GRAPH.num_edges)
    assert (facts.num_features, facts.num_classes) == (10, 3)
    assert facts.fingerprint == GRAPH.fingerprint


def test_a_failed_write_leaves_nothing(made, tmp_path):
    """Where the plan cannot be written there is neither plan nor partition nor temporary file."""
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "plan.json"
    plan, partition = made
    assert "cannot be written" in fault(save_plan, named(plan, path), partition, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_pruned_plans_say_what_they_prune(saved_pruned):
    """`approximate`, with the rows in the partition file and their number in the plan; the fast worker keeps all."""
    plan = Plan.load(saved_pruned)
    rows = load_partition(plan, saved_pruned).chosen["pruning/dropped"]
    assert plan.fidelity == "approximate"
    assert set(rows[1].tolist()) == {1}
    (decision,) = (each.decision for each in plan.choices if each.technique == "pruning")
    assert decision["num_edges"] >= decision["num_vertices"] == len(set(rows[2].tolist())) > 0
    assert simulate_plan(plan).epoch_s == (plan.prediction.epoch_s,)


@pytest.mark.long
@pytest.mark.parametrize("change", ["left out", "one less", "other shape", "other worker"])
def test_other_pruned_rows_are_refused(change, saved_pruned):
    """They belong to the plan as the vertices' owners do."""
    plan = Plan.load(saved_pruned)
    arrays = dict(load_partition(plan, saved_pruned).chosen)
    held = arrays.pop("pruning/dropped")
    changed = {
        "left out": None,
        "one less": held[:, 1:],
        "other shape": held.ravel(),
        "other worker": held * np.array([[1], [0], [1]], np.int32),
    }[change]
    if changed is not None:
        arrays["pruning/dropped"] = changed
    np.savez(saved_pruned.with_name(plan.partition_file), **arrays)
    assert "not the partition this plan" in fault(load_partition, plan, saved_pruned)


def test_pruning_must_be_allowed(saved_pruned):
    """A plan edited by hand cannot drop edges under the name of an exact one."""
    raw = json.loads(saved_pruned.read_text())
    raw["job"].update(fidelity="exact")
    raw["job"]["pin"].update(prune="none")
    saved_pruned.write_text(json.dumps(raw))
    assert "pruning" in fault(Plan.load, saved_pruned)
