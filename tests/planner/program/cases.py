"""Small graphs that test something, and trainings of them through every pass in its place."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle, num_levels
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.labels import KEEPING, Label, Labels, brings
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program.sequential.going_on import IN_STEP, Policy
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.planner.techniques.host_region.share import share_in_regions
from gnnplan.planner.techniques.joint_cache.refresh import refresh_every
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.reference import dense_features, train_reference
from tests.planner.program.oracle import Epoch, Oracle, World

NUM_NODES, NUM_FEATURES, NUM_CLASSES, SEED = 36, 5, 3, 3
EXACT = 1e-9  # what float64 and another order of sums leave between equal trainings
HOSTS = (0, 0, 1, 1)  # of the workers, the first of them
SGD = TrainingSpec(optimizer="sgd", learning_rate=0.2, epochs=3, seed=SEED)

# Gradients in Adam's steps lose their lengths, so exactness is compared under SGD, and Adam has tests of its own.
MODELS = {
    "gcn": ModelSpec(kind="gcn", num_layers=3, hidden_channels=6),
    "sage": ModelSpec(kind="sage", num_layers=3, hidden_channels=6, dropout=0.3),
    "gin": ModelSpec(kind="gin", num_layers=2, hidden_channels=6),
    "tagcn": ModelSpec(kind="tagcn", num_layers=2, hidden_channels=6, num_hops=2),
    "gat": ModelSpec(kind="gat", num_layers=2, hidden_channels=6, heads=2, dropout=0.3),
    "one head": ModelSpec(kind="gat", num_layers=2, hidden_channels=6, heads=1, dropout=0.3),
}
FIRST, LAST = "aggregate_first", "multiply_first"
ORDERS = {"multiplied": (), "aggregated": (FIRST, FIRST, FIRST), "mixed": (FIRST, LAST, FIRST)}
PASSES = ("split", "features", "once", "derive", "refresh", "regions", "storage", "overlap", "late")
"""In the canonical order."""


@cache
def small_graph(seed: int = 0, *, multilabel: bool = False) -> Graph:
    """Directed, with repeated edges, self loops, isolated vertices, and ones that gather or are gathered by nobody."""
    rng, n = np.random.default_rng(seed), NUM_NODES
    popularity = rng.random(n) ** 2 * (np.arange(n) % 9 != 4)
    source = rng.choice(n, 3 * n, p=popularity / popularity.sum())
    target = rng.choice(np.flatnonzero(np.arange(n) % 9 > 1), 3 * n)
    lonely = [13, 22]
    edges = np.stack([source, target])[:, ~np.isin(source, lonely) & ~np.isin(target, lonely)]
    loops = np.array([[5, 6, 6], [5, 6, 6]])
    edge_index = np.concatenate([edges, edges[:, :7], loops], 1)
    role = rng.permutation(n) % 4
    y = rng.integers(0, NUM_CLASSES, n)
    if multilabel:
        y = (rng.random((n, NUM_CLASSES)) < 0.4).astype(np.float32)
    x = rng.normal(size=(n, NUM_FEATURES)).astype(np.float32)
    x[rng.random(x.shape) < 0.6] = 0  # so that it is worth being sparse too
    graph = Graph(n, edge_index, x, y, role < 2, role == 2, role == 3, NUM_CLASSES, "small").validate()
    touched = np.bincount(edge_index.ravel(), minlength=n)
    assert (touched == 0).any()
    assert len(np.unique(edge_index, axis=1).T) < edge_index.shape[1]
    return graph


def partition(num_workers: int, seed: int = 0) -> np.ndarray:
    """Skewed: worker 0 owns most."""
    share = np.array([4.0, 2.0, 1.5, 1.0][:num_workers])
    return np.random.default_rng(seed).choice(num_workers, NUM_NODES, p=share / share.sum())


def subset(model: ModelSpec, num_workers: int, seed: int, probability: float = 0.5) -> np.ndarray:
    """Bool [levels, W, N]: which rows a technique chose."""
    shape = (num_levels(model), num_workers, NUM_NODES)
    return np.random.default_rng(seed).random(shape) < probability


def codes(model: ModelSpec, num_workers: int, chosen: Mapping[Label, np.ndarray]) -> np.ndarray:
    """uint8 [levels, W, N]: labels combined by the greater one, without the product's own code."""
    table = np.zeros((num_levels(model), num_workers, NUM_NODES), np.uint8)
    for label, mask in chosen.items():
        table = np.maximum(table, mask * np.uint8(label))
    return table


