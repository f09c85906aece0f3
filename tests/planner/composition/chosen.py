"""Every technique chosen on a small graph, and the same training as the oracle of labels knows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.composition.refusals import needed_beside
from gnnplan.planner.contracts.technique import LAYOUT, Choice, Situation
from gnnplan.planner.models.forward import Task, forward_cycle, num_levels
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.techniques.registry import technique
from gnnplan.runtime.reference import dense_features
from tests.planner.program.cases import FIRST, LAST, MODELS, NUM_NODES, SGD, Case, codes, subset

NUM_WORKERS, INTERVAL = 3, 2
OPTIMIZER = Optimizer(SGD.optimizer, SGD.learning_rate)
BASE = ("halo_exchange", "operator_order")  # without them there is nothing to play; another layout stands instead
ON_CONSTANTS = ("feature_cache", "first_aggregation")
LABELS = {
    "replicas": Label.MADE,
    "pruning": Label.DROPPED,
    "joint_cache": Label.KEPT,
    "feature_cache": Label.KEPT,
    "host_region": Label.SHARED,
}
ARRAYS = {
    "replicas": "made",
    "pruning": "dropped",
    "joint_cache": "kept",
    "feature_cache": "kept",
    "host_region": "shared",
}
# What attention makes of features depends on parameters from the start, and none of it is a filter.
NOT_FOR_GAT = {"operator_order", *ON_CONSTANTS}


def forward_of(case: Case) -> Cycle:
    """A case's forward program, its filters not expanded and its features dense."""
    graph = case.graph
    task = Task(
        aggregation_matrix(graph.num_nodes, graph.edge_index, case.model.kind),
        graph.num_features,
        graph.num_classes,
        (graph.train_mask, graph.val_mask, graph.test_mask),
        np.count_nonzero(dense_features(graph), axis=1),
    )
    return forward_cycle(case.model, task, seed=case.training.seed, dense_features=True)


@dataclass(frozen=True)
class Chosen:
    """Techniques on a model, by name, and what they stand on."""

    model: str
    names: tuple[str, ...]

    @cached_property
    def case(self) -> Case:
        """What the oracle has to know."""
        model = MODELS[self.model]
        marked: dict[Label, np.ndarray] = {}
        for name, mask in self.masks().items():
            marked[LABELS[name]] = marked.get(LABELS[name], False) | mask
        if "partial_reduce" in self.names:
            marked[Label.LATE] = np.ones((num_levels(model), NUM_WORKERS, NUM_NODES), bool)
        return Case(
            model,
            NUM_WORKERS,
            self.orders(),
            codes(model, NUM_WORKERS, marked),
            interval=INTERVAL if "joint_cache" in self.names else 1,
            sparse="sparse_features" in self.names,
            is_late="partial_reduce" in self.names,
        )

    def orders(self) -> tuple[str, ...]:
        """By layer; where something is to be constant the first layer aggregates first."""
        if {"operator_order", "destination_chunks", "offload"} & set(self.names):
            return (FIRST, LAST, FIRST)
        return (FIRST,) if set(self.names) & set(ON_CONSTANTS) else ()

    def masks(self) -> Mapping[str, np.ndarray]:
        """Bool [levels, W, N]: rows that each technique chose."""
        model = MODELS[self.model]
        found = {name: subset(model, NUM_WORKERS, 90 + i, 0.4) for i, name in enumerate(LABELS) if name in self.names}
        if "feature_cache" in found:
            found["feature_cache"][1:] = False
        return found

    def base(self) -> tuple[str, ...]:
        """What stands below the techniques: of layouts, one."""
        has_layout = any(LAYOUT in technique(name).claims for name in self.names)
        needed = needed_beside([technique(name) for name in self.names])
        return (*(BASE[1:] if has_layout else BASE), *(each.name for each in needed))

    def choices(self, *, reordered: bool = True) -> list[Choice]:
        """Those of the base come too; `reordered`: with the orders of layers, else each multiplies first."""
        orders = {f"l{layer}/filter": order for layer, order in enumerate(self.orders())} if reordered else {}
        decisions = {"operator_order": {"of": orders}, "joint_cache": {"interval": INTERVAL}}
        arrays: dict[str, dict[str, np.ndarray]] = {
            "halo_exchange": {"part": self.case.part.astype(np.int32)},
            "feature_slices": {"group": np.empty(0, np.int32)},
        }
        for name, mask in self.masks().items():
            arrays[name] = {ARRAYS[name]: np.argwhere(mask).T.astype(np.int32)}
        return [
            Choice(name, technique(name).Decision(**decisions.get(name, {})), arrays.get(name, {}))
            for name in dict.fromkeys((*self.base(), *self.names))
        ]


@cache
def cycle_of(chosen: Chosen) -> Cycle:
    """What is composed of the choices."""
    return composed(chosen.case, chosen.choices())


def composed(case: Case, choices: Iterable[Choice]) -> Cycle:
    """Choices on a case's forward program."""
    return compose(forward_of(case), list(choices), situation_of(case), OPTIMIZER)


def situation_of(case: Case) -> Situation:
    """The last worker has a host of its own."""
    return Situation(case.model, case.num_workers, (*(0,) * (case.num_workers - 1), 1))


def not_in_place(cycle: Cycle) -> Cycle:
    """The same with storage of its own for everything that is written."""
    return cycle.with_programs(lambda program: tuple(replace(op, inplace=None) for op in program))
