"""A partitioned graph under a model, and every worker's split of its dependencies."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.hybrid.levels import levels_of
from gnnplan.planner.hybrid.lowering import HybridLowering
from gnnplan.planner.hybrid.matrices import neighbourhood_rows
from gnnplan.planner.hybrid.neighbourhood import build_neighbourhood
from gnnplan.planner.hybrid.sizes import replica_sizes
from gnnplan.planner.hybrid.split import make_split
from gnnplan.planner.hybrid.staging import cut_staged
from gnnplan.planner.job import ModelSpec, SbmGraph
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.shapes import worker_shapes
from gnnplan.planner.shard import cut_shard
from gnnplan.planner.steps import LayerDecision, build_program, num_hops
from gnnplan.profiles.machine import Link

SPEC = SbmGraph(source="sbm", num_nodes=150, average_degree=6, num_classes=3, num_features=10, seed=2)
FIRST, AFTER = LayerDecision(op_order="aggregate_first"), LayerDecision(op_order="multiply_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)


@dataclass
class Shares:
    """All workers of a partition, and what follows from bool [l, h] masks of what each caches."""

    kind: str
    layers: tuple
    graph: Graph = field(default_factory=lambda: generate_sbm(SPEC))
    num_workers: int = 3
    hidden: int = 8
    sparse: bool = False
    link: Link | None = None
    model_changes: dict = field(default_factory=dict)

    def __post_init__(self):
        changes = {"heads": 2, "num_hops": 2} | self.model_changes
        self.model = ModelSpec(kind=self.kind, num_layers=len(self.layers), hidden_channels=self.hidden, **changes)
        self.program = build_program(
            self.model,
            self.layers,
            num_features=self.graph.num_features,
            num_classes=self.graph.num_classes,
            sparse_input=self.sparse,
        )
        self.levels = levels_of(self.model, self.layers, self.graph.num_features, self.graph.num_classes)
        n = self.graph.num_nodes
        self.matrix = aggregation_matrix(n, self.graph.edge_index, self.kind)
        part = np.random.default_rng(1).integers(0, self.num_workers, n)
        self.halo = build_halo(self.matrix, part, self.num_workers)
        self.shapes = worker_shapes(self.graph, self.halo, num_hops=num_hops(self.model), sparse_features=self.sparse)
        self.nears = tuple(build_neighbourhood(self.matrix, b, self.levels.num_hops) for b in self.halo.blocks)

    @cached_property
    def rows(self):
        """Of every worker's neighbourhood."""
        return tuple(neighbourhood_rows(self.matrix, b, near) for b, near in zip(self.halo.blocks, self.nears))

    def masks(self, share, seed=0):
        """Each dependency cached with this probability."""
        rng = np.random.default_rng(seed)
        num_levels = self.levels.count - self.levels.first
        return [rng.random((num_levels, len(block.halo))) < share for block in self.halo.blocks]

    def replicas(self, masks):
        """Sizes under these splits."""
        splits = tuple(make_split(near, self.levels.first, mask) for near, mask in zip(self.nears, masks))
        entries = tuple(shape.hop_entries for shape in self.shapes)
        return replica_sizes(self.halo, self.nears, self.rows, splits, entries)

    def staged(self, rank, mask, may_cache=None, *, adjusts=False):
        """What one worker is given."""
        return cut_staged(
            self.graph, self.matrix, self.halo.blocks[rank], self.levels, self.program, mask,
            mask if may_cache is None else may_cache, adjusts=adjusts, sparse_features=self.sparse,
        )  # fmt: skip

    def shard(self, rank):
        """Its share."""
        return cut_shard(self.graph, self.halo, rank, sparse_features=self.sparse)

    @cached_property
    def placement(self):
        """A T4 a worker, on one host."""
        host = HostSpec(name="a", devices=(DeviceSpec(catalog="t4", count=self.num_workers),))
        return resolve(Cluster(hosts=(host,), **({"device_link": self.link} if self.link else {})))

    def lowering(self, masks=None):
        """The tasks of an epoch; without masks of the plain exchange."""
        costs = {name: OperatorCosts.of(profile) for name, profile in self.placement.profiles.items()}
        common = (self.program, self.placement, self.shapes, self.halo.send_counts(), costs, self.graph.num_classes)
        made = FullBatchLowering(*common) if masks is None else HybridLowering(*common, replicas=self.replicas(masks))
        made.lower()
        return made


CASES = [
    ("gcn", (AFTER, AFTER, AFTER)),
    ("gcn", (ONCE, FIRST, AFTER)),
    ("sage", (FIRST, FIRST, AFTER)),
    ("sage", (ONCE, FIRST, FIRST)),
    ("gin", (ONCE, AFTER, FIRST)),
    ("gat", (AFTER, AFTER, AFTER)),
    ("tagcn", (FIRST, FIRST)),
    ("tagcn", (ONCE, FIRST)),
]
