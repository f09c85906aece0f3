"""How a layer of somebody's own is called on a part of a graph, forward and backward.

The layer sees a graph of the rows that are gathered, whose edges lead to the rows that are made. What it makes of the
other rows is dropped, for their edges are not there. The backward half runs the layer again and keeps no graph of
autograd between the two, so a program stays a list of operators that may be played again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.func import functional_call

from gnnplan.planner.adjacency import SELF


class NotRowsError(ValueError):
    """A layer makes something else than a row for every vertex, and beside it a row for every edge or nothing."""


class OwnLayer:
    """A layer on the part of a graph that one worker has.

    Args:
        layer: the module, with its buffers on the device and in the precision of what it is called on.
        matrix: CSR [n, m] as `layer_matrix` has it, of n rows that are made and m that are gathered. Other numbers of
            edges than zero may stand in it.
        attributes: of an operator of kind `layer`.
    """

    def __init__(
        self,
        layer: nn.Module,
        matrix: sp.csr_matrix,
        attributes: Mapping[str, Any],
        device: torch.device | str = "cpu",
    ) -> None:
        self._layer, self._training = layer, attributes["training"]
        self._arguments, self._num_values = attributes["arguments"], attributes["num_values"]
        self._names = attributes["parameters"]
        shapes = {name: each.shape for name, each in self._layer.named_parameters()}
        self._shapes = [shapes[name] for name in self._names]
        is_edge = matrix.data != SELF
        target = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        own = matrix.indices[~is_edge].astype(np.int64)
        assert len(own) == matrix.shape[0], "every row must be among those that are gathered"
        edge_index = np.stack([matrix.indices[is_edge], own[target[is_edge]]]).astype(np.int64)
        self._own = torch.from_numpy(own).to(device)
        self._edge_index = torch.from_numpy(edge_index).to(device)
        self._num_entries = matrix.nnz
        self._is_edge = torch.from_numpy(np.flatnonzero(is_edge)).to(device)

    def forward(self, *reads: Tensor) -> tuple[Tensor, ...]:
        """The rows that are made, [n, width]; and where it makes something on edges, [entries of the matrix, width]."""
        with torch.no_grad():
            return self._called(reads)

    def backward(self, *given: Tensor, of: Sequence[int], wanted: Sequence[int]) -> tuple[Tensor, ...]:
        """The gradients at some reads.

        Args:
            given: the gradients at what is made, then all reads.
            of: which of what is made the gradients are at.
        """
        grads, reads = given[: len(of)], given[len(of) :]
        leaves = [each.detach() for each in reads]
        for number in wanted:
            leaves[number].requires_grad_()
        chosen = [leaves[number] for number in wanted]
        with torch.enable_grad():
            everything = self._called(leaves)
            made = [(everything[number], grad) for number, grad in zip(of, grads, strict=True)]
            made = [(each, grad) for each, grad in made if each.requires_grad]
            if not made:
                return tuple(map(torch.zeros_like, chosen))
            outputs, at = zip(*made, strict=True)
            found = torch.autograd.grad(outputs, chosen, at, allow_unused=True)
        return tuple(torch.zeros_like(x) if to is None else to for x, to in zip(chosen, found, strict=True))

    def _called(self, reads: Sequence[Tensor]) -> tuple[Tensor, ...]:
        self._layer.train(self._training)
        values, parameters = reads[: self._num_values], reads[self._num_values :]
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for what, of, keyword in self._arguments:
            given = self._argument(what, of, values)
            if keyword:
                kwargs[keyword] = given
            else:
                args.append(given)
        shaped = (each.reshape(shape) for each, shape in zip(parameters, self._shapes, strict=True))
        state = dict(zip(self._names, shaped, strict=True))
        made = functional_call(self._layer, state, tuple(args), kwargs)
        rows, *others = made if isinstance(made, tuple) else (made,)
        if not _are_rows(rows, len(values[0])) or len(others) > 1:
            raise NotRowsError
        return rows[self._own], *map(self._on_entries, others)

    def _on_entries(self, on_edges: Any) -> Tensor:
        """A row for every entry of the matrix, of a row for every edge."""
        if not _are_rows(on_edges, len(self._is_edge)):
            raise NotRowsError
        return on_edges.new_zeros(self._num_entries, on_edges.shape[1]).index_copy(0, self._is_edge, on_edges)

    def _argument(self, what: str, of: Any, values: Sequence[Tensor]) -> Any:
        if what == "edges":
            return self._edge_index
        if what == "constant":
            return of
        if what == "rows":
            return values[of]
        on_edges = values[of][self._is_edge]
        if what == "types":
            return on_edges[:, 0].long()
        return on_edges[:, 0] if what == "weights" else on_edges


def _are_rows(made: Any, count: int) -> bool:
    return isinstance(made, Tensor) and made.dim() == 2 and len(made) == count and made.is_floating_point()
