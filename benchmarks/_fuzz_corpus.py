"""What is mutated: sound documents and graphs, and what is known to have gone wrong once."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan_files import Partition, load_partition
from gnnplan.planner.sweep.contract import Machines, ModelAxes, Sweep, SweptDevice
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link, MachineProfile

GRAPH = SbmGraph(source="sbm", num_nodes=60, average_degree=6, num_classes=3, num_features=8)
SWEEP = Sweep(
    device={
        "t4": SweptDevice(price_per_hour=0.3, watts=70),
        "next": SweptDevice(memory_bytes=10**11, flops_per_s=8e13, memory_bytes_per_s=8e12, link_bytes_per_s=1.28e11),
    },
    machines=(Machines(devices=("t4", "next"), per_host=(1, 2), hosts=(1, 2), cores_per_host=(4,)),),
    model=ModelAxes(hidden_channels=(8,)),
)
EDITS: tuple[tuple[str, tuple, Any], ...] = (
    ("cluster", ("hosts", 0, "count"), 10**6),
    ("cluster", ("hosts", 0, "devices", 0, "count"), 2**62),
    ("cluster", ("hosts", 0, "name"), "../a b"),
    ("cluster", ("hosts", 0, "name"), "a\0b"),
    ("cluster", ("device_link", "bytes_per_s"), 1e308),
    ("cluster", ("device_link", "latency_s"), -1.0),
    ("job", ("model", "num_layers"), 2000),
    ("job", ("model", "num_hops"), 10**9),
    ("job", ("model", "hidden_channels"), 2**62),
    ("job", ("graph", "num_nodes"), 2**62),
    ("job", ("graph", "num_nodes"), 2**31 - 2),
    ("job", ("graph", "num_features"), 2**40),
    ("job", ("graph", "average_degree"), 1e308),
    ("job", ("graph", "degree_exponent"), 1.0000001),
    ("job", ("training", "epochs"), 10**12),
    ("job", ("graph",), {"source": "npz", "path": "a\0b"}),
    ("job", ("graph",), {"source": "npz", "path": "/dev/zero"}),
    ("job", ("graph",), {"source": "edge_list", "path": "/dev/zero", "synthetic_feature_width": 4}),
    ("profile", ("host_overhead_s",), 1e300),
    ("profile", ("memory_bytes",), 2**62),
    ("trace", ("spans", 0, "worker"), 10**6),
    ("trace", ("spans", 0, "end_s"), -1.0),
    ("trace", ("epoch_s",), [0.0]),
    ("plan", ("partition_file",), "../outside.npz"),
    ("plan", ("partition_file",), "a\0b"),
    ("plan", ("placement", "workers", 0, "host"), "a/b"),
    ("plan", ("cycle", "num_workers"), 10**6),
)
"""(kind, path, value) of one field of a sound document, which once hung, took all memory, or ended in a traceback."""


class Corpus:
    """Sound documents as JSON objects by kind, and sound graph files, in a folder.

    Args:
        folder: of the files, made here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        host = HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=3),))
        self.cluster = Cluster(hosts=(host,), device_link=Link(bytes_per_s=1e5))
        pin = PinnedDecisions(num_workers=3, dependencies="communicate", refresh_interval=3)
        training = TrainingSpec(epochs=3, weather=SleepWeather(sleep_s=1e-3))
        self.job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=8), training=training, fidelity="stale", pin=pin)
        self.plan = api.plan(self.job, self.cluster, folder / "plan.json")
        self.exact = api.plan(
            self.job.model_copy(update={"pin": pin.model_copy(update={"refresh_interval": 1})}),
            self.cluster,
            folder / "exact.json",
        )
        self.predicted = api.simulate(self.plan, 20)
        losses = {"origin": "measured", "losses": (1.0, 0.5, 0.2), "fluctuating": None}
        self.measured = self.predicted.model_copy(update=losses)
        self._write_graphs()

    @cached_property
    def profile(self) -> MachineProfile:
        """The profile that the plans are predicted by."""
        return catalog_profile("t4")

    @cached_property
    def partitions(self) -> dict[str, Partition]:
        """The arrays of the plan that keeps rows (`plan`), and of the exact one."""
        both = {"plan": self.plan, "exact": self.exact}
        return {name: load_partition(plan, self.folder / f"{name}.json") for name, plan in both.items()}

    @cached_property
    def links(self) -> Job:
        """The job, of pairs that are edges."""
        graph = GRAPH.model_copy(update={"link": LinkSpec(width=4, num_ranked=5)})
        return self.job.model_copy(update={"graph": graph})

    @cached_property
    def documents(self) -> dict[str, Any]:
        """By kind, decoded."""
        of = {"job": self.job, "cluster": self.cluster, "plan": self.plan, "exact": self.exact}
        of |= {"profile": self.profile, "trace": self.measured, "links": self.links, "sweep": SWEEP}
        made = {kind: json.loads(document.model_dump_json()) for kind, document in of.items()}
        for raw in made.values():
            raw.setdefault("schema_version", 1)
        return made

    def _write_graphs(self) -> None:
        graph = api.load_graph(GRAPH)
        arrays = {"edge_index": graph.edge_index, "x": graph.x, "y": graph.y, "train_mask": graph.train_mask}
        np.savez(self.folder / "graph.npz", num_nodes=np.array(60), **arrays)
        lines = "".join(f"{a} {b}\n" for a, b in graph.edge_index.T.tolist())
        (self.folder / "graph.txt").write_text(lines)
        torch.save({name: torch.from_numpy(np.array(each)) for name, each in arrays.items()}, self.folder / "graph.pt")
