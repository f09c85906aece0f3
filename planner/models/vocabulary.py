"""The words that a module is written in: few, and each an operator or two of a forward program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import WITH_WEIGHTS
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.in_use import whole_block
from gnnplan.planner.program.parts import Space, Value, parameter_space
from gnnplan.planner.relations import AnyAggregation, is_relation


class NotSupportedError(Exception):
    """An option of a layer that has no operators, in words after the layer's name."""


class NeverSupportedError(NotSupportedError):
    """One that the layer's own code, which is read where no operators are known, would not have either."""


RUNNING = ".running"
"""What the name of a norm's running statistics ends with, behind the module's path."""


@dataclass
class Writer:
    """Writes one forward program of one logical worker.

    Values are named by strings. Levels and aggregation matrices come to be where they are first asked for.

    Args:
        matrix_of: CSR [N, N] of an aggregation.
        shapes: of every parameter, by the name under which a module has it first.
        names: of every parameter that name, also where a module has it twice.
        is_weighted: sums have the graph's weights of edges.
        training: with dropout and with the statistics of this epoch's rows.
        is_softmax_last: the loss takes the logarithms of a softmax of what the module returns.
        paths: of every part of the module, by its identity, the first of its names.
    """

    emitter: Emitter
    matrix_of: Callable[[AnyAggregation], sp.csr_matrix]
    num_nodes: int
    shapes: Mapping[str, tuple[int, ...]]
    names: Mapping[str, str]
    training: bool
    key: str = ""
    num_dropped: int = 0
    is_weighted: bool = False
    is_softmax_last: bool = True
    used: dict[AnyAggregation, sp.csr_matrix] = field(default_factory=dict)
    paths: Mapping[int, str] = field(default_factory=dict)

    def level(self, name: str) -> int:
        """Aggregations between the features and a value."""
        level = self.emitter.cycle.spaces[self.emitter.cycle.values[name].space].level
        assert level is not None, name
        return level

    def width(self, name: str) -> int:
        """Columns of a value."""
        return self.emitter.cycle.values[name].width

    def parameter(self, name: str) -> str:
        """A parameter of the module."""
        if name not in self.names:
            raise NotSupportedError(f"{name} is made by something else in each call, and is no parameter")
        first = self.names[name]
        return self.emitter.add_parameter(first, *self.shapes[first])

    def emit(self, kind: str, *reads: str, what: str = "", writes: Sequence[str] = (), **attributes) -> str:
        """An operator of the layer that is being written."""
        return self.emitter.emit(kind, *reads, key=f"{self.key}/{what or kind}", writes=writes, **attributes)

    def emit_all(self, kind: str, *reads: str, **attributes) -> tuple[str, ...]:
        """The same of several values."""
        return self.emitter.emit_all(kind, *reads, key=f"{self.key}/{kind}", **attributes)

    def block(self, aggregation: AnyAggregation, level: int) -> str:
        """The edges of an aggregation from a level to the next."""
        aggregation = self.weighted(aggregation)
        name = f"{aggregation}@{level}"
        if name not in self.emitter.cycle.blocks:
            if aggregation not in self.used:
                self.used[aggregation] = self.matrix_of(aggregation)
            matrix, everything = self.used[aggregation], np.arange(self.num_nodes)
            for each in (level, level + 1):
                space = Space(f"v@{each}", (self.num_nodes,), (self.num_nodes,), each)
                self.emitter.add_space(space, [everything])
            self.emitter.add_block(whole_block(name, f"v@{level + 1}", f"v@{level}", matrix), [matrix])
        return name

    def aggregate(self, x: str, aggregation: AnyAggregation, what: str = "") -> str:
        """The sum over edges of an aggregation."""
        return self.emit("aggregate", x, block=self.block(aggregation, self.level(x)), what=what)

    def filter(self, x: str, weights: Mapping[int, str], aggregation: AnyAggregation) -> str:
        """The sum over hops k of `A^k x W_k`."""
        hops = sorted(weights)
        for hop in range(hops[-1]):
            self.block(aggregation, self.level(x) + hop)
        reads = (self.parameter(weights[hop]) for hop in hops)
        return self.emit("filter", x, *reads, hops=tuple(hops), matrix=self.weighted(aggregation))

    def sum_of_relations(self, x: str, weights: Mapping[AnyAggregation, str], root: str | None) -> str:
        """The sum over aggregations A of `A x W`, and `x root`; weights are values [input width, output width]."""
        terms: dict[str, str] = {"": root} if root else {}  # first what every row has, then what is added to it
        for aggregation, weight in weights.items():
            self.block(aggregation, self.level(x))
            terms[aggregation] = weight
        hops = tuple(int(bool(aggregation)) for aggregation in terms)
        return self.emit("filter", x, *terms.values(), hops=hops, matrices=tuple(terms), back=True)

    def unstacked(self, stacked: str, width: int) -> tuple[str, ...]:
        """Weights [input width, output width], of a value whose rows they are."""
        return self.emit_all("unstack", stacked, width=width)

    def weighted(self, aggregation: AnyAggregation) -> AnyAggregation:
        """The aggregation with weights of edges, where a layer is given some."""
        if not self.is_weighted:
            return aggregation
        if is_relation(aggregation) or aggregation not in WITH_WEIGHTS:
            raise NotSupportedError("weights of edges are not known to its kind of sum")
        return WITH_WEIGHTS[aggregation]  # type: ignore[index]

    def linear(self, x: str, weight: str, bias: str | None = None) -> str:
        """Rows times a weight [output width, input width]."""
        return self.bias(self.emit("multiply", x, self.parameter(weight)), bias)

    def bias(self, x: str, bias: str | None) -> str:
        """Rows plus a vector, if there is one."""
        if bias is None:
            return x
        return self.emit("activate", x, self.parameter(bias), relu=False, dropout=0.0, layer=0, what="bias")

    def function(self, x: str, function: str, *arguments: float | str) -> str:
        """A function of every element."""
        return self.emit("elementwise", x, function=function, arguments=arguments, what=function)

    def dropout(self, x: str, probability: float) -> str:
        """Elements dropped in training, others in every epoch; each call has a stream of its own."""
        if not self.training or not probability:
            return x
        if probability == 1:
            return self.scale(x, 0.0)
        stream = self.num_dropped
        self.num_dropped += 1
        return self.emit("dropout", x, probability=float(probability), layer=stream)

    def scale(self, x: str, factor: float) -> str:
        """A value times a number."""
        return x if factor == 1 else self.emit("scale", x, factor=float(factor))

    def add(self, x: str, y: str, factors: tuple[float, float] = (1, 1), what: str = "") -> str:
        """Two values times their factors, added; the result has the rows of the higher one."""
        if self.level(y) > self.level(x):
            x, y, factors = y, x, factors[::-1]
        return self.emit("add", x, y, factors=factors, what=what)

    def product(self, x: str, y: str) -> str:
        """Two values multiplied element by element."""
        return self.emit("product", *sorted((x, y), key=self.level, reverse=True))

    def concat(self, values: Sequence[str]) -> str:
        """Values side by side."""
        widths = tuple(self.width(each) for each in values)
        return self.emit("concat", *values, widths=widths, rows_of=self._highest(values))

    def maximum(self, values: Sequence[str]) -> str:
        """The greatest of some values, element by element."""
        so_far = values[0]
        for each in values[1:]:
            so_far = self.emit("maximum", so_far, each, rows_of=self._highest([so_far, each]))
        return so_far

    def _highest(self, values: Sequence[str]) -> int:
        return max(range(len(values)), key=lambda number: self.level(values[number]))

    def layer_norm(self, x: str, vectors: Sequence[str], eps: float) -> str:
        """Rows normalized; `vectors` are weight and bias, or nothing."""
        return self.emit("layer_norm", x, *map(self.parameter, vectors), eps=eps, affine=bool(vectors))

    def batch_norm(
        self, x: str, vectors: Sequence[str], eps: float, *, path: str = "", momentum: float | None = None
    ) -> str:
        """Columns normalized over all rows of the graph.

        Args:
            path: of the module that keeps running statistics, which an evaluation takes.
            momentum: of these (None: there are none).
        """
        attributes: dict[str, Any] = {"eps": eps, "affine": bool(vectors)}
        running = path + RUNNING
        if momentum is not None:
            self.emitter.add_value(Value(running, parameter_space(2), self.width(x), role="cell"))
        if momentum is not None and not self.training:
            return self.emit("batch_norm", x, running, *map(self.parameter, vectors), **attributes)
        moments = self.emit("all_reduce", self.emit("moments", x))
        statistics = self.emit("statistics", moments)
        if momentum is not None and self.training:
            rows: dict[str, Any] = {"num_rows": self.num_nodes, "momentum": float(momentum)}
            self.emit("running_statistics", running, statistics, writes=(running,), **rows)
        return self.emit("batch_norm", x, statistics, *map(self.parameter, vectors), **attributes)

    def attention(self, x: str, weight: str, vectors: tuple[str, str], heads: int, aggregation: AnyAggregation) -> str:
        """Rows times a weight, summed over edges by attention (GAT); every head has its columns.

        Args:
            vectors: of a row as the source of an edge, and as its target.
        """
        p = self.emit("multiply", x, self.parameter(weight))
        scored = [
            self.emit("dot", p, self.parameter(vector), what=f"dot_{side}", heads=heads)
            for side, vector in zip(("source", "target"), vectors, strict=True)
        ]
        block = self.block(aggregation, self.level(x))
        score = self.emit("score", *scored, block=block, heads=heads)
        alpha = self.emit("softmax", score, blocks=(block,), heads=heads)
        return self.emit("weigh", alpha, p, block=block, heads=heads)
