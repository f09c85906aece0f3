"""The settings of `tensor_parallel`: four even hosts on two networks, models, and plans laid side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks._common import fingerprint_of
from benchmarks._emulated import unprofiled
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.training_spec import TrainingSpec

SLICES, ROWS, CHOICE, ONE_HOST = "feature slices", "best rows", "planner's choice", "one host"
SLICES_LAYOUT, ROWS_LAYOUT = "feature_slices", "halo_exchange"
NUM_HOSTS, CORES = 4, 0.4
NETWORKS = (1000, 200)  # Mbit/s of every host's link
NARROW = NETWORKS[-1]
DEEP = 4  # layers from here on
NUM_ROUNDS = 2
RUN_S = 10.0  # of training in a run
MIN_EPOCHS, MAX_EPOCHS = 4, 30
_LAYERS, _WIDTHS = (2, 3, 4, 5), (128, 512)
_HEADS, _CLASSES = 4, 16
_KINDS: tuple[ModelKind, ...] = ("gcn", "gat")


@dataclass(frozen=True)
class Cell:
    """A model on a power-law graph, on one network.

    Args:
        mbit: of every host's link (None: workers of this machine as it is).
    """

    mbit: int | None
    kind: ModelKind
    num_layers: int
    num_features: int
    graph: RmatGraph
    hidden: int = 128
    num_workers: int = NUM_HOSTS

    @property
    def name(self) -> str:
        """In tables, and of what is kept."""
        network = f"{self.mbit} Mbit/s" if self.mbit else "here"
        return f"{self.kind} of {self.num_layers} layers, width {self.num_features}, {network}"

    @property
    def is_deep_and_narrow(self) -> bool:
        """Whether the paper says of such a cell that slices win clearly."""
        return self.num_layers >= DEEP and self.mbit == NARROW

    @property
    def jobs(self) -> dict[str, Job]:
        """By side. Nothing is pinned but the layout; slices are even on all workers, rows on as many as are fastest."""
        pins = {
            CHOICE: PinnedDecisions(),
            SLICES: PinnedDecisions(num_workers=self.num_workers, balance="equal", techniques={SLICES_LAYOUT: True}),
            ROWS: PinnedDecisions(techniques={SLICES_LAYOUT: False}),
        }
        if self.mbit == NETWORKS[0]:  # a host alone knows no network
            pins[ONE_HOST] = PinnedDecisions(num_workers=1)
        model = ModelSpec(kind=self.kind, num_layers=self.num_layers, hidden_channels=self.hidden, heads=_HEADS)
        return {
            side: Job(name=side, graph=self.graph, model=model, training=TrainingSpec(epochs=MIN_EPOCHS), pin=pin)
            for side, pin in pins.items()
        }

    @property
    def fingerprint(self) -> str:
        """Of the settings that its figures are of."""
        limits = [CORES, NUM_ROUNDS, RUN_S, MIN_EPOCHS, MAX_EPOCHS]
        return fingerprint_of([self.name, self.jobs, limits])


def cells_of(quick: bool) -> Iterator[Cell]:
    """All cells, network by network, and graph by graph within: what was made for one is used for the next."""
    if quick:
        graph = RmatGraph(source="rmat", num_nodes=2000, num_edges=20_000, num_features=16, num_classes=_CLASSES)
        for kind in _KINDS:
            yield Cell(None, kind, 2, 16, graph, hidden=16, num_workers=2)
        return
    for mbit in NETWORKS:
        for width in _WIDTHS:
            graph = RmatGraph(
                source="rmat", num_nodes=100_000, num_edges=5_000_000, num_features=width, num_classes=_CLASSES
            )
            for kind in _KINDS:
                for num_layers in _LAYERS:
                    yield Cell(mbit, kind, num_layers, width, graph)


def hosts_of(mbit: int) -> Cluster:
    """Four even hosts, not yet profiled."""
    return unprofiled(f"four even at {mbit} Mbit/s", [(CORES, mbit)] * NUM_HOSTS)
