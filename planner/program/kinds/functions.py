"""Any function of single elements, and products of two values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator

if TYPE_CHECKING:
    from gnnplan.planner.program.derive import Derivation

OF_OUTPUT = frozenset({"relu", "tanh", "sigmoid"})
"""Functions whose slope follows from their result, so that their argument need not be kept."""
FUNCTIONS = OF_OUTPUT | {"leaky_relu", "elu", "gelu", "silu", "softplus", "hardtanh"}
"""By torch's names; others are these with other `arguments` (`gnnplan.profiles.kernels.functions`)."""


def _elementwise_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,) = grads
    assert grad
    kept = op.writes[0] if op.attributes["function"] in OF_OUTPUT else op.reads[0]
    d.add(op.reads[0], lambda: d.emit("elementwise_grad", grad, kept, **op.attributes))


ELEMENTWISE = register(
    Kind(
        "elementwise",
        "w = `function` of every element of r0, with `arguments`",
        (Need.ROW,),
        like(),
        _elementwise_derive,
        by_row=True,
        by_column=True,
        inplace=(0,),
    )
)
ELEMENTWISE_GRAD = register(
    Kind(
        "elementwise_grad",
        "w = r0 times the slope of `function`, which r1 tells: its argument, or its result where that is enough",
        (Need.ROW,),
        like(),
        by_row=True,
        inplace=(0,),
    )
)


def _product_derive(d: Derivation, op: Operator, grads: tuple[str | None, ...]) -> None:
    (grad,), (x, y) = grads, op.reads
    assert grad
    d.add(x, lambda: d.emit("product", grad, y))
    d.add(y, lambda: d.emit("product", grad, x))


PRODUCT = register(
    Kind(
        "product",
        "w = r0 times r1, element by element",
        (Need.ROW,),
        like(),
        _product_derive,
        by_row=True,
        by_column=True,
    )
)
