"""What a run's folder holds before its workers are started, here or elsewhere."""

import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program_shard import ProgramShard
from gnnplan.planner.run import prepare_run
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError

GRAPH = SbmGraph(source="sbm", num_nodes=60, average_degree=6, num_classes=3, num_features=8)


@pytest.fixture
def plan_path(tmp_path):
    """Two workers on each of two hosts."""
    device = DeviceSpec(catalog="t4", count=2)
    cluster = Cluster(hosts=tuple(HostSpec(name=name, devices=(device,)) for name in ("left", "right")))
    pin, training = PinnedDecisions(num_workers=4), TrainingSpec(epochs=2)
    job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=8), pin=pin, training=training)
    api.plan(job, cluster, tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.long
def test_a_prepared_folder_is_all_that_workers_need(plan_path, tmp_path):
    """Every worker's share, the plan with its partition, a script for every host; an earlier run's trace is gone."""
    (tmp_path / "run").mkdir()
    for name in ("measured.json", "model.pt"):
        (tmp_path / "run" / name).write_text("of an earlier run")
    scripts = prepare_run(plan_path, tmp_path / "run")
    plan = Plan.load(tmp_path / "run" / "plan.json")
    assert plan == Plan.load(plan_path)
    partition = load_partition(plan, tmp_path / "run" / "plan.json")
    shards = [ProgramShard.load(tmp_path / "run" / "shards" / f"worker_{rank}.npz") for rank in range(4)]
    assert [len(shard.inputs["y"]) for shard in shards] == [int((partition.part == rank).sum()) for rank in range(4)]
    assert {host: path.name for host, path in scripts.items()} == {"left": "start_left.sh", "right": "start_right.sh"}
    assert (tmp_path / "run" / "model.pt").exists()
    assert not (tmp_path / "run" / "measured.json").exists()


def test_a_plan_of_another_graph_is_not_prepared(plan_path, tmp_path):
    """Nor are shards written."""
    other = api.load_graph(GRAPH.model_copy(update={"seed": 5}))
    with pytest.raises(UserError, match="graph"):
        prepare_run(plan_path, tmp_path / "run", graph=other)
    assert not (tmp_path / "run").exists()
