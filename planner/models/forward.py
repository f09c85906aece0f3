"""PyG's models as forward programs: one logical worker that owns every vertex.

Parameters are named by their key in the `state_dict` of `torch_geometric.nn.models`, so checkpoints load there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.losses import counts_elements, is_own, usual_loss
from gnnplan.planner.metrics import num_sums, usual_metric
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models import layers
from gnnplan.planner.models.pair_end import add_pairs, end_with_pairs
from gnnplan.planner.pairs import Pairs
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.in_use import whole_block
from gnnplan.planner.program.kinds.reduce import EVALUATING
from gnnplan.planner.program.parts import Index, Space, Value

FEATURES, LABELS = "x", "y"
MASKS = ("train", "val", "test")
INPUT_LAYER = 2**32 - 1  # the dropout stream of the input features, apart from every layer's


@dataclass(frozen=True)
class Task:
    """What is trained on: the graph's sizes, its aggregation matrix, and its splits.

    Args:
        matrix: CSR [N, N], row i gathers what vertex i aggregates.
        feature_entries: int64 [N], stored entries of every row of the features where they are sparse (None: dense).
        masks: bool [N] of training, validation and test vertices.
        edge_values: [E] or [E, D] that a module of one's own may ask for, by the name of its argument.
        is_multilabel: labels are [N, C] and independent, or targets.
        loss: of the job, as `gnnplan.planner.losses` has it (empty: the usual one of such labels).
        loss_sha256: of the file of one's own.
        metric: as `gnnplan.planner.metrics` has it (empty: the usual one of classes or label sets).
        pairs: of a link prediction (None: of labels).
    """

    matrix: sp.csr_matrix
    num_features: int
    num_classes: int
    masks: tuple[np.ndarray, np.ndarray, np.ndarray]
    feature_entries: np.ndarray | None = None
    is_multilabel: bool = False
    edge_values: Mapping[str, np.ndarray] = field(default_factory=dict)
    loss: str = ""
    loss_sha256: str = ""
    metric: str = ""
    pairs: Pairs | None = None

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.masks[0])

    @property
    def loss_denominator(self) -> int:
        """What the summed loss is divided by: training vertices, times classes where labels are independent."""
        name = self.loss or usual_loss(self.is_multilabel)
        return int(self.masks[0].sum()) * (self.num_classes if counts_elements(name) else 1)

    @property
    def named_loss(self) -> dict[str, str]:
        """Attributes of the loss where it is not the usual one."""
        if self.loss in ("", usual_loss(self.is_multilabel)):
            return {}
        return {"loss": self.loss} | ({"sha256": self.loss_sha256} if is_own(self.loss) else {})

    @property
    def named_metric(self) -> dict[str, str | int]:
        """Attributes of what is counted where it is not what is usual of such labels."""
        if self.metric in ("", usual_metric("", self.is_multilabel)):
            return {}
        return {"metric": self.metric, "num_sums": num_sums(self.metric, self.num_classes)}


def layer_widths(model: ModelSpec, num_features: int, num_classes: int) -> list[tuple[int, int]]:
    """(input width, output width) of every layer; GAT's hidden width counts all heads."""
    return list(pairwise([num_features, *[model.hidden_channels] * (model.num_layers - 1), num_classes]))


def num_levels(model: ModelSpec) -> int:
    """Aggregations between the input features and the logits."""
    return sum(model.hops_of_layers)


def forward_cycle(model: ModelSpec, task: Task, *, seed: int, dense_features: bool = False) -> Cycle:
    """The forward programs of training and of evaluation.

    Args:
        dense_features: features are dense, and `arrays.entries` says how many entries sparse ones would have. That is
            what a technique starts from. Else they are sparse already where the task has entries.
    """
    entries = {} if task.feature_entries is None else {FEATURES: task.feature_entries}
    emitter = Emitter(Cycle(1, seed=seed, arrays=Arrays(entries=entries)))
    _add_graph(emitter, task, num_levels(model), dense_features=dense_features)
    programs = {"train": True, EVALUATE: False}
    for name, training in programs.items():
        emitter.begin()
        _add_model(emitter, model, task, training=training)
        emitter.end(name)
    return replace(emitter.cycle, order=("train",), results=frozenset({"loss", "hits"}))


