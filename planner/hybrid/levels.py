"""What a row of every level costs: made here by a replica, or fetched from its owner."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import NonNegativeInt

from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import LayerDecision, Program, layer_widths
from gnnplan.profiles.contract import Contract

_ENTRY_BYTES = 8  # int32 column and float32 value of a CSR entry


class Levels(Contract):
    """Work and bytes of one row at each level: what every gather of the model reads, level 0 the input.

    A replica of a level's row is the same row made by a worker that does not own the vertex. Models that gather
    once a layer have a level l in 0..L-1 for layer l + 1; TAGCN has as many a layer as hops.

    Args:
        first: the lowest level at which rows travel; above 0 where the aggregated input is held from before training.
        row_widths: floats of a row as it travels: of its product where the layer multiplies first.
        vertex_widths: dense work of one replica, in dimensions; times T_v it is seconds.
        edge_widths: sparse work of one entry of its matrix row, in dimensions; times T_e it is seconds.
        vertex_bytes, entry_bytes: what one replica holds, and each entry of its matrix row.
    """

    first: NonNegativeInt
    row_widths: tuple[NonNegativeInt, ...]
    vertex_widths: tuple[NonNegativeInt, ...]
    edge_widths: tuple[NonNegativeInt, ...]
    vertex_bytes: tuple[NonNegativeInt, ...]
    entry_bytes: tuple[NonNegativeInt, ...]

    @property
    def count(self) -> int:
        """The number of levels: gathers of the model."""
        return len(self.row_widths)

    @property
    def num_hops(self) -> int:
        """How far from the halo the furthest vertex lies that a replica may need."""
        return max(0, self.count - 1 - self.first)


def why_not(model: ModelSpec, layers: tuple[LayerDecision, ...]) -> str | None:
    """None where replicas of the model's rows can be made from rows that travel, else the reason in words."""
    if model.kind == "tagcn" and any(layer.op_order == "multiply_first" for layer in layers):
        return "tagcn adds a vertex's own products between hops, which do not travel where it multiplies first"
    multiplied = any(layer.op_order == "multiply_first" for layer in layers[:-1])
    if model.kind == "sage" and multiplied:
        return "sage adds a vertex's own row, which does not travel where the layer multiplies first"
    return None


def sparse_row_bytes(program: Program, shapes: Sequence[WorkerShape]) -> int | None:
    """Bytes of a replica's input row of sparse features, in CSR and in its transpose (None: features are dense).

    Replicas' rows are taken to have as many entries as the workers' own ones, in every hop that is held.
    """
    if not any(step.sparse for step in program.steps):
        return None
    hops = [int(name[1:]) for name in program.precomputed] or [0]
    num_entries = sum(shape.hop_entries[hop] for shape in shapes for hop in hops)
    num_rows = max(1, sum(shape.num_local for shape in shapes))
    return -(-2 * _ENTRY_BYTES * num_entries // num_rows)


def levels_of(
    model: ModelSpec,
    layers: tuple[LayerDecision, ...],
    num_features: int,
    num_classes: int,
    *,
    input_bytes: int | None = None,
) -> Levels:
    """The levels of a model under the planner's decisions, one per layer; `why_not` comes first.

    NeutronCloud's equations 5 to 7 and 12 have one d(l) for everything. Here a row counts at the width it
    travels at, an edge at the width that is gathered over it, and a vertex at d(l) plus its product where
    the next layer multiplies first.

    Args:
        input_bytes: of a replica's input row, `sparse_row_bytes` (None: dense features).
    """
    assert why_not(model, layers) is None, why_not(model, layers)
    if model.kind == "tagcn":
        return _levels_of_hops(model, layers[0].precompute, num_features, num_classes, input_bytes)
    widths = layer_widths(model, num_features, num_classes)
    held = [pair[0] for pair in widths]
    precompute = layers[0].precompute
    products = [
        _product_width(model, layer, out_width, is_last=level == model.num_layers - 1)
        for level, (layer, (_, out_width)) in enumerate(zip(layers, widths))
    ]
    rows = [product or width for product, width in zip(products, held)]
    static_bytes = num_features * FLOAT_BYTES
    if precompute:
        rows[0] = products[0] = 0
        # SAGE multiplies the features themselves as well as their aggregation.
        static_bytes *= 2 if model.kind == "sage" else 1
    static_bytes = static_bytes if input_bytes is None else input_bytes
    edges = [0, *rows[:-1]]
    return Levels(
        first=int(precompute),
        row_widths=tuple(rows),
        vertex_widths=tuple((width if level else 0) + products[level] for level, width in enumerate(held)),
        edge_widths=tuple(edges),
        vertex_bytes=tuple(
            (width * FLOAT_BYTES if level else 0)
            + products[level] * FLOAT_BYTES
            + (static_bytes if level == int(precompute) else 0)
            for level, width in enumerate(held)
        ),
        entry_bytes=tuple(_ENTRY_BYTES if width else 0 for width in edges),
    )


def _levels_of_hops(
    model: ModelSpec, precompute: bool, num_features: int, num_classes: int, input_bytes: int | None
) -> Levels:
    """TAGCN's, aggregated first: hop k of layer i is level K i + k; all hops' rows are multiplied after the last."""
    hops = model.num_hops
    held = [width for width, _ in layer_widths(model, num_features, num_classes) for _ in range(hops)]
    first = hops if precompute else 0
    rows = [0] * first + held[first:]
    edges = [0, *rows[:-1]]
    dense_bytes = num_features * FLOAT_BYTES * (hops + 1 if precompute else 1)
    static_bytes = dense_bytes if input_bytes is None else input_bytes
    return Levels(
        first=first,
        row_widths=tuple(rows),
        vertex_widths=tuple(
            (hops + 1) * width if level and not level % hops else 0 for level, width in enumerate(held)
        ),
        edge_widths=tuple(edges),
        vertex_bytes=tuple(
            (width * FLOAT_BYTES if level else 0) + (static_bytes if level == first else 0)
            for level, width in enumerate(held)
        ),
        entry_bytes=tuple(_ENTRY_BYTES if width else 0 for width in edges),
    )


def _product_width(model: ModelSpec, layer: LayerDecision, out_width: int, *, is_last: bool) -> int:
    """Width of the product that travels; 0 where rows travel before they are multiplied."""
    if model.kind == "gat":
        return out_width * model.heads if is_last else out_width
    return out_width if layer.op_order == "multiply_first" else 0
