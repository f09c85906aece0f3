"""Small trainings in chunks, by the product's programs and by the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.chunks.draw import chunk_of, edges_from
from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.reference import dense_features
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import NUM_NODES, SEED, Case, Run, initial, worst
from tests.planner.techniques.source_chunks.oracle import ChunkOracle

RATE = 0.2
MODELS = {
    "gcn": ModelSpec(kind="gcn", num_layers=3, hidden_channels=6, dropout=0.3),
    "sage": ModelSpec(kind="sage", num_layers=3, hidden_channels=6, dropout=0.3, input_dropout=0.2),
    "gat": ModelSpec(kind="gat", num_layers=2, hidden_channels=6, heads=2, dropout=0.3),
    "one head": ModelSpec(kind="gat", num_layers=2, hidden_channels=6, heads=1, dropout=0.3),
}
ORDERS = {"multiplied": {}, "aggregated": dict.fromkeys(range(3), "aggregate_first")}


@dataclass(frozen=True)
class Chunked:
    """A training in chunks.

    Args:
        orders: by layer, `aggregate_first`; all others multiply first.
        beside: other techniques' choices.
    """

    model: str
    decision: Chunks
    num_workers: int = 1
    num_steps: int = 8
    orders: dict[int, str] = field(default_factory=dict)
    beside: tuple[Choice, ...] = ()

    @property
    def case(self) -> Case:
        training = TrainingSpec(optimizer="sgd", learning_rate=RATE, epochs=self.num_steps, seed=SEED)
        is_sparse = any(each.technique == "sparse_features" for each in self.beside)
        orders = tuple(self.orders.values())
        return Case(MODELS[self.model], self.num_workers, orders, training=training, sparse=is_sparse)

    def choices(self) -> list[Choice]:
        orders = {f"l{layer}/{what}": order for layer, order in self.orders.items() for what in ("filter", "weigh")}
        return [
            chosen("halo_exchange", {"part": self.case.part.astype(np.int32)}),
            chosen("operator_order", of=orders),
            Choice("source_chunks", self.decision),
            *self.beside,
        ]

    def cycle(self) -> Cycle:
        return composed(self.case, self.choices())

    def play(self, cycle: Cycle | None = None) -> Run:
        return self.case.play(cycle or self.cycle())

    def matrix(self):
        graph = self.case.graph
        return aggregation_matrix(graph.num_nodes, graph.edge_index, self.case.model.kind)

    def sources(self) -> list[np.ndarray]:
        """Who pushes in each step, as the decision's words say it."""
        of, found = self.decision, []
        for at in range(of.num_passes):
            chunk = chunk_of(edges_from([self.matrix()]), of.num_chunks, of.seed, at % of.num_shuffles, of.draws)
            steps = [chunk == number for number in range(of.num_chunks)]
            if of.exact_every and at % of.exact_every == 0:
                steps[0] = np.ones(NUM_NODES, bool)
            found += steps
        return found

    def oracle(self) -> ChunkOracle:
        graph, of = self.case.graph, self.decision
        sources = self.sources()
        return ChunkOracle(
            self.case.model,
            self.matrix(),
            dense_features(graph),
            graph.y,
            graph.train_mask,
            initial(self.case.model),
            sources,
            SEED,
            RATE,
            of.follow_mean,
            self.orders,
            [of.num_chunks if of.correction and not each.all() else 1.0 for each in sources],
            of.fade,
            of.mass_fade,
        )

    def off(self, cycle: Cycle | None = None) -> float:
        """The largest relative error of losses and trained parameters against the oracle."""
        run, oracle = self.play(cycle), self.oracle()
        errors = [worst(got, want) for got, want in zip(run.losses, oracle.train(self.num_steps), strict=True)]
        of_params = (worst(each, oracle.params[name]) for name, workers in run.params.items() for each in workers)
        return max(*errors, *of_params)


def chosen(name: str, arrays: dict[str, np.ndarray] | None = None, **decision) -> Choice:
    return Choice(name, technique(name).Decision(**decision), arrays or {})


def logits(run: Run) -> torch.Tensor:
    """Of all vertices, by the program that evaluates."""
    cycle = run.cycle
    (counted,) = (op for op in cycle.programs["evaluate"] if op.kind == "hits")
    value, arrays = cycle.values[counted.reads[0]], cycle.arrays
    assert arrays
    executor = run.executor
    executor.cycle = replace(cycle, results=cycle.results | {value.name})
    parts = executor.run("evaluate")[value.name]
    found = torch.zeros(NUM_NODES, value.width, dtype=torch.float64)
    for ids, part in zip(arrays.ids[value.space], parts, strict=True):
        found[torch.from_numpy(ids)] = part
    return found
