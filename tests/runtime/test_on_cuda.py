"""What one worker trains on a GPU is what PyG trains in one process: every model, and rows outside."""

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.run import prepare_run
from gnnplan.planner.run_files import MEASURED_FILE
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.reference import train_reference
from gnnplan.runtime.worker import RunOptions, run_worker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GRAPH = SbmGraph(
    source="sbm", num_nodes=3000, average_degree=12, num_classes=5, num_features=40, feature_signal=3.0, seed=1
)
EPOCHS = 20
IN_CHUNKS = {"destination_chunks": {"num_chunks": 3}}
OUTSIDE = PinnedDecisions(precompute=False, techniques={"offload": True}, decisions=IN_CHUNKS)


def trained(folder, monkeypatch, kind, pin):
    """The plan of one worker on a published device, and what it measured here; in this process."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=32, heads=2, num_hops=2)
    job = Job(schema_version=1, graph=GRAPH, model=model, training=TrainingSpec(epochs=EPOCHS, seed=2), pin=pin)
    cluster = Cluster(schema_version=1, hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="h200"),)),))
    plan = api.plan(job, cluster, folder / "plan.json")
    prepare_run(folder / "plan.json", folder / "run")
    for key, value in {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}.items():
        monkeypatch.setenv(key, str(value))
    run_worker(folder / "plan.json", folder / "run", RunOptions(timeout_s=60))
    return plan, Trace.load(folder / "run" / MEASURED_FILE)


def worst_difference(losses, job):
    """Of losses from those of PyG, relative."""
    _, right = train_reference(load_graph(job.graph), job.model, job.training)
    return max(abs(ours - theirs) / abs(theirs) for ours, theirs in zip(losses, right, strict=True))


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "tagcn", "sgc", "appnp", "decoupled_gat"])
def test_losses_are_those_of_pyg(tmp_path, monkeypatch, kind):
    """In float32; its sums have another order, which twenty steps make something of."""
    plan, measured = trained(tmp_path, monkeypatch, kind, PinnedDecisions())
    assert worst_difference(measured.losses, plan.job) < 1e-4
    predicted = api.simulate(plan)
    assert {span.task for span in predicted.spans} == {span.task for span in measured.spans}
    assert measured.peak_bytes[0] > 0


@pytest.mark.parametrize("kind", ["gcn", "sage"])
def test_rows_of_the_host_change_no_loss(tmp_path, monkeypatch, kind):
    """With rows of vertices in the memory of the host, in three chunks."""
    plan, measured = trained(tmp_path, monkeypatch, kind, OUTSIDE)
    assert {"offload", "destination_chunks"} <= {choice.technique for choice in plan.choices}
    assert worst_difference(measured.losses, plan.job) < 1e-4
