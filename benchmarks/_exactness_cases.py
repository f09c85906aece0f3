"""Cases of the `exactness` benchmark: models on hard graphs, and every allowed pair of techniques."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product

import numpy as np
import scipy.sparse as sp

from benchmarks._exactness_relational import NUM_TYPES, relational_net
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.composition.refusals import needed_beside, refusals
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.fidelity import ANY
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle, num_levels
from gnnplan.planner.models.module_forward import module_cycle
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.relations import EDGE_TYPE, AnyAggregation, any_matrix
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.training_spec import TrainingSpec

# Under partial reduce nobody is ever gone on without here, so it is exact: rows and sums travel its way all the same.
EXACT = (
    "sparse_features",
    "first_aggregation",
    "feature_cache",
    "replicas",
    "host_region",
    "destination_chunks",
    "offload",
    "direct_sum",
    "overlap",
    "partial_reduce",
)
HALVES = "half_precision"
NOT_EXACT = ("joint_cache", "pruning", "source_chunks", "late_halos", "boundary_sampling", "compression", HALVES)
LAYOUTS = ("halo_exchange", "feature_slices")
NUM_STEPS, FEW_STEPS, NUM_LAYERS = 20, 8, 3  # few ones pass every kind of epoch twice, too
NUM_FEATURES, NUM_CLASSES = 24, 5
_SEED = 3
KINDS = ("gcn", "sage", "gat", "gin", "tagcn", "sgc", "appnp", "decoupled_gat", "rgcn")
_WITHOUT_PAIRS = ("sgc", "appnp", "decoupled_gat", "rgcn")  # whose operators are those of the others
_WITHOUT_FILTERS = ("gat", "appnp", "decoupled_gat")  # no sum of theirs reads what is the same in every epoch
INTERVAL = 3  # epochs from refresh to refresh
PATIENT = PartialReduceDecision(alpha=1e9, max_staleness=INTERVAL)
_DECISIONS: dict[str, dict] = {
    "joint_cache": {"interval": INTERVAL},
    "partial_reduce": dict(PATIENT),
    "source_chunks": {"num_chunks": 4, "seed": 1},
    "boundary_sampling": {"probability": 0.5, "num_draws": 3},
    "compression": {"format": "float16"},
}
_APART = (("host_region", "direct_sum"), ("partial_reduce",))  # without one or the other all go together
_ON_SUMS = ("first_aggregation", "feature_cache")


@dataclass(frozen=True)
class Case:
    """One training.

    Args:
        techniques: beside the layout and the operator order, and beside what they need.
        op_order: of every layer; `multiply_first` is what is composed where nobody chooses.
        layout: which technique says who has which rows and columns.
        share: of the rows that a worker does not own, those that techniques with rows are about.
        num_chunks: of destination chunks.
        outside: where offload keeps rows.
        waits_late: what waits for an exchange comes after what does not, under overlap.
        num_groups: of workers, where the layout has groups; cases of several need a multiple of them.
        num_steps: that are trained.
        pairs: edges are told from other pairs, in place of labels; `fake_cuda` alone has such cases.
    """

    model: str
    techniques: tuple[str, ...] = ()
    op_order: str = "multiply_first"
    layout: str = LAYOUTS[0]
    partitioner: str = "metis"
    optimizer: str = "sgd"  # whose steps do not hide a gradient's scale
    multilabel: bool = False
    dropout: float = 0.0
    input_dropout: float = 0.0
    share: float = 1 / 3
    num_chunks: int = 3
    outside: str = "disk"
    waits_late: bool = False
    num_groups: int = 1
    num_steps: int = NUM_STEPS
    pairs: bool = False

    @property
    def chosen(self) -> frozenset[str]:
        """All techniques whose work is in the program, the layout and the operator order among them."""
        is_ordered = self.op_order == "aggregate_first" and self.model not in _WITHOUT_FILTERS
        ordered = {"operator_order"} if is_ordered else set[str]()
        return frozenset({self.layout, *ordered, *self.techniques, *needed(self.techniques)})

    @property
    def is_exact(self) -> bool:
        """Whether one PyG process gives its numbers."""
        return not set(self.techniques) & set(NOT_EXACT)

    @property
    def job(self) -> Job:
        """What is trained."""
        rate = 0.01 if self.optimizer == "adam" else 0.1
        training = TrainingSpec(epochs=self.num_steps, optimizer=self.optimizer, learning_rate=rate, seed=_SEED)
        return Job(graph=SbmGraph(source="sbm"), model=self.model_for(NUM_FEATURES, NUM_CLASSES), training=training)

    def model_for(self, num_features: int, num_classes: int, width: int = 16) -> ModelSpec:
        """The model, for a graph of such widths; `width` between layers."""
        dropped = {"dropout": self.dropout, "input_dropout": self.input_dropout}
        if self.model == "rgcn":
            widths = [num_features, *[width] * (NUM_LAYERS - 1), num_classes]
            return ModelSpec(kind="module").holding(relational_net(widths, seed=_SEED, **dropped))
        return ModelSpec(kind=self.model, num_layers=NUM_LAYERS, hidden_channels=width, heads=4, **dropped)

    @property
    def num_levels(self) -> int:
        """Aggregations between the features and the logits."""
        return NUM_LAYERS if self.model == "rgcn" else num_levels(self.job.model)


def cases(quick: bool) -> Iterator[Case]:
    """Of every model: parts, formats, labels and dropout by themselves, then techniques together."""
    found = chain.from_iterable(_of_model(model, quick) for model in KINDS)
    yield from (replace(case, num_steps=FEW_STEPS) for case in found) if quick else found


def sliced_cases(quick: bool) -> Iterator[Case]:
    """Of every model: workers in one group and in two, in 1, 3 and 7 chunks, without and with a pipeline."""
    chunks = (3,) if quick else (1, 3, 7)
    for model, num_groups, num_chunks, pipelined in product(KINDS, (1, 2), chunks, (False, True)):
        beside = ("destination_chunks", *(("overlap",) if pipelined else ()))
        yield Case(
            model,
            beside,
            "aggregate_first",
            "feature_slices",
            dropout=0.5,
            num_chunks=num_chunks,
            waits_late=pipelined,
            num_groups=num_groups,
            num_steps=FEW_STEPS if quick else NUM_STEPS,
        )


SETS = {"all": cases, "slices": sliced_cases}
"""Cases by the name of their set."""


def _of_model(model: str, quick: bool) -> Iterator[Case]:
    composed = chain(*(_composed(model, layout, quick) for layout in LAYOUTS), _in_groups(model))
    return chain(_plain(model, quick), _quick(composed) if quick else composed)


def _quick(cases: Iterable[Case]) -> Iterator[Case]:
    """Every pair on one model, in the first layout that allows it, and on attention what has no pair."""
    seen: set[tuple[frozenset[str], int]] = set()
    for case in cases:
        pair = frozenset(case.techniques)
        if case.model in _WITHOUT_PAIRS:
            is_quick = not pair
        else:
            is_quick = case.model == "sage" or (case.model == "gat" and len(pair) != 2)
        if is_quick and (len(pair) != 2 or (pair, case.num_chunks) not in seen):
            seen.add((pair, case.num_chunks))
            yield case


def _plain(model: str, quick: bool) -> Iterator[Case]:
    """Without dropout by Adam on METIS parts: with it Adam turns a near-zero gradient's rounding into a whole step."""
    orders = [Case(model)] if model in _WITHOUT_FILTERS else [Case(model), Case(model, op_order="aggregate_first")]
    if model not in _WITHOUT_FILTERS:
        orders.append(Case(model, ("first_aggregation",), "aggregate_first"))
    for case in orders:
        yield replace(case, optimizer="adam")
        if not quick:
            yield replace(case, partitioner="ranges")
            yield replace(case, techniques=(*case.techniques, "replicas"), optimizer="adam", share=1.0)
    yield Case(model, optimizer="adam", multilabel=True)
    dropping = Case(model, dropout=0.5, input_dropout=0.3)
    yield from (dropping, replace(dropping, techniques=("sparse_features",)))
    if model not in _WITHOUT_FILTERS:
        yield replace(dropping, op_order="aggregate_first")