@dataclass(frozen=True)
class Case:
    """A training, and which passes its program goes through.

    Args:
        orders: of every layer, where it has any, `aggregate_first` or (also where it says nothing) `multiply_first`.
        labels: [levels, W, N] codes (None: all rows are sent).
        passes: of `PASSES`; `derive` is always one.
        interval: epochs from refresh to refresh of kept rows.
        sparse: features as CSR.
        owners: of every vertex, where it is not `partition` that says it.
        is_late: some messages come an epoch or two late, as `comes` says.
    """

    model: ModelSpec
    num_workers: int = 3
    orders: tuple[str, ...] = ()
    labels: np.ndarray | None = None
    passes: tuple[str, ...] = ()
    interval: int = 1
    training: TrainingSpec = SGD
    seed: int = 0
    sparse: bool = False
    multilabel: bool = False
    owners: tuple[int, ...] | None = None
    is_late: bool = False

    @property
    def graph(self) -> Graph:
        return small_graph(self.seed, multilabel=self.multilabel)

    @property
    def part(self) -> np.ndarray:
        return partition(self.num_workers, self.seed) if self.owners is None else np.array(self.owners)

    def codes(self) -> np.ndarray:
        return codes(self.model, self.num_workers, {}) if self.labels is None else self.labels

    def forward(self) -> Cycle:
        """The program of one logical worker, its filters expanded."""
        graph = self.graph
        task = Task(
            aggregation_matrix(graph.num_nodes, graph.edge_index, self.model.kind),
            graph.num_features,
            graph.num_classes,
            (graph.train_mask, graph.val_mask, graph.test_mask),
            np.count_nonzero(dense_features(graph), axis=1) if self.sparse else None,
            graph.is_multilabel,
        )
        cycle = forward_cycle(self.model, task, seed=self.training.seed)
        of = {f"l{layer}/{what}": order for layer, order in enumerate(self.orders) for what in ("filter", "weigh")}
        return expand_filters(cycle, of)

    def shared(self) -> Cycle:
        """The forward program, shared out under its labels."""
        cycle, part = self.forward(), self.part
        if self.owners is None:
            assert_tests_something(cycle, part, self.num_workers)
        return share_rows(cycle, Cutter(part, self.num_workers, self.marked()))

    def marked(self) -> Labels:
        labels, table = Labels(), self.codes()
        for level, worker in np.ndindex(table.shape[:2]):
            for label in Label:
                labels = labels.marked(level, worker, np.flatnonzero(table[level, worker] == label), label)
        return labels

    def rewrite(self, name: str) -> Callable[[Cycle], Cycle]:
        """One pass, with this case's decisions."""
        training = self.training
        return {
            "split": split_placed,
            "once": hoist_constants,
            "features": lambda cycle: hoist_constants(cycle, lambda op: op.kind == "exchange"),
            "derive": lambda cycle: differentiate(cycle, Optimizer.of(training)),
            "refresh": lambda cycle: refresh_every(cycle, self.interval),
            "regions": lambda cycle: share_in_regions(cycle, HOSTS[: self.num_workers]),
            "storage": reuse_storage,
            "overlap": overlap_exchanges,
            "late": partial(overlap_exchanges, waits_late=True),
        }[name]

    def names(self) -> tuple[str, ...]:
        """Its passes in the canonical order; kept rows ask for their refresh."""
        asked = {*self.passes, "derive", *(["refresh"] if self.interval > 1 else [])}
        return tuple(name for name in PASSES if name in asked)

    def cycle(self, order: Sequence[str] | None = None) -> Cycle:
        """The whole program; `order` is another one than the canonical of the passes."""
        cycle = self.shared()
        for name in self.names() if order is None else order:
            cycle = self.rewrite(name)(cycle)
        return cycle

    def play(self, cycle: Cycle | None = None, *, epochs: int | None = None) -> Run:
        """Trains by the sequential executor in float64."""
        run = Run(self, watched(cycle or self.cycle()))
        run.train(range(self.training.epochs if epochs is None else epochs))
        return run

    def oracle(self) -> tuple[Oracle, list[Epoch]]:
        """What the oracle makes of the labels, trained."""
        graph = self.graph
        world = World(
            aggregation_matrix(graph.num_nodes, graph.edge_index, self.model.kind).toarray(),
            dense_features(graph),
            graph.y,
            graph.train_mask,
            self.part,
            self.codes(),
            dict(enumerate(self.orders)),
            self.arrives,
        )
        oracle = Oracle(self.model, world, initial(self.model), seed=self.training.seed)
        return oracle, oracle.train(self.training)

    def arrives(self, label: Label, epoch: int, level: int, sender: int, receiver: int, back: bool) -> bool:
        """Whether a message comes in the epoch in which it was sent, or was not sent again."""
        if label in KEEPING and self.interval > 1:
            return epoch % self.interval == 0  # whoever refreshes them waits for all
        return not self.is_late or comes(epoch, level, sender, receiver, back)

    def off(self, cycle: Cycle | None = None) -> float:
        """The largest error of a training against the oracle that knows its labels."""
        return self.play(cycle).off(*self.oracle())


