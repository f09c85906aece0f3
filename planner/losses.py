"""The losses that a job may name, and which labels each of them is of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gnnplan.profiles.errors import UserError

if TYPE_CHECKING:
    from gnnplan.planner.graph import Graph

OF_CLASSES, OF_SETS = "cross_entropy", "bce"
OF_TARGETS = ("mse", "l1")
LOSSES = (OF_CLASSES, OF_SETS, *OF_TARGETS)


def is_own(name: str) -> bool:
    """Whether a loss is a function in a file of the user's."""
    return ":" in name


def check_name(name: str) -> None:
    """Raises `ValueError` where there is no such loss."""
    if name in ("auto", *LOSSES):
        return
    file, _, function = name.rpartition(":")
    if not (Path(file).suffix == ".py" and function.isidentifier()):
        raise ValueError(f"loss is {name!r}; it is auto, {', '.join(LOSSES)}, or a function in a file: my.py:loss")


def usual_loss(is_multilabel: bool) -> str:
    """The loss of labels where a job says none: matrices are label sets."""
    return OF_SETS if is_multilabel else OF_CLASSES


def counts_elements(name: str) -> bool:
    """Whether the mean is over rows and columns, as torch has it, and not over rows alone."""
    return name in (OF_SETS, *OF_TARGETS)


def loss_of(name: str, graph: Graph) -> str:
    """The loss that a job names, on a graph; `UserError` where the graph's labels are not of its kind."""
    if graph.pairs:
        if name in ("auto", OF_SETS):
            return OF_SETS
        raise UserError(f"{graph.name}: training.loss {name!r} is of vertices; pairs have {OF_SETS!r}, so leave it out")
    if is_own(name):
        return name
    found = usual_loss(graph.is_multilabel) if name == "auto" else name
    if found == OF_CLASSES and graph.is_multilabel:
        raise UserError(f"{graph.name}: training.loss {found!r} is of classes, and every vertex has a row of labels")
    if found != OF_CLASSES and not graph.is_multilabel:
        raise UserError(
            f"{graph.name}: training.loss {found!r} is of rows of numbers, and the labels are classes; write "
            f'label_kind = "targets" in the [graph] of the job'
        )
    if found == OF_SETS and not graph.holds_sets:
        raise UserError(
            f'{graph.name}: labels of {found!r} must hold only 0 and 1; for numbers write loss = "mse" or "l1" in '
            f"the [training] of the job"
        )
    return found
