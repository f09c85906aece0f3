"""Loss, sums over workers, and the optimizer's step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation

ONE = parameter_space(1)
EVALUATING = ("hits", "scores", "ranks")
"""Kinds that look at logits, or at scores of pairs, to say how good they are."""


def _loss_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    # The gradient was made forward, in the same pass over the rows; the loss itself is never scaled.
    d.give(op.reads[0], op.writes[1])


def rows_of_loss(cycle: Cycle, op: Operator) -> tuple[int, ...]:
    """Rows that a loss is of, by worker."""
    index = op.attributes.get("index")
    space = cycle.values[op.reads[0]].space if index is None else cycle.indexes[index].target
    return cycle.spaces[space].sizes


LOSS = register(
    Kind(
        "loss",
        "w0 = the loss of logits r0 against labels r1 over the rows of `index` (else all), over `denominator`; w1 its "
        "gradient",
        (Need.OWN,),
        lambda cycle, op: (Value("", ONE, 1), *like()(cycle, op)),
        _loss_derive,
    )
)


def _counted(num_rows: int, width: int) -> Value:
    return Value("", parameter_space(num_rows), width)


HITS = register(
    Kind(
        "hits",
        "w = what `metric` sums up (right ones and all), of logits r0 against labels r1 over the rows of each of "
        "`indexes`",
        (Need.OWN,),
        lambda cycle, op: (
            Value("", parameter_space(len(op.attributes["indexes"])), op.attributes.get("num_sums", 2)),
        ),
    )
)
SCORES = register(
    Kind(
        "scores",
        "w = of each of `num_nodes` vertices scores by logits r0, labels r1, and which of `indexes` it is in; zeros of "
        "those that are others'",
        (Need.OWN,),
        lambda cycle, op: (_counted(op.attributes["num_nodes"], 2 * cycle.values[op.reads[0]].width + 3),),
    )
)


def _all_reduce_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("all_reduce", grad))


ALL_REDUCE = register(
    Kind(
        "all_reduce",
        "w = r0 summed over all workers; with `group` over those that are ready, as it stands for all",
        (Need.WHOLE,),
        like(),
        _all_reduce_derive,
        collective=True,
        inplace=(0,),
    )
)
FLATTEN = register(
    Kind(
        "flatten",
        "w = all reads in one row",
        (Need.WHOLE,),
        lambda cycle, op: (Value("", ONE, sum(cycle.num_elements(name, 0) for name in op.reads)),),
    )
)
UNFLATTEN = register(
    Kind(
        "unflatten",
        "w = views of r0, shaped like the values `like`",
        (Need.WHOLE,),
        lambda cycle, op: tuple(
            Value("", cycle.values[name].space, cycle.values[name].width) for name in op.attributes["like"]
        ),
    )
)


def _step_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    changed = (*op.attributes["parameters"], *op.attributes["cells"])
    return tuple(Value("", cycle.values[name].space, cycle.values[name].width) for name in changed)


STEP = register(
    Kind(
        "step",
        "parameters and the optimizer's cells after a step along the gradients; reads are parameters, gradients, cells",
        (Need.WHOLE,),
        _step_shape,
    )
)
