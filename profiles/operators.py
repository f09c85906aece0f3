"""The operators a GNN trains with, as timed calls over shapes.

Each entry of `OPERATORS` names its axes and makes, for one shape, the call that is timed. The calls
are the kernels the runtime executes, on random data of that shape. Those of GAT are in
`gnnplan.profiles.over_edges`, norms in `gnnplan.profiles.of_norms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf

import torch
from torch import Tensor

from gnnplan.profiles import of_norms, over_edges
from gnnplan.profiles.kernels.activation import activate_, activate_backward_
from gnnplan.profiles.kernels.columns import pack_columns_
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.dense import gather_rows, matmul
from gnnplan.profiles.kernels.halves import HALF, gram_of_halves, half_product_add_
from gnnplan.profiles.kernels.loss import loss_and_grad
from gnnplan.profiles.kernels.optimizer_step import adam_step
from gnnplan.profiles.kernels.sparse import spmm_add_
from gnnplan.profiles.kernels.tiles import Tiles, on_device
from gnnplan.profiles.measure import in_turn
from gnnplan.profiles.operands import NUM_WORDS, dense, random_csr, words_csr

Call = Callable[[], object]
_PARAMETERS = 6  # weights and biases of three layers: each costs the optimizer a few microseconds of Python
_COLUMNS = 128  # width at which elementwise operators are timed; they depend on the element count


@dataclass(frozen=True)
class Operator:
    """An operator the profiler times.

    Args:
        axes: names of the shape's coordinates.
        make: (shape, device) -> the call to time.
        cuda_only: moves data between host and device.
        cpu_only: what only a CPU's kernels do.
        peer_only: moves data between two devices of a host.
        compiled: on a CPU numba compiles it, which takes memory of its own.
        of_halves: its numbers have two bytes; a CPU loads other code for them.
    """

    axes: tuple[str, ...]
    make: Callable[[tuple[float, ...], torch.device], Call]
    cuda_only: bool = False
    cpu_only: bool = False
    peer_only: bool = False
    compiled: bool = False
    of_halves: bool = False

    def is_measured_on(self, device: torch.device) -> bool:
        """Whether the operator exists on the device."""
        if self.peer_only and (device.type != "cuda" or torch.cuda.device_count() < 2):
            return False
        return not (self.cpu_only if device.type == "cuda" else self.cuda_only)


def _matmul_forward(shape, device, dtype: torch.dtype = torch.float32) -> Call:
    rows, in_width, out_width = shape
    x, weight = dense(device, rows, in_width).to(dtype), dense(device, out_width, in_width).to(dtype)
    return lambda: matmul(x, weight.t())


def _of_halves(make: Callable) -> Callable:
    """The same product, of rows and weights in two bytes a number."""

    def made(shape, device) -> Call:
        return make(shape, device, dtype=HALF)

    return made


def _matmul_grad_input(shape, device, dtype: torch.dtype = torch.float32) -> Call:
    rows, in_width, out_width = shape
    grad, weight = dense(device, rows, out_width).to(dtype), dense(device, out_width, in_width).to(dtype)
    return lambda: matmul(grad, weight)


def _matmul_grad_weight(shape, device, dtype: torch.dtype = torch.float32) -> Call:
    rows, in_width, out_width = shape
    grad, x = dense(device, rows, out_width).to(dtype), dense(device, rows, in_width).to(dtype)
    return lambda: gram_of_halves(grad, x) if dtype == HALF else matmul(grad.t(), x)


def _spmm_features(shape, device) -> Call:
    rows, degree, width = int(shape[0]), shape[1], int(shape[2])
    matrix = _words_matrix(rows, degree, device)
    weight, out = dense(device, NUM_WORDS, width), torch.zeros(rows, width, device=device)
    return lambda: spmm_add_(out, matrix, weight)


def _spmm(shape, device, *, transposed: bool = False, tiled: bool = False) -> Call:
    rows, degree, width = int(shape[0]), shape[1], int(shape[2])
    matrix = _matrix(rows, degree, device, transposed, tiled)
    x, out = dense(device, rows, width), torch.zeros(rows, width, device=device)
    return lambda: spmm_add_(out, matrix, x)


def _spmm_half(shape, device) -> Call:
    rows, degree, width = int(shape[0]), shape[1], int(shape[2])
    matrix = _matrix(rows, degree, device, False, False)
    assert isinstance(matrix, Tensor)
    x, out = dense(device, rows, width).to(HALF), torch.zeros(rows, width, device=device, dtype=HALF)
    return lambda: half_product_add_(out, matrix, x)


# All widths are timed with one matrix after another, as a graph's is the same in every layer.
@lru_cache(maxsize=1)
def _words_matrix(rows: int, degree: float, device: torch.device) -> Tensor:
    return csr_tensor(words_csr(rows, degree), device)


@lru_cache(maxsize=1)
def _matrix(rows: int, degree: float, device: torch.device, transposed: bool, tiled: bool) -> Tensor | Tiles:
    return on_device(random_csr(rows, degree), transposed, inf if tiled else 0, device)


def _gather_rows(shape, device) -> Call:
    rows, width = int(shape[0]), int(shape[1])
    x = dense(device, 2 * rows, width)
    index = torch.randperm(2 * rows, device=device)[:rows]
    return lambda: gather_rows(x, index)


def _pack_columns(shape, device) -> Call:
    rows, width = int(shape[0]), int(shape[1])
    x, packed, piece = dense(device, rows, width), dense(device, rows, width), width // PACKED_SLICES
    slices = [(number * piece, (number + 1) * piece) for number in range(PACKED_SLICES)]
    return lambda: pack_columns_(packed, x, slices, 1)


def _scatter_add_rows(shape, device) -> Call:
    rows, width = int(shape[0]), int(shape[1])
    out, source = dense(device, 2 * rows, width), dense(device, rows, width)
    index = torch.randperm(2 * rows, device=device)[:rows]
    return lambda: out.index_add_(0, index, source)


def _elements(shape, device) -> Tensor:
    return dense(device, max(1, shape[0] // _COLUMNS), _COLUMNS)


def _activation_forward(shape, device, dropout: float = 0.0) -> Call:
    z, bias = _elements(shape, device), torch.zeros(_COLUMNS, device=device)
    vertices = torch.arange(len(z), device=device)
    return lambda: activate_(z, bias, relu=True, dropout=dropout, key=1, vertices=vertices)


def _activation_backward(shape, device, dropout: float = 0.0) -> Call:
    grad, out = _elements(shape, device), _elements(shape, device)
    return lambda: activate_backward_(grad, out, relu=True, dropout=dropout).sum(0)


def _add(shape, device) -> Call:
    a, b = _elements(shape, device), _elements(shape, device)
    return lambda: a + b


def _loss(shape, device) -> Call:
    rows, classes = int(shape[0]), int(shape[1])
    logits = dense(device, 2 * rows, classes)  # training rows lie scattered: here every other one
    index, y = torch.arange(0, 2 * rows, 2, device=device), torch.randint(0, classes, (rows,), device=device)
    return lambda: loss_and_grad(logits, index, y, rows)


def _optimizer_step(shape, device) -> Call:
    extent = -(-int(shape[0]) // _PARAMETERS)
    parameters, grads = ([dense(device, extent) for _ in range(_PARAMETERS)] for _ in range(2))
    means, squares = ([torch.zeros_like(each) for each in parameters] for _ in range(2))
    steps = list(torch.zeros(_PARAMETERS, device=device).unbind())
    return partial(adam_step, parameters, grads, means, squares, steps, rate=1e-6)


def _copy(shape, device) -> Call:
    source = dense(device, max(1, shape[0] // 4))
    out = torch.empty_like(source)
    return lambda: out.copy_(source)


def _peer_copy(shape, device) -> Call:
    source = dense(device, max(1, shape[0] // 4))
    other = torch.device("cuda", (device.index + 1) % torch.cuda.device_count())
    out = torch.empty_like(source, device=other)
    return lambda: out.copy_(source)


def _host_copy(shape, device, *, to_device: bool, pinned: bool) -> Call:
    host = torch.empty(max(1, int(shape[0]) // 4), pin_memory=pinned)
    there = torch.empty_like(host, device=device)
    if to_device:
        return lambda: there.copy_(host, non_blocking=pinned)
    return lambda: host.copy_(there, non_blocking=pinned)


def _transfer(*, to_device: bool, pinned: bool) -> Operator:
    def make(shape, device) -> Call:
        return _host_copy(shape, device, to_device=to_device, pinned=pinned)

    return Operator(("num_bytes",), make, cuda_only=True)


PACKED_SLICES = 4
"""Into which rows were cut when `pack_columns` was timed."""
_MATMUL_AXES = ("num_rows", "in_width", "out_width")
_SPMM_AXES = ("num_rows", "degree", "width")
_SCORE_AXES = ("num_rows", "degree", "heads")

OPERATORS: dict[str, Operator] = {
    "matmul_forward": Operator(_MATMUL_AXES, _matmul_forward),
    "matmul_grad_input": Operator(_MATMUL_AXES, _matmul_grad_input),
    "matmul_grad_weight": Operator(_MATMUL_AXES, _matmul_grad_weight),
    "matmul_half_forward": Operator(_MATMUL_AXES, _of_halves(_matmul_forward), cpu_only=True, of_halves=True),
    "matmul_half_grad_input": Operator(_MATMUL_AXES, _of_halves(_matmul_grad_input), cpu_only=True, of_halves=True),
    "matmul_half_grad_weight": Operator(_MATMUL_AXES, _of_halves(_matmul_grad_weight), cpu_only=True, of_halves=True),
    "spmm": Operator(_SPMM_AXES, _spmm),
    "spmm_half": Operator(_SPMM_AXES, _spmm_half, cpu_only=True, compiled=True, of_halves=True),
    "spmm_features": Operator(_SPMM_AXES, _spmm_features),
    "spmm_tiled": Operator(_SPMM_AXES, lambda s, d: _spmm(s, d, tiled=True), cpu_only=True, compiled=True),
    "spmm_transposed": Operator(_SPMM_AXES, lambda s, d: _spmm(s, d, transposed=True)),
    **{name: Operator(_SCORE_AXES, make, compiled=True) for name, make in over_edges.OF_SCORES.items()},
    **{name: Operator(_SPMM_AXES, make, compiled=True) for name, make in over_edges.OF_ROWS.items()},
    **{name: Operator(("num_rows", "width"), make) for name, make in over_edges.OF_HEADS.items()},
    "gather_rows": Operator(("num_rows", "width"), _gather_rows),
    "pack_columns": Operator(("num_rows", "width"), _pack_columns),
    "scatter_add_rows": Operator(("num_rows", "width"), _scatter_add_rows),
    "activation_forward": Operator(("num_elements",), _activation_forward),
    "activation_backward": Operator(("num_elements",), _activation_backward),
    "dropout_forward": Operator(("num_elements",), lambda s, d: _activation_forward(s, d, 0.5), compiled=True),
    "dropout_backward": Operator(("num_elements",), lambda s, d: _activation_backward(s, d, 0.5)),
    "add": Operator(("num_elements",), _add),
    **{name: Operator(("num_elements",), make, compiled=True) for name, make in of_norms.OF_NORMS.items()},
    "loss": Operator(("num_rows", "num_classes"), _loss),
    "optimizer_step": Operator(("num_elements",), _optimizer_step),
    "idt": Operator(("num_bytes",), _copy),
    "idt_peer": Operator(("num_bytes",), _peer_copy, cuda_only=True, peer_only=True),
    "h2d_pinned": _transfer(to_device=True, pinned=True),
    "h2d_pageable": _transfer(to_device=True, pinned=False),
    "d2h_pinned": _transfer(to_device=False, pinned=True),
    "d2h_pageable": _transfer(to_device=False, pinned=False),
}


def timed_call(name: str, shape: tuple[float, ...], device: torch.device) -> Call:
    """What profiles time of an operator: calls on two sets of operands in turn.

    On a GPU, whose memory the largest shapes nearly fill, on one.
    """
    num_sets = 2 if device.type == "cpu" else 1
    return in_turn([OPERATORS[name].make(shape, device) for _ in range(num_sets)])