def _composed(model: str, layout: str, quick: bool) -> Iterator[Case]:
    """No technique, each alone, every pair that is allowed, and all that go together."""
    names = [name for name in (*EXACT, *NOT_EXACT) if model not in _WITHOUT_FILTERS or name not in _ON_SUMS]
    for count in (1, 7):
        beside = ("destination_chunks", "overlap")
        yield Case(model, beside, "aggregate_first", layout, num_chunks=count, waits_late=count > 1)
    together = [_together([name for name in names if name not in ("feature_cache", *out)], layout) for out in _APART]
    for group in ((), *((name,) for name in names), *combinations(names, 2), *together):
        if not is_allowed((layout, *group)) or (len(group) == 2 and model in _WITHOUT_PAIRS):
            continue
        is_on_sums = bool(set(group) & set(_ON_SUMS)) or model in _WITHOUT_FILTERS
        orders = ("aggregate_first",) if is_on_sums else ("multiply_first", "aggregate_first")
        for order in orders[-1:] if quick and len(group) < 2 else orders[:1] if quick else orders:
            yield Case(model, group, order, layout, dropout=0.5)


def _in_groups(model: str) -> Iterator[Case]:
    """Two groups of workers that own rows: no technique, each exact one alone, and all of them that go together."""
    layout = "feature_slices"
    names = [name for name in EXACT if model not in _WITHOUT_FILTERS or name not in _ON_SUMS]
    for group in ((), *((name,) for name in names), _together(names, layout)):
        if is_allowed((layout, *group)):
            yield Case(model, group, "aggregate_first", layout, dropout=0.5, num_groups=2)


