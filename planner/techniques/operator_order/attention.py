"""Attention of one head that sums rows over edges before it multiplies them.

With one head z_i = sum_j alpha_ij (W x_j) is W times sum_j alpha_ij x_j, and the part of a score that a row gives,
a . (W x_j), is (a W) . x_j. So what is gathered and travels is x, which of features never changes; and where sums are
moving aggregates, none of them holds products with older weights. Of several heads each would sum all columns of x by
itself, so they keep their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Operator


@dataclass(frozen=True)
class OneHead:
    """The operators of an attention of one head, which multiplies rows first.

    Args:
        product: of the rows with the weight.
        dots: of each product with a vector, for the scores.
        weigh: sums the products over edges.
    """

    product: Operator
    dots: tuple[Operator, ...]
    weigh: Operator

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All of them."""
        return self.product, *self.dots, self.weigh


def one_headed(cycle: Cycle, program: Program) -> dict[str, OneHead]:
    """Attentions of one head by the key of what sums; only those whose products nobody else reads."""
    made = {name: op for op in program for name in op.writes}
    readers: dict[str, list[Operator]] = defaultdict(list)
    for op in program:
        for name in op.reads:
            readers[name].append(op)
    found = {}
    for op in program:
        product = made.get(op.reads[1]) if _sums_one_head(op) else None
        if product is None or product.kind != "multiply" or product.has_base:
            continue
        (name,) = product.writes
        others = tuple(reader for reader in readers[name] if reader is not op)
        if name not in cycle.results and all(_is_of_score(cycle, each, name) for each in others):
            found[op.key] = OneHead(product, others, op)
    return found


def _sums_one_head(op: Operator) -> bool:
    return op.kind == "weigh" and op.attributes["heads"] == 1 and not op.has_base and not op.attributes.get("back")


def _is_of_score(cycle: Cycle, op: Operator, product: str) -> bool:
    return op.kind == "dot" and op.reads[0] == product and cycle.values[op.reads[1]].role == "parameter"


class RowsFirst:
    """Writes attentions of one head so that rows are summed first.

    Args:
        attentions: of a program.
    """

    def __init__(self, emitter: Emitter, attentions: Iterable[OneHead]) -> None:
        self._emitter = emitter
        self._of: Mapping[str, OneHead] = {op.key: each for each in attentions for op in each.operators}

    def takes(self, op: Operator) -> bool:
        """Whether an operator is one of these attentions, which is written here."""
        if op.key not in self._of:
            return False
        attention = self._of[op.key]
        if op is attention.weigh:
            self._sum(attention)
        elif op is not attention.product:
            self._dot(op, attention.product)
        return True

    def _dot(self, op: Operator, product: Operator) -> None:
        """Of rows that nobody has multiplied with a vector that is."""
        x, weight = product.reads
        back: dict[str, Any] = {} if product.attributes.get("back") else {"back": True}
        vector = self._emitter.emit("multiply", op.reads[1], weight, key=f"{op.key}/vector", **back)
        self._emitter.append(replace(op, reads=(x, vector)))

    def _sum(self, attention: OneHead) -> None:
        op, product = attention.weigh, attention.product
        x, weight = product.reads
        rows = f"{op.key}/rows"
        self._emitter.append(replace(op, reads=(op.reads[0], x), writes=(rows,)))
        self._emitter.append(replace(product, reads=(rows, weight), writes=op.writes))
