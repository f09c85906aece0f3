"""A training as it is planned, to be played by either executor."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import MemoryGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import cycle_of
from gnnplan.runtime.reference import dense_features

NODES = 120
LAYOUTS = [(1, {}), (3, {"halo_exchange": True}), (2, {"feature_slices": True}), (4, {"halo_exchange": True})]


def graph_of(labels):
    """Of classes, label sets, or targets of three columns."""
    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=NODES, average_degree=6, num_features=12, num_classes=3))
    rng = np.random.default_rng(0)
    if labels == "sets":
        return replace(graph, y=(rng.random((NODES, 3)) < 0.4).astype(np.float32))
    if labels == "targets":
        return replace(graph, y=rng.standard_normal((NODES, 3)).astype(np.float32))
    return graph


@dataclass
class Planned:
    """A cycle with arrays, what every worker has of the inputs, and the module's own parameters."""

    cycle: object
    inputs: dict
    start: dict

    def executor(self):
        """In float64, all workers in one process."""
        return SequentialExecutor(self.cycle, self.inputs, self.start)

    @property
    def loss(self):
        """The name of what the loss of an epoch is."""
        (found,) = self.cycle.results & {"loss", "total_loss"}
        return found


def planned(module, graph, training, num_workers, pins, folder):
    """What the search makes of a module's training, on workers that are alike."""
    cluster = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=num_workers),)),))
    pin = PinnedDecisions(num_workers=num_workers, techniques=pins)
    job = Job(graph=MemoryGraph(), model=ModelSpec(kind="module").holding(module), training=training, pin=pin)
    plan = api.plan(job, cluster, folder / "plan.json", graph=graph)
    cycle = cycle_of(plan, graph, load_partition(plan, folder / "plan.json"))
    x, y, ids = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.y), cycle.arrays.ids
    labels = [y[each] if y.dim() == 2 else y[each][:, None] for each in ids[cycle.values["y"].space]]
    inputs = {"x": [x[each] for each in ids["v@0"]], "y": labels}
    return Planned(cycle, inputs, matrices_of(module, cycle))
