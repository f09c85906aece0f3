"""A layer of somebody's own on sample rows: what it makes, whether it can be shared out by rows, and what it takes.

A layer can be shared out where each row that it makes follows from that row, its incoming edges and the rows at these.
That is tried: the layer is run on a small graph, and on the parts of it that two workers would have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from gnnplan.planner.adjacency import layer_matrix
from gnnplan.planner.models.known_layers import NotSupportedError
from gnnplan.planner.program.kinds.layer import COUNTS
from gnnplan.planner.program.own_layer import NotRowsError, OwnLayer

_NUM_ROWS, _NUM_EDGES = 48, 200
_TOLERANCE = 1e-4  # of float32: sums over edges in another order
_PRODUCTS = {"mm": 1, "addmm": 2}  # by the place of the left matrix among a product's arguments

NOT_BY_ROWS = (
    "a row that it makes depends on more than that row, its incoming edges and the rows at these, as with degrees of "
    "neighbours, norms over rows or attention over all of them; hand it weights of edges that are computed beforehand, "
    "or put the norm into the module beside it"
)
DRAWS = "it draws random numbers in training; set its own dropout to 0, and drop rows before it"
STATE = "it changes its buffers, which every worker would change otherwise"
ONE_VALUE = "it must make a row for every vertex, and beside it at most new features, a row for every edge"


@dataclass(frozen=True)
class Shapes:
    """What a layer is given beside its parameters.

    Args:
        widths: of the values on rows, then of those on edges.
        num_rows: how many of them are on rows.
        num_types: of those on edges, how many types they are the numbers of (0: they are no types).
    """

    widths: tuple[int, ...]
    num_rows: int
    num_types: tuple[int, ...] = ()


def sample_layer(layer: nn.Module, attributes: Mapping[str, Any], shapes: Shapes) -> dict[str, Any]:
    """The attributes of an operator that follow from running a layer: its widths, and `COUNTS`.

    Args:
        attributes: as far as they are known without.

    Raises:
        NotSupportedError: it cannot be shared out by rows, or fails.
    """
    layer = deepcopy(layer).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            width, edge_width = _checked(layer, attributes, shapes)
            return {"width": width, "edge_width": edge_width, **_counts(layer, attributes, shapes)}
        except NotSupportedError:
            raise
        except NotRowsError:
            raise NotSupportedError(ONE_VALUE) from None
        except Exception as error:
            words = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            raise NotSupportedError(f"it fails on sample rows: {words}") from error


class _Sample:
    """A random graph with loops, a repeated edge and rows without edges, and values on it."""

    def __init__(self, shapes: Shapes, num_rows: int, num_edges: int) -> None:
        rng = np.random.default_rng(num_rows + num_edges)
        source, target = rng.integers(0, num_rows, num_edges), rng.integers(0, num_rows - 3, num_edges)
        source[:2] = target[:2]
        source[2], target[2] = source[3], target[3]
        self.matrix = layer_matrix(num_rows, np.stack([source, target]))
        self.rows = [torch.randn(num_rows, width) for width in shapes.widths[: shapes.num_rows]]
        widths = shapes.widths[shapes.num_rows :]
        num_types = shapes.num_types or (0,) * len(widths)
        self.on_edges = [_numbers(num_edges, *each) for each in zip(widths, num_types, strict=True)]

    def part(self, made: np.ndarray) -> tuple[Any, list[Tensor]]:
        """What a worker has that makes some rows: its matrix, and its values."""
        rows = self.matrix[made]
        gathered = np.unique(rows.indices)
        matrix = rows[:, gathered]
        return matrix, [*(x[gathered] for x in self.rows), *self._on_edges(matrix)]

    def _on_edges(self, matrix: Any) -> list[Tensor]:
        """A row for every entry; those of the rows themselves are zero."""
        return [torch.cat([each.new_zeros(1, each.shape[1]), each])[matrix.data] for each in self.on_edges]


def _numbers(count: int, width: int, num_types: int) -> Tensor:
    """Of edges: their types, or what may be anything."""
    return torch.randint(num_types, (count, width)).float() if num_types else torch.rand(count, width)


def _checked(layer: nn.Module, attributes: Mapping[str, Any], shapes: Shapes) -> tuple[int, int]:
    """The widths of what it makes on rows and on edges (0: nothing)."""
    sample, before = _Sample(shapes, _NUM_ROWS, _NUM_EDGES), _state(layer)
    everything = np.arange(_NUM_ROWS)

    def made_by(rows: np.ndarray) -> tuple[Tensor, ...]:
        matrix, values = sample.part(rows)
        return _called(layer, matrix, attributes, values)

    def right(rows: np.ndarray) -> tuple[Tensor, ...]:
        entries = np.concatenate([np.arange(*sample.matrix.indptr[row : row + 2]) for row in rows])
        return tuple(each[at] for each, at in zip(whole, (rows, entries), strict=False))

    whole = made_by(everything)
    if not _is_near(made_by(everything), whole):
        raise NotSupportedError(STATE if _is_changed(layer, before) else DRAWS)
    halves = np.random.default_rng(1).integers(0, 2, _NUM_ROWS) == 0
    for rows in (everything[halves], everything[~halves]):
        if not _is_near(made_by(rows), right(rows)):
            raise NotSupportedError(NOT_BY_ROWS)
    if _is_changed(layer, before):
        raise NotSupportedError(STATE)
    return whole[0].shape[1], whole[1].shape[1] if len(whole) > 1 else 0


def _called(
    layer: nn.Module, matrix: Any, attributes: Mapping[str, Any], values: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    parameters = dict(layer.named_parameters())
    own = OwnLayer(layer, matrix, attributes)
    return own.forward(*values, *(_as_matrix(parameters[name]) for name in attributes["parameters"]))


def _as_matrix(parameter: Tensor) -> Tensor:
    return parameter.detach().reshape(len(parameter) if parameter.dim() > 1 else 1, -1)


def _state(layer: nn.Module) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in layer.state_dict().items()}


def _is_changed(layer: nn.Module, before: Mapping[str, Tensor]) -> bool:
    return not all(torch.equal(each, before[name]) for name, each in _state(layer).items())


def _is_near(found: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return len(found) == len(right) and all(
        one.shape == other.shape and torch.allclose(one, other, _TOLERANCE, _TOLERANCE, equal_nan=True)
        for one, other in zip(found, right, strict=True)
    )


def _counts(layer: nn.Module, attributes: Mapping[str, Any], shapes: Shapes) -> dict[str, Any]:
    """`COUNTS`, as sums of a part for the call, one for every row and one for every edge."""

    def counted(num_rows: int, num_edges: int) -> list[_Counted]:
        matrix, values = _Sample(shapes, num_rows, num_edges).part(np.arange(num_rows))
        parameters = [_as_matrix(each) for each in dict(layer.named_parameters()).values()]
        own, wanted = OwnLayer(layer, matrix, attributes), range(shapes.num_rows)
        reads = [*values, *parameters]
        with _Counted() as forward:
            made = own.forward(*reads)
        grads = [torch.ones_like(each) for each in made]
        with _Counted() as backward:
            own.backward(*grads, *reads, of=range(len(grads)), wanted=[*wanted, *range(len(values), len(reads))])
        return [forward, backward]

    once, more_rows, more_edges = counted(40, 100), counted(80, 100), counted(40, 200)
    found: dict[str, Any] = {}
    for name in COUNTS:
        halves = zip(once, more_rows, more_edges, strict=True)
        found[name] = tuple(_plane([getattr(each, name) for each in half], 40, 100) for half in halves)
    return found


def _plane(counts: Sequence[int], rows: int, edges: int) -> tuple[int, int, int]:
    """(for the call, a row, an edge), of counts at so many, at twice the rows, and at twice the edges."""
    once, more_rows, more_edges = counts
    row, edge = max(more_rows - once, 0) / rows, max(more_edges - once, 0) / edges
    return max(0, math.ceil(once - row * rows - edge * edges)), math.ceil(row), math.ceil(edge)


class _Counted(TorchDispatchMode):
    """Counts what torch's operators touch, multiply and make."""

    def __init__(self) -> None:
        super().__init__()
        self.touched, self.products, self.num_bytes = 0, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operator as it is."""
        made = func(*args, **(kwargs or {}))
        before, after = _tensors(args), _tensors([made])
        storages = {each.untyped_storage().data_ptr() for each in before}
        new = [each for each in after if each.untyped_storage().data_ptr() not in storages]
        self.num_bytes += sum(each.numel() * each.element_size() for each in new)
        is_view = not new and not func._schema.name.endswith("_")
        self.touched += 0 if is_view else sum(each.numel() for each in (*before, *after))
        place = _PRODUCTS.get(func._schema.name.removeprefix("aten::"))
        if place is not None:
            self.products += args[place - 1].numel() * args[place].shape[1]
        return made


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for each in values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += _tensors(each)
    return found
