"""Trainings of a small graph as cycles, and placements to price them on."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.setting import Memo
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.search.entries import with_entries
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges

NUM_NODES, NUM_FEATURES, NUM_CLASSES = 600, 24, 5


def _graph():
    """Features of which three in ten are not zero."""
    spec = SbmGraph(
        source="sbm",
        num_nodes=NUM_NODES,
        average_degree=8,
        num_classes=NUM_CLASSES,
        num_features=NUM_FEATURES,
    )
    graph, rng = generate_sbm(spec), np.random.default_rng(0)
    return replace(graph, x=graph.x * (rng.random(graph.x.shape) < 0.3).astype(np.float32))


GRAPH = _graph()


@dataclass(frozen=True)
class Case:
    """A training of the test graph on workers with uneven shares."""

    kind: str = "gcn"
    num_workers: int = 2
    order: str = "multiply_first"
    precompute: bool = False
    sparse: bool = False
    overlap: bool = False
    dropout: float = 0.0
    num_layers: int = 2
    seed: int = 0

    @property
    def model(self):
        """Two hops where the kind has some."""
        return ModelSpec(
            kind=self.kind, num_layers=self.num_layers, hidden_channels=16, heads=4, num_hops=2, dropout=self.dropout
        )

    @property
    def matrix(self):
        """CSR [N, N]."""
        return aggregation_matrix(NUM_NODES, GRAPH.edge_index, self.kind)

    @property
    def part(self):
        """The first worker has twice as much as any other."""
        shares = np.r_[2.0, np.ones(self.num_workers - 1)]
        return np.random.default_rng(self.seed).choice(self.num_workers, NUM_NODES, p=shares / shares.sum())

    def cycle(self, *, split=True, labels=None, reuses_storage=True):
        """The cycle, through the passes of plain halo exchange."""
        entries = (GRAPH.x != 0).sum(1) if self.sparse else None
        masks = GRAPH.train_mask, GRAPH.val_mask, GRAPH.test_mask
        task = Task(self.matrix, NUM_FEATURES, NUM_CLASSES, masks, entries)
        cycle = forward_cycle(self.model, task, seed=0)
        cycle = expand_filters(cycle, {f"l{layer}/filter": self.order for layer in range(self.num_layers)})
        cycle = share_rows(cycle, Cutter(self.part, self.num_workers, labels))
        cycle = split_placed(cycle) if split else cycle
        cycle = hoist_constants(cycle) if self.precompute else cycle
        cycle = differentiate(cycle, Optimizer("adam", 0.01))
        cycle = reuse_storage(cycle) if reuses_storage else cycle
        cycle = overlap_exchanges(cycle) if self.overlap else cycle
        return self._with_entries(cycle) if self.sparse and self.precompute else cycle

    def _with_entries(self, cycle):
        """Nobody tells a cycle how many entries sparse features have once they are aggregated."""
        return with_entries(cycle, replace(GRAPH, x=sp.csr_matrix(GRAPH.x)), self.matrix, Memo())


def placement_of(num_workers, names=("t4", "rtx-3090"), *, bytes_per_s=None, **changed):
    """One device a host, of the catalog in turn, with no overhead and what else is `changed` in every profile."""
    devices = [DeviceSpec(catalog=names[rank % len(names)]) for rank in range(num_workers)]
    hosts = tuple(HostSpec(name=f"h{rank}", devices=(device,)) for rank, device in enumerate(devices))
    network = {"network": {"bytes_per_s": bytes_per_s, "latency_s": 5e-6}} if bytes_per_s else {}
    placement = resolve(Cluster(hosts=hosts, **network))
    update = {"host_overhead_s": 0.0, **changed}
    profiles = {name: profile.model_copy(update=update) for name, profile in placement.profiles.items()}
    return placement.model_copy(update={"profiles": profiles})
