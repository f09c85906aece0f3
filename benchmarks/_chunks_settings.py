"""The settings of `source_chunks`: graphs, hosts, and the ways to train that are laid side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import _chunks_graphs, _chunks_models
from benchmarks._common import fingerprint_of
from benchmarks._emulated import unprofiled
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.training_spec import TrainingSpec

_IN_FULL = {"half_precision": False, "compression": False}  # which that fidelity would allow
EXACT = "exact"
COUNTS = (1, 2, 5, 10, 20)
BASELINES = {
    "10% of halo rows": ({"boundary_sampling": {"probability": 0.1, "num_draws": 40}}, _IN_FULL, "approximate"),
    "one epoch late": ({}, {"late_halos": True}, "stale(2)"),
}
PAPER_SPEEDUPS = {"gcn": (3.4, 5.8, 1.9), "gat": (4.1, 7.1, 2.5)}
"""Steps a second at B = 10 over B = 1 in the paper's tables, on Products, Reddit and Yelp."""
REDDIT_SHAPED = "reddit-shaped"
_HIDDEN, _RATE = 128, 0.005
NUM_HOSTS, _CORES = 4, 0.45
NETWORKS = (200, 1000)  # Mbit/s of every host's link
# Nothing else may be stale or left out, so that a difference is the variant's own.
_PLAIN = {"partitioner": "metis", "prune": "none", "refresh_interval": 1, "dependencies": "communicate"}


@dataclass(frozen=True)
class Row:
    """A graph and a model.

    Args:
        steps: of every variant's training; of exact training they are epochs.
        is_normed: a LayerNorm stands between the layers, as the paper has its models (`_chunks_models`, wide).
    """

    graph_name: str
    kind: ModelKind
    num_layers: int
    steps: int
    hidden: int = _HIDDEN
    is_normed: bool = False

    @property
    def name(self) -> str:
        """In tables."""
        return f"{self.kind} of {self.num_layers} layers on {self.graph_name}"

    @property
    def graph(self) -> GraphSpec:
        """Its source."""
        if self.graph_name == "small":
            return SbmGraph(source="sbm", num_nodes=3000, average_degree=16, num_features=32, num_classes=6)
        if self.graph_name == REDDIT_SHAPED:  # a tenth of Reddit's vertices, with its features, classes, homophily
            return SbmGraph(
                source="sbm", num_nodes=23_000, average_degree=100, num_features=602, num_classes=41, homophily=0.78
            )
        return NpzGraph(source="npz", path=_chunks_graphs.path_of(self.graph_name))

    @property
    def model(self) -> ModelSpec:
        """Of a built-in kind, or the module with norms."""
        if self.is_normed:
            build = f"{Path(_chunks_models.__file__)}:wide_{self.kind}_{self.num_layers}"
            return ModelSpec(kind="module", build=build)
        sizes = {"num_layers": self.num_layers, "hidden_channels": self.hidden}
        return ModelSpec(kind=self.kind, heads=1, dropout=0.3, **sizes)

    def job(self, variant: str, steps: int) -> Job:
        """What a variant trains."""
        decisions, techniques, fidelity = variants()[variant]
        # States that weights have not met stay right when these move; of attention it changes little.
        order = {"op_order": "aggregate_first"} if "source_chunks" in decisions and self.kind != "gat" else {}
        return Job(
            name=variant,
            graph=self.graph,
            model=self.model,
            training=TrainingSpec(epochs=steps, learning_rate=_RATE),
            fidelity=fidelity,
            pin=PinnedDecisions(**_PLAIN, **order, decisions=decisions, techniques=techniques),
        )

    def fingerprint(self, variant: str) -> str:
        """Of what its figures are of; where a graph and its module lie is not part of it."""
        job = self.job(variant, self.steps).model_dump(mode="json", exclude={"graph": {"path"}, "model": {"build"}})
        sizes = [_chunks_models.WIDE, _chunks_graphs.WIDTH, _chunks_graphs.SETS]
        has_masses = self.kind == "gat" and "source_chunks" in variants()[variant][0]
        fades = [technique("source_chunks").Decision().mass_fade] if has_masses else []  # which no job says
        return fingerprint_of([asdict(self), sizes, job, *fades])


def variants(counts: tuple[int, ...] = COUNTS) -> dict[str, tuple[dict, dict, str]]:
    """By name: decisions and techniques that are pinned, and the fidelity that they ask for."""
    chunks: dict[str, tuple[dict, dict, str]] = {
        f"B = {count}": ({"source_chunks": {"num_chunks": count}}, {}, f"stale({count})") for count in counts[1:]
    }
    return {EXACT: ({}, {}, "exact"), **chunks, **BASELINES}


def rows_of(quick: bool) -> list[Row]:
    """Every row, whether its graph is here or not."""
    if quick:
        return [Row("small", "gcn", 3, 60, hidden=32)]
    graphs = ("fb100_cornell5", "flickr7k", _chunks_graphs.SETS, REDDIT_SHAPED)
    shapes: list[tuple[ModelKind, int]] = [("sage", 3), ("sage", 4), ("gat", 3)]
    return [Row(graph, kind, num, _steps_on(graph), is_normed=True) for graph in graphs for kind, num in shapes]


def _steps_on(graph: str) -> int:
    """So many that exact training has come to its best accuracy before; of sets it still rises at 150."""
    return 300 if graph == _chunks_graphs.SETS else 150


def hosts_of(mbit: int) -> Cluster:
    """Four hosts on emulated links, not yet profiled."""
    return unprofiled(f"four at {mbit} Mbit", [(_CORES, mbit)] * NUM_HOSTS)
