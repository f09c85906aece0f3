"""A plan of choices is one document with arrays beside it, and what was edited in either is refused."""

import json

import numpy as np
import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition, load_partition, save_plan
from gnnplan.planner.run import write_shards
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link

GRAPH = SbmGraph(source="sbm", num_nodes=60, average_degree=6, num_classes=3, num_features=8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plan that keeps rows, so that several techniques have arrays."""
    folder = tmp_path_factory.mktemp("plan")
    host = HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=2),))
    pin = PinnedDecisions(
        num_workers=2, refresh_interval=3, precompute=False, op_order="aggregate_first", dependencies="communicate"
    )
    model = ModelSpec(hidden_channels=8)
    job = Job(graph=GRAPH, model=model, training=TrainingSpec(epochs=2), fidelity="stale", pin=pin)
    plan = api.plan(job, Cluster(hosts=(host,), device_link=Link(bytes_per_s=1e5)), folder / "plan.json")
    return plan, load_partition(plan, folder / "plan.json"), folder


def test_it_reads_as_it_was_written(made):
    """Document and arrays, to the fingerprint."""
    plan, partition, folder = made
    assert Plan.load(folder / "plan.json") == plan
    assert sorted(partition.chosen) == ["feature_cache/kept", "halo_exchange/part", "joint_cache/kept"]
    assert partition.digest() == plan.partition_sha256
    np.testing.assert_array_equal(partition.part, partition.chosen["halo_exchange/part"])
    assert plan.fidelity == "stale(3)"
    assert plan.refresh_interval == 3


def test_what_is_cut_is_what_the_plan_says(made, tmp_path):
    """Shards are written, since the choices make the plan's own program again."""
    plan, partition, _ = made
    write_shards(plan, api.load_graph(GRAPH), partition, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first_weights.pt", "worker_0.npz", "worker_1.npz"]


def edited(raw, technique, **decision):
    """The document with another decision of a technique."""
    for chosen in raw["choices"]:
        if chosen["technique"] == technique:
            chosen["decision"].update(decision)
    return raw


@pytest.mark.parametrize(
    ("edit", "wanted"),
    [
        (lambda raw: raw["choices"].pop(), "joint_cache|no technique says|needs"),
        (lambda raw: raw["choices"].append(raw["choices"][0]), "chosen 2 times"),
        (lambda raw: raw["choices"].append({"technique": "magic"}), "'magic' is not known"),
        (lambda raw: edited(raw, "joint_cache", interval=0), "joint_cache: "),
        (lambda raw: edited(raw, "joint_cache", surprise=1), "joint_cache: "),
        (lambda raw: raw["job"].update(fidelity="exact"), "fidelity"),
        (lambda raw: raw["prediction"]["workers"].pop(), "prediction.workers must have 2 workers"),
    ],
)
def test_an_edited_document_is_one_line(made, tmp_path, edit, wanted):
    """Whoever edits it learns which part is wrong; no traceback, and nothing is trained on it."""
    plan, partition, _ = made
    raw = json.loads(plan.model_dump_json())
    edit(raw)
    (tmp_path / "plan.json").write_text(json.dumps(raw))
    with pytest.raises(UserError) as caught:
        write_shards(Plan.load(tmp_path / "plan.json"), api.load_graph(GRAPH), partition, tmp_path / "shards")
    assert "\n" not in str(caught.value)
    if "|" not in wanted:
        assert wanted in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "wanted"),
    [
        ("halo_exchange/part", lambda a: a.astype(np.float32), "part must be int32"),
        ("halo_exchange/part", lambda a: a[:-1], "part must be int32"),
        ("halo_exchange/part", lambda a: a + 1, "part must name workers 0 to 1"),
        ("halo_exchange/part", lambda a: 1 - a, "was edited"),
        ("joint_cache/kept", lambda a: a.astype(np.int64), "must be int32"),
        ("joint_cache/kept", lambda a: a[:2], "must be int32"),
        ("joint_cache/kept", lambda a: a + 100, "has rows beyond"),
        ("joint_cache/kept", lambda a: -a, "has rows beyond"),
        ("feature_cache/kept", lambda a: a[:, ::2], "was edited"),
    ],
)
def test_edited_arrays_make_no_shards(made, tmp_path, name, change, wanted):
    """Also where whoever edited them wrote their digest into the plan."""
    plan, partition, _ = made
    other = Partition({**partition.chosen, name: change(partition.chosen[name])})
    plan = plan.model_copy(update={"partition_sha256": other.digest()})
    save_plan(plan, other, tmp_path / "plan.json")
    loaded = load_partition(plan, tmp_path / "plan.json")
    with pytest.raises(UserError, match=wanted):
        write_shards(plan, api.load_graph(GRAPH), loaded, tmp_path / "shards")


def test_arrays_of_another_plan_are_refused(made, tmp_path):
    """By their digest; by their names where that was edited too."""
    plan, partition, _ = made
    fewer = Partition({name: a for name, a in partition.chosen.items() if "joint" not in name})
    save_plan(plan, fewer, tmp_path / "plan.json")
    with pytest.raises(UserError, match="not the partition this plan was made with"):
        load_partition(plan, tmp_path / "plan.json")
    edited_plan = plan.model_copy(update={"partition_sha256": fewer.digest()})
    with pytest.raises(UserError, match="not the partition this plan was made with"):
        load_partition(edited_plan, tmp_path / "plan.json")
