"""A technique of another package is planned by the search, simulated, run on two workers and compared.

No line of the product knows it: it is installed beside it as pip would, for the planner and for the workers alike.
"""

import os
from pathlib import Path

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.tables import plan_table
from gnnplan.planner.techniques.registry import GROUP, techniques
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.report.test_tables import shown

ROOT = Path(__file__).parents[2]
GRAPH = SbmGraph(source="sbm", num_nodes=120, average_degree=8, num_classes=3, num_features=12, seed=3)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The toy of `tests.planner.toy_replicate`, for this process and for those that it starts."""
    metadata = tmp_path / "toy-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\ntoy = tests.planner.toy_replicate:Replicate\n")
    monkeypatch.syspath_prepend(tmp_path)
    beside = [str(tmp_path), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(beside))
    techniques.cache_clear()
    yield
    monkeypatch.undo()
    techniques.cache_clear()


def planned(folder, num_workers):
    """A GCN on devices of one host that exchange a megabyte a second: whoever sends rows waits for them."""
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(folder / "cpu.json")
    host = HostSpec(name="here", devices=(DeviceSpec(profile=folder / "cpu.json", count=2),))
    cluster = Cluster(schema_version=1, hosts=(host,), device_link=Link(bytes_per_s=1e6))
    job = Job(
        schema_version=1,
        graph=GRAPH,
        model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=8),
        training=TrainingSpec(epochs=4),
        pin=PinnedDecisions(num_workers=num_workers, dependencies="communicate"),  # no replicas of ours
    )
    return api.plan(job, cluster, folder / f"plan{num_workers}.json")


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.usefixtures("installed")
def test_a_strangers_technique_is_planned_run_and_compared(tmp_path):
    """The search chooses it, since it sends no rows; what runs is what was simulated, and it is exact."""
    plan, alone = planned(tmp_path, 2), planned(tmp_path, 1)
    assert "replicate" in {chosen.technique for chosen in plan.choices}
    assert plan.fidelity == "exact"
    assert 0 < plan.prediction.bound_s <= plan.prediction.epoch_s
    assert "Every worker trains on the whole graph." in shown(plan_table(plan))
    predicted = api.simulate(plan)
    measured = api.run(tmp_path / "plan2.json", tmp_path / "two", timeout_s=60)
    for worker in (0, 1):
        keys = sorted(span.task for span in predicted.spans if span.worker == worker)
        for epoch in {span.epoch for span in measured.spans}:
            assert keys == sorted(s.task for s in measured.spans if s.worker == worker and s.epoch == epoch)
    assert measured.sent_bytes == predicted.sent_bytes == (0, 0)
    assert api.compare(predicted, measured).figure("epoch").measured > 0
    single = api.run(tmp_path / "plan1.json", tmp_path / "one", timeout_s=60)
    assert alone.num_workers == 1
    assert measured.losses == pytest.approx(single.losses, rel=1e-5)
    models = [torch.load(tmp_path / name / "model.pt", weights_only=True) for name in ("one", "two")]
    for name, value in models[0].items():
        torch.testing.assert_close(models[1][name], value, rtol=1e-4, atol=1e-6)


def test_without_the_package_its_plan_is_refused(installed, tmp_path, monkeypatch):
    """In one line that names what is missing."""
    planned(tmp_path, 2)
    techniques.cache_clear()
    monkeypatch.setattr("gnnplan.planner.techniques.registry.entry_points", lambda group: ())
    with pytest.raises(UserError, match="technique 'replicate' is not known"):
        Plan.load(tmp_path / "plan2.json")
