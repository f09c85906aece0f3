"""Normalization of rows (Ba et al. 2016) and of columns over all rows of the graph (Ioffe and Szegedy 2015).

Columns are normalized in steps, so that replicas of rows count once and partitions do not matter. Each worker takes the
`moments` of its own rows, one all-reduce brings them together, and `statistics` merges them as Chan, Golub and LeVeque
(1979) do. Shapes: W workers, C columns; moments are [3 W, C], of each worker the mean, the sum of squared deviations
from it, and the number of rows. Other workers' are zero before the all-reduce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator, Value, parameter_space

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation

ROWS_A_WORKER = 3
"""Of moments: mean, squared deviations, number of rows."""


def _layer_norm_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    made = d.emit_all("layer_norm_grad", grad, *op.reads[:2], **op.attributes)
    for name, to in zip(op.reads, made, strict=True):
        d.give(name, to)


def _with_vectors(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    """Rows like those of the gradient, and where there is a weight its gradient and the bias'."""
    width = cycle.values[op.reads[0]].width
    vectors = (Value("", parameter_space(1), width),) * (2 if op.attributes["affine"] else 0)
    return (*like()(cycle, op), *vectors)


LAYER_NORM = register(
    Kind(
        "layer_norm",
        "w = every row of r0 less its mean, over its standard deviation; where `affine` times r1, plus r2",
        (Need.ROW, Need.WHOLE),
        like(),
        _layer_norm_derive,
        by_row=True,
    )
)
LAYER_NORM_GRAD = register(
    Kind(
        "layer_norm_grad",
        "w = the gradients at the rows, at the weight and at the bias, of the gradient r0 of the rows r1, weight r2",
        (Need.ROW, Need.ROW, Need.WHOLE),
        _with_vectors,
    )
)


def _moments_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    return (Value("", parameter_space(ROWS_A_WORKER * cycle.num_workers), cycle.values[op.reads[0]].width),)


def _moments_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("moments_grad", grad, op.reads[0]))


MOMENTS = register(
    Kind(
        "moments",
        "w = of every column of r0 the mean, the squared deviations and the number of rows, at the worker's place",
        (Need.OWN,),
        _moments_shape,
        _moments_derive,
    )
)
MOMENTS_GRAD = register(
    Kind(
        "moments_grad",
        "w = the gradient at the rows r1 of the gradient r0 at their moments",
        (Need.WHOLE, Need.ROW),
        like(1),
        takes_base=True,
    )
)


def _statistics_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    d.add(op.reads[0], lambda: d.emit("statistics_grad", grad, op.reads[0]))


def _statistics_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    return (Value("", parameter_space(2), cycle.values[op.reads[0]].width),)


STATISTICS = register(
    Kind(
        "statistics",
        "w = mean and variance of every column, of the moments r0 of all workers",
        (Need.WHOLE,),
        _statistics_shape,
        _statistics_derive,
    )
)
STATISTICS_GRAD = register(
    Kind("statistics_grad", "w = the gradient at the moments r1 of the gradient r0", (Need.WHOLE,), like(1))
)
RUNNING = register(
    Kind(
        "running_statistics",
        "w = r0 moved towards the statistics r1 by `momentum`; variances of samples, of `num_rows` rows",
        (Need.WHOLE,),
        like(),
    )
)


def _batch_norm_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    to_x, to_statistics, *to_vectors = d.emit_all("batch_norm_grad", grad, *op.reads[:3], **op.attributes)
    for name, to in zip(op.reads, (to_x, to_statistics, *to_vectors), strict=True):
        d.give(name, to)


def _batch_norm_grad_shape(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    rows, *vectors = _with_vectors(cycle, op)
    return (rows, Value("", parameter_space(2), rows.width), *vectors)


BATCH_NORM = register(
    Kind(
        "batch_norm",
        "w = r0 less the mean, over the standard deviation, of the statistics r1; where `affine` times r2, plus r3",
        (Need.ROW, Need.WHOLE),
        like(),
        _batch_norm_derive,
        by_row=True,
    )
)
BATCH_NORM_GRAD = register(
    Kind(
        "batch_norm_grad",
        "w = the gradients at rows, statistics, weight and bias, of the gradient r0 of the rows r1, statistics r2, "
        "weight r3",
        (Need.ROW, Need.ROW, Need.WHOLE),
        _batch_norm_grad_shape,
    )
)
