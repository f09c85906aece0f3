"""A user's own module as forward programs of one logical worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn
from torch_geometric.nn import MessagePassing

from gnnplan.planner.losses import OF_CLASSES, usual_loss
from gnnplan.planner.models.forward import FEATURES, Task, add_end, add_features, add_targets
from gnnplan.planner.models.fuse import fuse
from gnnplan.planner.models.hooks import check_hooks
from gnnplan.planner.models.interpret import write_module
from gnnplan.planner.models.known_modules import OF_MODES
from gnnplan.planner.models.lines import line_of_class
from gnnplan.planner.models.vocabulary import Writer
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Space
from gnnplan.planner.relations import AnyAggregation
from gnnplan.profiles.errors import UserError

MatrixOf = Callable[[AnyAggregation], sp.csr_matrix]


def module_cycle(
    module: nn.Module, task: Task, matrix_of: MatrixOf, *, seed: int, dense_features: bool = False
) -> tuple[Cycle, dict[AnyAggregation, sp.csr_matrix]]:
    """The forward programs of training and of evaluation, and the aggregations that they use.

    The module is traced in both modes and left in the one it had. Parameters have its own `state_dict` keys.

    Args:
        task: whose own matrix is not looked at.
        matrix_of: the matrix of an aggregation, asked for once each.
        dense_features: as `gnnplan.planner.models.forward.forward_cycle` has it.

    Raises:
        UserError: naming what has no operators, the line of it, and why.
    """
    state = Parameters.of(module)
    entries = {} if task.feature_entries is None else {FEATURES: task.feature_entries}
    emitter = Emitter(Cycle(1, seed=seed, arrays=Arrays(entries=entries)))
    n = len(task.masks[0])
    emitter.add_space(Space("v@0", (n,), (n,), 0), [np.arange(n)])
    add_features(emitter, task, dense_features=dense_features)
    used: dict[AnyAggregation, sp.csr_matrix] = {}
    for name, training in (("train", True), (EVALUATE, False)):
        w = Writer(emitter, matrix_of, n, state.shapes, state.names, training, used=used, paths=state.paths)
        w.is_softmax_last = (task.loss or usual_loss(task.is_multilabel)) == OF_CLASSES and task.pairs is None
        emitter.begin()
        with _in_mode(module, training=training):
            _check_modes(module, training=training)
            logits = write_module(w, module, FEATURES, task.edge_values)
        _check_logits(module, w, logits, task)
        if training:
            add_targets(emitter, task, w.level(logits))
        add_end(emitter, task, logits, training=training)
        emitter.end(name)
    if not emitter.cycle.parameters:
        raise UserError(f"{line_of_class(module)}: {type(module).__name__} has no parameter that its result needs")
    check_hooks(module)
    cycle = replace(emitter.cycle, order=("train",), results=frozenset({"loss", "hits"}))
    return fuse(cycle), used


def check_float32(module: nn.Module) -> None:
    """`UserError` where a parameter is of another type than those of features, which workers multiply it with."""
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise UserError(f"{line_of_class(module)}: {name} is {parameter.dtype}; call .float() of the module")


@dataclass(frozen=True)
class Parameters:
    """A module's parameters by name; one that a module has twice is one.

    Args:
        shapes: by the first name of each.
        names: of every name the first one of the same parameter.
        paths: of every part, by its identity, the first of its names.
    """

    shapes: Mapping[str, tuple[int, ...]]
    names: Mapping[str, str]
    paths: Mapping[int, str]

    @classmethod
    def of(cls, module: nn.Module) -> Parameters:
        """Raises `UserError` where some have no values yet, or are not to be trained."""
        first: dict[int, str] = {}
        names = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise UserError(f"{line_of_class(module)}: {name} has no shape yet; give the layer its input width")
            names[name] = first.setdefault(id(parameter), name)
            if not parameter.requires_grad:
                raise UserError(f"{line_of_class(module)}: {name} is frozen, and all parameters are trained")
        shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
        parts = reversed(list(module.named_modules(remove_duplicate=False)))
        return cls(shapes, names, {id(part): name for name, part in parts})


@contextmanager
def _in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """Sets a module's mode, and that of its parts, for a while."""
    before = [(each, each.training) for each in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for each, mode in before:
            each.training = mode


def _check_modes(module: nn.Module, *, training: bool) -> None:
    """Parts that keep a mode of their own, by a `train` that the user has written, have no operators."""
    for path, each in module.named_modules():
        if each.training != training and isinstance(each, (*OF_MODES, MessagePassing)):
            kept, other = ("training", "is evaluated") if each.training else ("evaluation", "trains")
            raise UserError(
                f"{line_of_class(module)}: {path} stays in {kept} while the model {other}; let it take the model's mode"
            )


def _check_logits(module: nn.Module, w: Writer, logits: str, task: Task) -> None:
    if w.width(logits) != task.num_classes:
        raise UserError(
            f"{line_of_class(module)}: {type(module).__name__} makes {w.width(logits)} columns, and "
            + (f"graph.link.width is {task.num_classes}" if task.pairs else f"the graph has {task.num_classes} classes")
        )
