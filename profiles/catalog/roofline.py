"""Operator tables of a device that was not profiled here, by a roofline.

`seconds = launches * launch_s + max(flops / achieved FLOP/s, bytes / achieved bytes/s)`, with the
bytes of `gnnplan.profiles.catalog.traffic` and the rates of `gnnplan.profiles.catalog.devices`.
"""

from __future__ import annotations

from itertools import product

from gnnplan.profiles.catalog import traffic
from gnnplan.profiles.catalog.devices import Rates, Table1
from gnnplan.profiles.machine import OperatorTable, Point

Shape = tuple[float, ...]

_ROWS = (1.0, 256.0, 1024.0, 4096.0, traffic.PAPER_EXTENT, 65536.0, 262144.0, 1048576.0, 4194304.0)
_WIDTHS = (1.0, 8.0, 32.0, 64.0, 128.0, 256.0, 512.0, 2048.0, traffic.PAPER_EXTENT)
_DEGREES = (0.25, 1.0, 4.0, 16.0, traffic.PAPER_DEGREE, 128.0, 512.0)
_HEADS = (1.0, 8.0, 64.0)  # eight fill a sector
_ELEMENTS = tuple(float(2**power) for power in range(0, 37, 4))
_CLASSES = (2.0, 16.0, 128.0, 1024.0)
_BYTES = (4.0, 4096.0, 2.0**20, 2.0**24, 2.0**28, traffic.PAPER_BYTES, 2.0**32, 2.0**36)

AXIS_VALUES: dict[str, Shape] = {
    "num_rows": _ROWS,
    "in_width": _WIDTHS,
    "out_width": _WIDTHS,
    "width": _WIDTHS,
    "degree": _DEGREES,
    "heads": _HEADS,
    "num_elements": _ELEMENTS,
    "num_classes": _CLASSES,
    "num_bytes": _BYTES,
}

_MATMUL = ("num_rows", "in_width", "out_width")
_GRAPH = ("num_rows", "degree", "width")
_SCORES = ("num_rows", "degree", "heads")
_ROW = ("num_rows", "width")

AXES: dict[str, tuple[str, ...]] = {
    "matmul_forward": _MATMUL,
    "matmul_grad_input": _MATMUL,
    "matmul_grad_weight": _MATMUL,
    "spmm": _GRAPH,
    "spmm_features": _GRAPH,
    "spmm_transposed": _GRAPH,
    "edge_scores": _SCORES,
    "edge_scores_backward": _SCORES,
    "edge_softmax": _SCORES,
    "edge_softmax_backward": _SCORES,
    "weigh": _GRAPH,
    "weigh_transposed": _GRAPH,
    "edge_dots": _GRAPH,
    "head_dots": _ROW,
    "head_dots_to_rows": _ROW,
    "head_dots_to_vector": _ROW,
    "average_heads": _ROW,
    "spread_heads": _ROW,
    "gather_rows": _ROW,
    "pack_columns": _ROW,
    "scatter_add_rows": _ROW,
    "activation_forward": ("num_elements",),
    "activation_backward": ("num_elements",),
    "dropout_forward": ("num_elements",),
    "dropout_backward": ("num_elements",),
    "add": ("num_elements",),
    "layer_norm": ("num_elements",),
    "layer_norm_backward": ("num_elements",),
    "moments": ("num_elements",),
    "moments_backward": ("num_elements",),
    "batch_norm": ("num_elements",),
    "batch_norm_backward": ("num_elements",),
    "loss": ("num_rows", "num_classes"),
    "optimizer_step": ("num_elements",),
    "idt": ("num_bytes",),
    "h2d_pinned": ("num_bytes",),
    "h2d_pageable": ("num_bytes",),
    "d2h_pinned": ("num_bytes",),
    "d2h_pageable": ("num_bytes",),
}

_E = traffic.PAPER_EXTENT
# The shape CaPGNN table 1 measured, and its column.
PUBLISHED: dict[str, tuple[Shape, str]] = {
    "matmul_forward": ((_E, _E, _E), "mm"),
    "spmm": ((_E, traffic.PAPER_DEGREE, _E), "spmm"),
    "h2d_pageable": ((traffic.PAPER_BYTES,), "h2d"),
    "d2h_pageable": ((traffic.PAPER_BYTES,), "d2h"),
    "idt": ((traffic.PAPER_BYTES,), "idt"),
}
_IQR_OF_STD = 1.349  # interquartile range of a normal distribution


def operator_tables(device_rates: Rates, table1: Table1 | None) -> dict[str, OperatorTable]:
    """Every operator over the grid `AXIS_VALUES`; the points CaPGNN measured are `published`."""
    return {
        name: OperatorTable(
            axes=axes,
            points=tuple(
                _point(name, shape, device_rates, table1) for shape in product(*(AXIS_VALUES[axis] for axis in axes))
            ),
        )
        for name, axes in AXES.items()
    }


def roofline_seconds(operator: str, shape: Shape, device_rates: Rates) -> float:
    """Seconds of one call; shapes as in `AXES`."""
    if operator[:3] in ("h2d", "d2h"):
        bytes_per_s: float = getattr(device_rates, f"{operator}_bytes_per_s")
        return device_rates.launch_s + shape[0] / bytes_per_s
    cost = traffic.TRAFFIC[operator]
    bytes_per_s = device_rates.spmm_bytes_per_s if operator.startswith("spmm") else device_rates.memory_bytes_per_s
    busy_s = cost.bytes(*shape) / bytes_per_s
    if cost.flops is not None:
        busy_s = max(busy_s, cost.flops(*shape) / device_rates.matmul_flops)
    return cost.launches * device_rates.launch_s + busy_s


def _point(operator: str, shape: Shape, device_rates: Rates, table1: Table1 | None) -> Point:
    published_shape, column = PUBLISHED.get(operator, ((), ""))
    if table1 is None or shape != published_shape:
        return Point(shape=shape, median_s=roofline_seconds(operator, shape, device_rates), provenance="scaled")
    return Point(
        shape=shape,
        median_s=getattr(table1, f"{column}_s"),
        spread_s=_IQR_OF_STD * getattr(table1, f"{column}_std_s"),
        provenance="published",
    )
