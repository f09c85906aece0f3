"""One layer of each model, from the value it reads to the value it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.program.emitter import Emitter


@dataclass(frozen=True)
class Layer:
    """A layer that is being written.

    Args:
        dropout: on what it makes.
        is_last: it makes the logits, without ReLU.
    """

    emitter: Emitter
    model: ModelSpec
    number: int
    in_width: int
    out_width: int
    dropout: float
    is_last: bool

    def parameter(self, name: str, *shape: int) -> str:
        """A parameter of the layer's convolution."""
        return self.emitter.add_parameter(f"convs.{self.number}.{name}", *shape)

    def emit(self, kind: str, *reads: str, what: str = "", **attributes) -> str:
        """An operator of the layer."""
        return self.emitter.emit(kind, *reads, key=f"l{self.number}/{what or kind}", **attributes)

    def filter(self, x: str, weights: dict[int, str]) -> str:
        """The sum over hops k of `A^k x W_k`."""
        hops = sorted(weights)
        return self.emit("filter", x, *(weights[hop] for hop in hops), hops=tuple(hops))

    def finish(self, z: str, bias: str, what: str = "activate", *, inner: bool = False) -> str:
        """Bias, and where more follows ReLU and dropout."""
        relu = inner or not self.is_last
        dropout = 0.0 if inner else self.dropout
        return self.emit("activate", z, bias, what=what, relu=relu, dropout=dropout, layer=self.number)


def _gcn(at: Layer, x: str) -> str:
    weight = at.parameter("lin.weight", at.out_width, at.in_width)
    return at.finish(at.filter(x, {1: weight}), at.parameter("bias", at.out_width))


def _gin(at: Layer, x: str) -> str:
    inner = at.parameter("nn.lins.0.weight", at.out_width, at.in_width)
    outer = at.parameter("nn.lins.1.weight", at.out_width, at.out_width)
    z = at.filter(x, {1: inner})
    h = at.finish(z, at.parameter("nn.lins.0.bias", at.out_width), "activate_inner", inner=True)
    product = at.emit("multiply", h, outer, what="multiply_inner")
    return at.finish(product, at.parameter("nn.lins.1.bias", at.out_width))


def _sage(at: Layer, x: str) -> str:
    neighbor = at.parameter("lin_l.weight", at.out_width, at.in_width)
    root = at.parameter("lin_r.weight", at.out_width, at.in_width)
    return at.finish(at.filter(x, {0: root, 1: neighbor}), at.parameter("lin_l.bias", at.out_width))


def _tagcn(at: Layer, x: str) -> str:
    hops = range(at.model.num_hops + 1)
    weights = {hop: at.parameter(f"lins.{hop}.weight", at.out_width, at.in_width) for hop in hops}
    return at.finish(at.filter(x, weights), at.parameter("bias", at.out_width))


def _sgc(at: Layer, x: str) -> str:
    weight = at.parameter("lin.weight", at.out_width, at.in_width)
    return at.finish(at.filter(x, {at.model.num_hops: weight}), at.parameter("lin.bias", at.out_width))


def _linear(at: Layer, x: str, width: int) -> str:
    product = at.emit("multiply", x, at.parameter("lin.weight", width, at.in_width))
    return at.finish(product, at.parameter("lin.bias", width))


def _propagated(at: Layer, start: str, propagate: Callable[[str, int], str]) -> str:
    """All propagations of rows, each of which has some of the first ones."""
    z = start
    for hop in range(at.model.num_hops):
        z = propagate(z, hop)
        if at.model.alpha:
            z = at.emit("add", z, start, what=f"add{hop + 1}", factors=(1 - at.model.alpha, at.model.alpha))
    return z


def _appnp(at: Layer, x: str) -> str:
    """Rows alone, and behind the last ones all propagations (Gasteiger et al. 2019, eq. 5)."""
    rows = _linear(at, x, at.out_width)
    if not at.is_last:
        return rows
    return _propagated(at, rows, lambda z, hop: at.emit("aggregate", z, what=f"aggregate{hop + 1}", block=f"A@{hop}"))


def _decoupled_gat(at: Layer, x: str) -> str:
    """As APPNP, by attention (NeutronTP, eq. 9): of every hop the same, for it follows from the first rows alone."""
    heads = at.model.heads if at.is_last else 1
    rows = _linear(at, x, at.out_width * heads)
    if not at.is_last:
        return rows
    scored = _scored(at, rows, heads, at.out_width, "prop.")

    def propagate(z: str, hop: int) -> str:
        shape: dict[str, Any] = {"block": f"A@{hop}", "heads": heads}
        score = at.emit("score", *scored, what=f"score{hop + 1}", **shape)
        alpha = at.emit("softmax", score, what=f"softmax{hop + 1}", blocks=(f"A@{hop}",), heads=heads)
        return at.emit("weigh", alpha, z, what=f"weigh{hop + 1}", **shape)

    return at.emit("average_heads", _propagated(at, rows, propagate), heads=heads)


def _scored(at: Layer, rows: str, heads: int, width: int, where: str = "") -> tuple[str, str]:
    """Of every row and head a number as the source of an edge, and one as its target; `where` the vectors stand."""
    source, target = (at.parameter(f"{where}att_{side}", 1, heads, width) for side in ("src", "dst"))
    return (
        at.emit("dot", rows, source, what="dot_source", heads=heads),
        at.emit("dot", rows, target, what="dot_target", heads=heads),
    )


def _gat(at: Layer, x: str) -> str:
    heads = at.model.heads
    total = at.out_width * heads if at.is_last else at.out_width  # the last layer averages its heads
    p = at.emit("multiply", x, at.parameter("lin.weight", total, at.in_width))
    scored = _scored(at, p, heads, total // heads)
    level = at.emitter.cycle.spaces[at.emitter.cycle.values[p].space].level
    shape: dict[str, Any] = {"block": f"A@{level}", "heads": heads}
    score = at.emit("score", *scored, **shape)
    alpha = at.emit("softmax", score, blocks=(f"A@{level}",), heads=heads)
    z = at.emit("weigh", alpha, p, **shape)
    if at.is_last:
        z = at.emit("average_heads", z, heads=heads)
    return at.finish(z, at.parameter("bias", at.out_width))


LAYERS: dict[ModelKind, Callable[[Layer, str], str]] = {
    "gcn": _gcn,
    "sage": _sage,
    "gat": _gat,
    "gin": _gin,
    "tagcn": _tagcn,
    "sgc": _sgc,
    "appnp": _appnp,
    "decoupled_gat": _decoupled_gat,
}