def _together(names: Sequence[str], layout: str) -> tuple[str, ...]:
    """As many as go together, those that come first before others."""
    group: tuple[str, ...] = ()
    for name in names:
        group = (*group, name) if is_allowed((layout, *group, name)) else group
    return group


def needed(names: Collection[str]) -> tuple[str, ...]:
    """What others of these techniques need."""
    return tuple(each.name for each in needed_beside([technique(name) for name in names]))


def is_allowed(names: Collection[str]) -> bool:
    """Whether these techniques go together, by the one function that says so.

    A plan has a layout and an operator order: where none is named, some layout must do.
    """
    layouts = [name for name in names if name in LAYOUTS]
    others = {"operator_order", *names, *needed(names)} - {*layouts}
    return any(_are_allowed([*(layouts or [layout]), *others]) for layout in LAYOUTS)


def _are_allowed(names: Sequence[str]) -> bool:
    return not refusals([Choice(name, technique(name).Decision()) for name in names], ANY)


def cycle_of(case: Case, graph: Graph, part: np.ndarray, size: int) -> Cycle:
    """The programs of a case, which hand their logits out."""
    job = case.job
    forward = _forward(job, graph)
    forward = replace(forward, results=forward.results | {logits_of(forward)})
    training = job.training
    optimizer = Optimizer.of(training)
    cycle = compose(forward, choices_of(case, part, size), Situation(job.model, size, (0,) * size), optimizer)
    return replace(cycle, results=cycle.results | {logits_of(cycle)})  # their rows, where they were made in columns


def _forward(job: Job, graph: Graph) -> Cycle:
    masks, seed = (graph.train_mask, graph.val_mask, graph.test_mask), job.training.seed
    entries, model = sp.csr_matrix(graph.x).getnnz(1), job.model

    def matrix_of(kind: AnyAggregation) -> sp.csr_matrix:
        return any_matrix(graph.num_nodes, graph.edge_index, kind, graph.edge_values)

    matrix = matrix_of("sum" if model.kind == "module" else model.kind)
    sizes = (matrix, graph.num_features, graph.num_classes, masks, entries, graph.is_multilabel, graph.edge_values)
    if model.kind == "module":
        return module_cycle(model.held, Task(*sizes), matrix_of, seed=seed, dense_features=True)[0]
    return forward_cycle(model, Task(*sizes), seed=seed, dense_features=True)