def comes(epoch: int, level: int, sender: int, receiver: int, back: bool) -> bool:
    """A script of what is late: two of three messages come at once, the first ones always."""
    return epoch == 0 or (epoch + 2 * level + sender + 3 * receiver + back) % 3 != 0


@dataclass
class Scripted(Policy):
    """What `comes` says, as the sequential executor asks it; kept rows that are refreshed are waited for."""

    interval: int = 1

    def version(self, operator: Operator, epoch: int, sender: int, receiver: int) -> int:
        level, back = operator.attributes["level"], bool(operator.attributes.get("back"))
        if brings(operator, KEEPING) and self.interval > 1:
            return epoch
        return next(at for at in range(epoch, -1, -1) if comes(at, level, sender, receiver, back))


@dataclass
class Run:
    """A training that is played.

    `losses` are by epoch, `grads` by epoch, parameter and worker.

    Args:
        policy: who goes on without whom (None: what the case says).
    """

    case: Case
    cycle: Cycle
    losses: list[float] = field(default_factory=list)
    grads: list[dict[str, list[Tensor]]] = field(default_factory=list)
    policy: Policy | None = None

    def __post_init__(self) -> None:
        start = {name: matrix_of(value) for name, value in initial(self.case.model).items()}
        policy = Scripted(self.case.interval) if self.case.is_late else IN_STEP
        self.executor = SequentialExecutor(self.cycle, self.inputs(), start, policy=self.policy or policy)

    def inputs(self) -> dict[str, list[Tensor]]:
        graph, arrays = self.case.graph, self.cycle.arrays
        assert arrays
        x, y = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.y)
        rows = [x[ids] for ids in arrays.ids["v@0"]]
        labels = [y[ids] if y.dim() == 2 else y[ids][:, None] for ids in arrays.ids[self.cycle.values["y"].space]]
        return {"x": [as_csr(each) for each in rows] if self.case.sparse else rows, "y": labels}

    def train(self, epochs: Iterable[int], order: Callable[[Cycle, Program], Sequence[int]] | None = None) -> None:
        """Plays epochs; `order` gives the operators' order of each."""
        for epoch in epochs:
            program = self.cycle.programs[self.cycle.order[epoch % len(self.cycle.order)]]
            results = self.executor.play(program, epoch, order and order(self.cycle, program))
            self.losses.append(float(results["loss" if self.cycle.num_workers == 1 else "total_loss"][0]))
            names = step_of(program).attributes["parameters"]
            grads = zip(names, gradients(program), strict=True)
            self.grads.append({name: results[grad] for name, grad in grads})

    @property
    def params(self) -> dict[str, list[Tensor]]:
        """Every worker's parameters, in their modules' shapes."""
        shapes = self.cycle.parameters
        return {name: [each.reshape(shapes[name]) for each in self.executor.stored[name]] for name in shapes}

    def off(self, oracle: Oracle, epochs: list[Epoch]) -> float:
        """The largest relative error of losses, gradients and parameters on any worker."""
        errors = [worst(loss, epoch.loss) for loss, epoch in zip(self.losses, epochs, strict=True)]
        for grads, epoch in zip(self.grads, epochs, strict=True):
            assert grads.keys() == epoch.grads.keys()
            errors += [
                worst(each.reshape(epoch.grads[name].shape), epoch.grads[name])
                for name, all_workers in grads.items()
                for each in all_workers
            ]
        errors += [worst(each, oracle.params[name]) for name, workers in self.params.items() for each in workers]
        return max(errors)

    def off_pyg(self) -> float:
        """The largest relative error of losses and parameters against PyG in float32."""
        parameters, losses = trained_by_pyg(self.case.model, self.case.training, self.case.seed, self.case.multilabel)
        errors = [worst(loss, want) for loss, want in zip(self.losses, losses, strict=True)]
        return max(*errors, *(worst(self.params[name][0], want) for name, want in parameters.items()))


