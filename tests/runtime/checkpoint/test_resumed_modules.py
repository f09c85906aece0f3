"""A run of a module of one's own that goes on, running statistics of a batch norm among what is kept."""

import shutil

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.checkpoints import checkpoints_in
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.training_spec import TrainingSpec
from tests import warm
from tests.runtime.checkpoint.jobs import GRAPH, same_bits, two_workers, weights

pytestmark = pytest.mark.distributed
MODULE = """
import torch
from torch_geometric.nn import GCNConv

class Net(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv1, self.norm = GCNConv(num_features, 8), torch.nn.BatchNorm1d(8)
        self.conv2 = GCNConv(8, num_classes)

    def forward(self, x, edge_index):
        return self.conv2(torch.relu(self.norm(self.conv1(x, edge_index))), edge_index)

def build(num_features, num_classes):
    return Net(num_features, num_classes)
"""


def planned(folder, num_workers=2):
    """A plan of a module with a batch norm."""
    (folder / "net.py").write_text(MODULE)
    job = Job(
        graph=GRAPH,
        model={"kind": "module", "build": str(folder / "net.py:build")},
        training=TrainingSpec(epochs=12, seed=2),
        pin=PinnedDecisions(dependencies="communicate", num_workers=num_workers, balance="speed"),
    )
    return api.plan(job, two_workers(folder), folder / f"plan_{num_workers}.json")


@pytest.mark.long
def test_it_has_the_weights_and_statistics_of_one_that_never_stopped(tmp_path):
    """Bit for bit, and as many batches tracked as epochs; up to rounding where one worker goes on instead of two."""
    plan = planned(tmp_path)
    with warm.runs():
        api.run(plan, tmp_path / "run", timeout_s=60, checkpoint_every=5)
        shutil.copytree(tmp_path / "run", tmp_path / "whole")
        assert 0 < checkpoints_in(tmp_path / "run")[0][0].epoch < 12
        shutil.copytree(tmp_path / "run", tmp_path / "other")
        api.run(plan, tmp_path / "run", timeout_s=60, resume=True)
        api.run(planned(tmp_path, 1), tmp_path / "other", timeout_s=60, resume=True)
    assert same_bits(tmp_path / "whole", tmp_path / "run")
    trained = weights(tmp_path / "run")
    assert int(trained["norm.num_batches_tracked"]) == 12
    assert not torch.equal(trained["norm.running_mean"], torch.zeros(8))
    other = weights(tmp_path / "other")
    for name in ("norm.running_var", "norm.weight", "conv2.lin.weight"):  # a bias before a norm has no gradient
        assert torch.allclose(other[name], trained[name], rtol=1e-3, atol=1e-4), name