def choices_of(case: Case, part: np.ndarray, size: int) -> list[Choice]:
    """What a case chooses of every technique, where worker `part[v]` owns vertex v."""
    chosen = [_layout(case, part, size)]
    filters = (f"convs_{k}/filter" if case.model == "rgcn" else f"l{k}/filter" for k in range(NUM_LAYERS))
    chosen.append(_choice("operator_order", of=dict.fromkeys(filters, case.op_order)))
    decided: dict[str, dict] = {
        "destination_chunks": {"num_chunks": case.num_chunks},
        "offload": {"to": case.outside},
        "overlap": {"waits_late": case.waits_late},
    }
    return chosen + [
        _choice(name, _arrays(name, case, part, size), **decided.get(name, {}))
        for name in (*case.techniques, *needed(case.techniques))
    ]


def _layout(case: Case, part: np.ndarray, size: int) -> Choice:
    if case.layout == "halo_exchange":
        return _choice(case.layout, {"part": part.astype(np.int32)})
    group = part // (size // case.num_groups) if case.num_groups > 1 else part[:0]
    return _choice(case.layout, {"group": group.astype(np.int32)}, num_groups=case.num_groups)


def logits_of(cycle: Cycle) -> str:
    """The value that the evaluation counts right ones in."""
    return next(op.reads[0] for op in cycle.programs[EVALUATE] if op.kind == "hits")


def _choice(name: str, arrays: dict[str, np.ndarray] | None = None, **decision) -> Choice:
    return Choice(name, technique(name).Decision(**{**_DECISIONS.get(name, {}), **decision}), arrays or {})


def _arrays(name: str, case: Case, part: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """A random share of all rows that a worker does not own, at every level that the technique is about."""
    if not technique(name).arrays:
        return {}
    rng, rows = np.random.default_rng(len(name)), []
    levels = [0] if name == "feature_cache" else range(case.num_levels)
    for level in levels:
        for worker in range(size):
            chosen = np.flatnonzero((rng.random(len(part)) < case.share) & (part != worker))
            rows.append(np.stack([np.full(len(chosen), level), np.full(len(chosen), worker), chosen]))
    (array,) = technique(name).arrays
    return {array: np.concatenate(rows, axis=1).astype(np.int32)}


def hard_graph(multilabel: bool, num_nodes: int = 240, num_classes: int = NUM_CLASSES) -> Graph:
    """Directed, with self loops, repeated edges and isolated vertices, skewed, mostly zero features, typed edges."""
    rng = np.random.default_rng(7)
    connected = num_nodes - 12
    source = (connected * rng.random(1800) ** 2).astype(np.int32)
    target = rng.integers(0, connected, 1800).astype(np.int32)
    loops = rng.integers(0, connected, 40).astype(np.int32)
    edges = np.stack([np.concatenate([source, loops, source[:60]]), np.concatenate([target, loops, target[:60]])])
    x = rng.standard_normal((num_nodes, NUM_FEATURES)).astype(np.float32)
    x[rng.random(x.shape) < 0.75] = 0
    y = rng.integers(0, num_classes, num_nodes)
    labels = (rng.random((num_nodes, num_classes)) < 0.3).astype(np.float32) if multilabel else y
    train = rng.random(num_nodes) < 0.5
    types = {EDGE_TYPE: rng.integers(0, NUM_TYPES, edges.shape[1])}
    return Graph(num_nodes, edges, x, labels, train, ~train, ~train, num_classes, "hard", types).validate()


def without_training_in_last_part(graph: Graph, part: np.ndarray, num_workers: int) -> Graph:
    """Leaves one worker without a training vertex, which must change nothing."""
    if num_workers == 1:
        return graph
    return replace(graph, train_mask=graph.train_mask & (part != num_workers - 1))