def _add_graph(emitter: Emitter, task: Task, levels: int, *, dense_features: bool) -> None:
    n, everything = task.num_nodes, np.arange(task.num_nodes)
    for level in range(levels + 1):
        emitter.add_space(Space(f"v@{level}", (n,), (n,), level), [everything])
    whole = whole_block("A@0", "v@1", "v@0", task.matrix)
    for level in range(levels):
        block = whole.part(f"A@{level}", whole.num_edges, row=f"v@{level + 1}", column=f"v@{level}")
        emitter.add_block(block, [task.matrix])
    add_features(emitter, task, dense_features=dense_features)
    add_targets(emitter, task, levels)


def add_features(emitter: Emitter, task: Task, *, dense_features: bool) -> None:
    """The input rows, at level 0; `dense_features` as `forward_cycle` has it."""
    features = Value(FEATURES, "v@0", task.num_features, role="input")
    if task.feature_entries is not None and not dense_features:
        features = replace(features, layout="csr", num_entries=(int(task.feature_entries.sum()),))
    emitter.add_value(features)


def add_targets(emitter: Emitter, task: Task, levels: int) -> None:
    """Labels and splits, at the level of the logits; or pairs, of embeddings at that level."""
    if task.pairs:
        add_pairs(emitter, task.pairs, task.num_nodes, levels)
        return
    for name, mask in zip(MASKS, task.masks, strict=True):
        rows = np.flatnonzero(mask)
        emitter.add_space(Space(name, (len(rows),)), [rows])
        emitter.add_index(Index(name, f"v@{levels}", name), [rows])
    labels = Value(LABELS, f"v@{levels}", 1, role="input", dtype="int64")
    if task.is_multilabel:
        labels = Value(LABELS, f"v@{levels}", task.num_classes, role="input")
    emitter.add_value(labels)


def _add_model(emitter: Emitter, model: ModelSpec, task: Task, *, training: bool) -> None:
    h, widths = FEATURES, layer_widths(model, task.num_features, task.num_classes)
    if training and model.input_dropout:
        h = emitter.emit("dropout", h, key="input/dropout", probability=model.input_dropout, layer=INPUT_LAYER)
    for layer, (in_width, out_width) in enumerate(widths):
        is_last = layer == len(widths) - 1
        dropout = model.dropout if training and not is_last else 0.0
        at = layers.Layer(emitter, model, layer, in_width, out_width, dropout, is_last)
        h = layers.LAYERS[model.kind](at, h)
    add_end(emitter, task, h, training=training)


def add_end(emitter: Emitter, task: Task, logits: str, *, training: bool) -> None:
    """What ends a program: the loss, or where it evaluates, how many are right."""
    if task.pairs:
        end_with_pairs(emitter, task.pairs, task.metric, logits, training=training)
        return
    targets: dict[str, Any] = {"multilabel": task.is_multilabel}
    if training:
        targets |= {"index": MASKS[0], "denominator": task.loss_denominator, **task.named_loss}
        emitter.emit_all("loss", logits, LABELS, key="loss", **targets)
        return
    is_ranked = task.metric == "roc_auc"
    targets = {"indexes": MASKS} | targets | ({"num_nodes": task.num_nodes} if is_ranked else task.named_metric)
    counted = emitter.emit("scores" if is_ranked else "hits", logits, LABELS, key="evaluate/count", **targets)
    emitter.emit("all_reduce", counted, key="evaluate/reduce", writes=("hits",))


def measured_metric(cycle: Cycle) -> str:
    """The metric that a cycle's evaluation counts."""
    op = next(op for op in cycle.programs[EVALUATE] if op.kind in EVALUATING)
    if op.kind == "scores":
        return "roc_auc"
    if op.kind == "ranks":
        return op.attributes["metric"]
    return op.attributes.get("metric") or usual_metric("", op.attributes["multilabel"])