def as_csr(dense: Tensor) -> Tensor:
    """The same matrix as CSR."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR a beta, once a process
        return dense.to_sparse_csr()


def worst(got: Tensor | float, want: Tensor | float) -> float:
    """The relative L2 error; infinite where something is no number, for `max` passes over a NaN."""
    got, want = (torch.as_tensor(each, dtype=torch.float64).detach() for each in (got, want))
    assert got.shape == want.shape, (got.shape, want.shape)
    error = float(torch.linalg.norm(got - want) / torch.linalg.norm(want))
    return error if math.isfinite(error) else math.inf


def step_of(program: Program):
    """The operator that ends a training program."""
    (step,) = (op for op in program if op.kind == "step")
    return step


def gradients(program: Program) -> tuple[str, ...]:
    """The values that are the gradients of the trained parameters, summed over workers."""
    step = step_of(program)
    count = len(step.attributes["parameters"])
    return step.reads[count : 2 * count]


def topological(cycle: Cycle, program: Program, rng: np.random.Generator) -> list[int]:
    """A random order of a program's operators that keeps its edges."""
    waits, order = edges(cycle, program), []
    done: set[int] = set()
    while len(order) < len(program):
        ready = [number for number in range(len(program)) if number not in done and waits[number] <= done]
        order.append(int(rng.choice(ready)))
        done.add(order[-1])
    return order


def watched(cycle: Cycle) -> Cycle:
    """The cycle that also hands out its gradients; its operators are the same."""
    names = {name for each in set(cycle.order) for name in gradients(cycle.programs[each])}
    return replace(cycle, results=cycle.results | names)


def assert_tests_something(cycle: Cycle, part: np.ndarray, num_workers: int) -> None:
    """Every worker gathers several rows of others at every level."""
    assert cycle.arrays
    for matrices in cycle.arrays.matrices.values():
        for worker in range(num_workers if num_workers > 1 else 0):
            halo = np.unique(matrices[0][part == worker].indices)
            assert (part[halo] != worker).sum() >= 3, f"worker {worker} has no halo"


@cache
def exact(model: ModelSpec, training: TrainingSpec = SGD, *, multilabel: bool = False) -> tuple[Oracle, list[Epoch]]:
    """What one worker that owns everything makes of it."""
    return Case(model, 1, training=training, multilabel=multilabel).oracle()


@cache
def initial(model: ModelSpec) -> dict[str, Tensor]:
    """PyG's own initial parameters."""
    net = build_pyg_model(model, NUM_FEATURES, NUM_CLASSES, SEED)
    return {name: value.detach().clone() for name, value in net.named_parameters()}


def matrix_of(parameter: Tensor) -> Tensor:
    """A parameter as programs have it: a vector is one row."""
    return parameter.reshape(parameter.shape[0] if parameter.dim() > 1 else 1, -1)


@cache
def trained_by_pyg(model: ModelSpec, training: TrainingSpec, seed: int, multilabel: bool):
    """(parameters, losses) of the single-process PyG model, which drops what the engine drops."""

    def dropout(epoch: int):
        def drop(h: Tensor, layer: int, width: int) -> Tensor:
            probability = model.input_dropout if layer > model.num_layers else model.dropout
            rows = torch.arange(len(h))[:, None]
            mask = keep_mask(dropout_key(SEED, epoch, layer), rows, torch.arange(width), width, probability)
            return h * mask / (1 - probability)

        return drop

    net, losses = train_reference(small_graph(seed, multilabel=multilabel), model, training, dropout=dropout)
    return {name: value.detach() for name, value in net.named_parameters()}, losses


def travels(program: Program, cycle: Cycle, *, back: bool = False) -> Counter:
    """Rows that travel in a program by their labels, on their way there or back."""
    found: Counter = Counter()
    for op in program:
        if op.kind == "exchange" and op.attributes.get("back", False) == back:
            found[op.attributes["label"]] += int(cycle.routes[op.attributes["route"]].counts.sum())
    return found
