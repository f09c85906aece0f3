"""What each idea of NeutronTP gains, added one after another, beside its figure 11: part of `tensor_parallel`.

Four ways to train a GCN of three layers: rows shared out in ranges with a halo exchange (the paper's baseline), feature
slices of the same model, slices of its decoupled form, and these in chunks whose transposes overlap with sums. The
decoupled slices also run with all rows on disk, in chunks one after another and in chunks that overlap. Ways of a graph
run in turn, round by round. A gain is the ratio of median epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks._common import fingerprint_of
from benchmarks._tensor_parallel_runs import Side
from benchmarks._tensor_parallel_settings import CORES, NETWORKS, NUM_HOSTS, NUM_ROUNDS, RUN_S
from gnnplan.planner.graph_spec import GraphSpec, RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec

ROWS, SLICES, DECOUPLED, PIPELINED = "rows in ranges", "slices", "decoupled slices", "pipelined"
STREAMED, STREAMED_PIPELINED = "streamed", "streamed and pipelined"
PAPER = {SLICES: (1.92, 2.45), DECOUPLED: (2.21, 4.47), PIPELINED: (1.11, 1.47)}
"""Section 5.4: of each over the one before it."""
_BEFORE = {SLICES: ROWS, DECOUPLED: SLICES, PIPELINED: DECOUPLED, STREAMED_PIPELINED: STREAMED}
_SHARED = 0.3, 0.7  # of an epoch, in collectives
_CHUNKS = {"destination_chunks": {"num_chunks": 4, "recompute": "nothing"}}


@dataclass(frozen=True)
class Gains:
    """A graph on one network, and the ways to train on it.

    Args:
        mbit: of every host's link (None: workers of this machine as it is).
    """

    graph_name: str
    graph: GraphSpec
    mbit: int | None
    hidden: int = 128
    num_workers: int = NUM_HOSTS

    @property
    def name(self) -> str:
        """In tables, and of what is kept."""
        return f"{self.graph_name}, {self.mbit} Mbit/s" if self.mbit else self.graph_name

    @property
    def jobs(self) -> dict[str, Job]:
        """By way. No features are aggregated once and for all, for no way of the paper's does it."""
        coupled = ModelSpec(kind="gcn", num_layers=3, hidden_channels=self.hidden)
        decoupled = coupled.decoupled
        assert decoupled
        apart, beside = {"overlap": False}, {"overlap": True}
        slices = {"techniques": {"feature_slices": True}}
        on_disk = {"techniques": {"feature_slices": True, "offload": True}, "decisions": _CHUNKS}
        return {
            ROWS: self._job(ROWS, coupled, partitioner="ranges", dependencies="communicate", **apart),
            SLICES: self._job(SLICES, coupled, **slices, **apart),
            DECOUPLED: self._job(DECOUPLED, decoupled, **slices, **apart),
            PIPELINED: self._job(PIPELINED, decoupled, **slices, **beside, decisions=_CHUNKS),
            STREAMED: self._job(STREAMED, decoupled, **on_disk, **apart),
            STREAMED_PIPELINED: self._job(STREAMED_PIPELINED, decoupled, **on_disk, **beside),
        }

    def _job(self, way: str, model: ModelSpec, **pins) -> Job:
        pin = PinnedDecisions(num_workers=self.num_workers, balance="equal", precompute=False, **pins)
        return Job(name=way, graph=self.graph, model=model, training=TrainingSpec(epochs=4), pin=pin)

    @property
    def fingerprint(self) -> str:
        """Of the settings that its figures are of."""
        return fingerprint_of([self.name, self.jobs, CORES, NUM_ROUNDS, RUN_S])


def gains_of(quick: bool) -> list[Gains]:
    """A power law, and a graph of Reddit's widths with many neighbours, on each network."""
    if quick:
        small = RmatGraph(source="rmat", num_nodes=2000, num_edges=20_000, num_features=16, num_classes=4)
        return [Gains("power law", small, None, 16, num_workers=2)]
    power_law = RmatGraph(source="rmat", num_nodes=100_000, num_edges=5_000_000, num_features=128, num_classes=16)
    reddit = SbmGraph(
        source="sbm", num_nodes=23_000, average_degree=200, num_features=602, num_classes=41, homophily=0.78
    )
    graphs = {"power law": power_law, "reddit-shaped": reddit}
    return [Gains(name, graph, mbit) for mbit in NETWORKS for name, graph in graphs.items()]


def gains_result(sides: Mapping[str, Side]) -> dict:
    """Seconds of every way, what each gains over the one before, and what of an epoch is communication."""
    return {
        "epoch_s": {way: side.median_s for way, side in sides.items()},
        "predicted_s": {way: side.plan.prediction.expected_epoch_s for way, side in sides.items()},
        "gains": {way: _gain(sides[before], sides[way]) for way, before in _BEFORE.items()},
        "communication_share": float(np.median([_communication_share(trace) for trace in sides[DECOUPLED].rounds])),
    }


def _gain(before: Side, after: Side) -> float:
    """The median over the rounds of how many times longer the one before takes."""
    pairs = zip(before.rounds, after.rounds, strict=True)
    return float(np.median([one.median_epoch_s / other.median_epoch_s for one, other in pairs]))


def _communication_share(trace: Trace) -> float:
    """Of the seconds of all tasks the part in collectives, waiting for others among it."""
    lengths_s = np.array([span.end_s - span.start_s for span in trace.spans])
    is_collective = np.array([span.category == "communicate" for span in trace.spans])
    return float(lengths_s[is_collective].sum() / lengths_s.sum())


def gains_summary(rows: Sequence[dict]) -> dict:
    """Geometric means over the graphs and networks, and of pipelines the best.

    Of pipelines, those count that have something to hide and something to hide it behind: where communication takes
    `_SHARED` of an epoch.
    """
    least, most = _SHARED
    shared = [row for row in rows if least <= row["communication_share"] <= most]

    def mean(way: str, of: Sequence[dict]) -> float | None:
        return float(np.exp(np.mean([np.log(row["gains"][way]) for row in of]))) if of else None

    return {
        "pipelines": len(shared),
        "pipeline_speedup": mean(PIPELINED, shared),
        "best_pipeline_speedup": max((row["gains"][PIPELINED] for row in shared), default=None),
        "streamed_pipeline_speedup": mean(STREAMED_PIPELINED, shared),
        "gains": {way: mean(way, rows) for way in _BEFORE},
        "gains_in_the_paper": PAPER,
    }
