"""Bytes each operator moves through device memory, and how many kernels it launches.

The formulas follow `gnnplan.profiles.operators` and `gnnplan.profiles.kernels` as they run on CUDA, kernel by
kernel: every pass over an operand counts once, nothing is assumed to stay in a cache. Floats are
4 bytes, CSR indices 4, row indices 8. A row at a random place moves at least a 32-byte sector.
"""

from __future__ import annotations

from gnnplan.profiles.catalog.attention_traffic import ATTENTION
from gnnplan.profiles.catalog.passes import FLOAT, INDEX, Traffic, random_row_bytes

# CaPGNN table 1: square float32 matrices of 512 MiB, section 4.3; docs/catalog.md says why not
# the 16384 of section 3.4. 99.6% sparsity is 0.4% of a row's entries.
PAPER_EXTENT = 11585.0
PAPER_DEGREE = 0.004 * PAPER_EXTENT
PAPER_BYTES = 4 * PAPER_EXTENT**2


def matmul_flops(num_rows: float, in_width: float, out_width: float) -> float:
    """`2 rows in out`, forward and both gradients alike."""
    return 2 * num_rows * in_width * out_width


def matmul_bytes(num_rows: float, in_width: float, out_width: float) -> float:
    """`4 (rows in + in out + rows out)`: both operands and the result, once each."""
    return FLOAT * (num_rows * in_width + in_width * out_width + num_rows * out_width)


def spmm_bytes(num_rows: float, degree: float, width: float) -> float:
    """`rows degree (8 + random row) + rows (8 width + 4)`.

    Each stored entry reads its index, its value and a dense row; each result row is read and
    written, since the product is added, and its row pointer read.
    """
    entries = num_rows * degree
    return entries * (8 + random_row_bytes(width)) + num_rows * (2 * FLOAT * width + 4)


def gather_rows_bytes(num_rows: float, width: float) -> float:
    """`rows (8 + random row + 4 width)`: index, row read at random, row written."""
    return num_rows * (INDEX + random_row_bytes(width) + FLOAT * width)


def pack_columns_bytes(num_rows: float, width: float) -> float:
    """`8 rows width`: every number read and written."""
    return 2 * FLOAT * num_rows * width


def scatter_add_rows_bytes(num_rows: float, width: float) -> float:
    """`rows (8 + 4 width + 2 random rows)`: index, source row, result row read and written."""
    return num_rows * (INDEX + FLOAT * width + 2 * random_row_bytes(width))


def activation_forward_bytes(num_elements: float) -> float:
    """16 an element: adding the bias and ReLU, each in place."""
    return 16 * num_elements


def activation_backward_bytes(num_elements: float) -> float:
    """16 an element: threshold (two read, one written), then the bias gradient's sum reads."""
    return 16 * num_elements


def dropout_forward_bytes(num_elements: float) -> float:
    """298 an element: bias and ReLU 16, the keep mask's int64 hash 265, mask and scale 17.

    The hash is eager integer arithmetic on CUDA: one write, one constant added (16), two rounds
    of shift, and, xor, multiply (72 each), a last shift, and, xor (56), the top half (32), the
    comparison (9).
    """
    return 298 * num_elements


def dropout_backward_bytes(num_elements: float) -> float:
    """24 an element: threshold 12, scale 8, the bias gradient's sum 4."""
    return 24 * num_elements


def add_bytes(num_elements: float) -> float:
    """12 an element: two read, one written."""
    return 12 * num_elements


def layer_norm_bytes(num_elements: float) -> float:
    """8 an element: read and written once."""
    return 8 * num_elements


def layer_norm_backward_bytes(num_elements: float) -> float:
    """28 an element: the norm again 8, then rows and gradient read by two kernels, and one result written."""
    return 28 * num_elements


def moments_bytes(num_elements: float) -> float:
    """4 an element: mean and variance in one pass."""
    return 4 * num_elements


def moments_backward_bytes(num_elements: float) -> float:
    """24 an element: the mean 4, a multiple of the rows added 12, a row added 8."""
    return 24 * num_elements


def batch_norm_bytes(num_elements: float) -> float:
    """24 an element: less the mean, times the scale, plus the bias."""
    return 24 * num_elements


def batch_norm_backward_bytes(num_elements: float) -> float:
    """36 an element: less the mean 8, times the gradient 12, its sum 4, the result 8, the gradient's sum 4."""
    return 36 * num_elements


def loss_bytes(num_rows: float, num_classes: float) -> float:
    """`44 rows classes + 160 rows`.

    Per element: select, log-softmax, exp, divide and copy read and write, the zeroed gradient is
    written. Per row: indices, and a sector each time one class of a row is read or written.
    """
    return num_rows * (44 * num_classes + 160)


def optimizer_step_bytes(num_elements: float) -> float:
    """28 an element: torch's fused Adam reads weight, gradient and both moments, writes all but the gradient."""
    return 28 * num_elements


def idt_bytes(num_bytes: float) -> float:
    """`2 bytes`: a copy within the device reads and writes."""
    return 2 * num_bytes


_MATMUL = Traffic(matmul_bytes, flops=matmul_flops)

# By memory rate; `spmm` at its own rate and the host transfers are in `roofline`.
TRAFFIC: dict[str, Traffic] = {
    "matmul_forward": _MATMUL,
    "matmul_grad_input": _MATMUL,
    "matmul_grad_weight": _MATMUL,
    "spmm": Traffic(spmm_bytes),
    "spmm_features": Traffic(spmm_bytes),  # as if no row of the weight were read more often than others
    "spmm_transposed": Traffic(spmm_bytes),
    **ATTENTION,
    "gather_rows": Traffic(gather_rows_bytes),
    "pack_columns": Traffic(pack_columns_bytes, launches=4),
    "scatter_add_rows": Traffic(scatter_add_rows_bytes),
    "activation_forward": Traffic(activation_forward_bytes, launches=2),
    "activation_backward": Traffic(activation_backward_bytes, launches=2),
    "dropout_forward": Traffic(dropout_forward_bytes, launches=22),
    "dropout_backward": Traffic(dropout_backward_bytes, launches=3),
    "add": Traffic(add_bytes),
    "layer_norm": Traffic(layer_norm_bytes),
    "layer_norm_backward": Traffic(layer_norm_backward_bytes, launches=3),
    "moments": Traffic(moments_bytes, launches=2),
    "moments_backward": Traffic(moments_backward_bytes, launches=7),
    "batch_norm": Traffic(batch_norm_bytes, launches=6),
    "batch_norm_backward": Traffic(batch_norm_backward_bytes, launches=20),
    "loss": Traffic(loss_bytes, launches=12),
    "optimizer_step": Traffic(optimizer_step_bytes),
    "idt": Traffic(idt_bytes),
}
