"""The pass: a program for every draw, in which only the rows that were drawn travel."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

import numpy as np

from gnnplan.planner.program.constant import constant_values
from gnnplan.planner.program.cuts import over_columns
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Index, Operator, Route, Space
from gnnplan.planner.program.renamed import renamed_operator

Draw = Callable[[int, int, np.ndarray], np.ndarray]
"""(which draw, receiver, global vertices) -> bool: those that the receiver is sent."""


def sample_halos(cycle: Cycle, num_draws: int, draw: Draw, factor: float) -> Cycle:
    """The cycle whose epochs leave out the edges from halo rows that were not drawn (BNS-GCN, Wan et al. 2022).

    Rows of what is the same in every epoch all travel, for they may be sent once.

    Args:
        cycle: forward programs of all workers, with arrays, their sums in parts.
        num_draws: draws that epochs take in turn.
        factor: what weights of edges from drawn rows are multiplied by.
    """
    emitter, order = Emitter(cycle), []
    for name in cycle.order:
        for number in range(num_draws):
            emitter.begin()
            _Drawn(emitter, f"draw{number}", lambda *at, of=number: draw(of, *at), factor).put(cycle, name)
            emitter.end(f"{name}/draw{number}")
            order.append(f"{name}/draw{number}")
    programs = {name: program for name, program in emitter.cycle.programs.items() if name not in cycle.order}
    return replace(emitter.cycle, programs=programs, order=tuple(order))


class _Drawn:
    """Writes the program of a draw."""

    def __init__(
        self, emitter: Emitter, word: str, draw: Callable[[int, np.ndarray], np.ndarray], factor: float
    ) -> None:
        self._emitter, self._word, self._draw, self._factor = emitter, word, draw, factor
        self._names: dict[str, str] = {}
        self._kept: dict[str, tuple[np.ndarray, ...]] = {}  # of spaces that are received, by worker what was drawn

    def put(self, cycle: Cycle, name: str) -> None:
        program, constant = cycle.programs[name], constant_values(cycle, cycle.programs[name])
        drawn = {op.reads[0]: op for op in program if _is_drawn(cycle, op, constant)}
        for op in program:
            self._name(cycle, op, constant)
            packed = drawn.get(op.writes[0])
            if packed is not None:
                self._choose(packed, op.attributes["index"])
            self._emitter.append(self._of_draw(op, is_drawn=packed is not None or op in drawn.values()))

    def _name(self, cycle: Cycle, op: Operator, constant: set[str]) -> None:
        if not (cycle.results | constant).intersection(op.writes):
            made = (name for name in op.writes if cycle.values[name].role != "cell")  # which all draws go on with
            self._names |= {name: f"{name}/{self._word}" for name in made}

    def _of_draw(self, op: Operator, *, is_drawn: bool) -> Operator:
        attributes = dict(op.attributes)
        for kind in ("index", "route") if is_drawn else ():
            if kind in attributes:
                attributes[kind] = self._tag(attributes[kind])
        values = self._emitter.cycle.values
        spaces = {values[self._names.get(name, name)].space for name in op.reads}
        if "block" in attributes:
            attributes["block"] = self._block(attributes["block"], spaces)
        if "blocks" in attributes:
            attributes["blocks"] = tuple(self._block(name, spaces) for name in attributes["blocks"])
        key = f"{op.key}/{self._word}" if set(op.writes) & self._names.keys() else op.key
        return replace(renamed_operator(op, self._names), key=key, attributes=attributes)

    def _tag(self, name: str) -> str:
        return f"{name}/{self._word}"

    def _choose(self, exchange: Operator, pack: str) -> None:
        """The spaces, the index and the route of the rows that were drawn."""
        cycle, arrays = self._emitter.cycle, self._emitter.cycle.arrays
        assert arrays
        route = cycle.routes[exchange.attributes["route"]]
        if self._tag(route.name) in cycle.routes:
            return
        received = arrays.ids[route.target]
        drawn = [self._draw(worker, ids) for worker, ids in enumerate(received)]
        # Rows from p to q stand in one order in what p sends and in what q receives.
        parts = [np.split(mask, np.cumsum(route.counts[:-1, q])) for q, mask in enumerate(drawn)]
        sent = [np.concatenate([of[p] for of in parts]) for p in cycle.workers]
        for space, masks in ((route.target, drawn), (route.source, sent)):
            ids = [each[mask] for each, mask in zip(arrays.ids[space], masks, strict=True)]
            self._emitter.add_space(Space(self._tag(space), tuple(map(len, ids))), ids)
        rows = [each[mask] for each, mask in zip(arrays.rows[pack], sent, strict=True)]
        self._emitter.add_index(Index(self._tag(pack), cycle.indexes[pack].source, self._tag(route.source)), rows)
        counts = np.array([[parts[q][p].sum() for q in cycle.workers] for p in cycle.workers], np.int64)
        counts = counts.reshape(route.counts.shape)
        self._emitter.add_route(Route(self._tag(route.name), self._tag(route.source), self._tag(route.target), counts))
        self._kept[route.target] = tuple(drawn)

    def _block(self, name: str, spaces: Container[str]) -> str:
        """A block over rows that were drawn, where those are read; others as they are.

        Args:
            spaces: of what is read.
        """
        cycle, arrays = self._emitter.cycle, self._emitter.cycle.arrays
        block, drawn = cycle.blocks[name], cycle.blocks.get(self._tag(name))
        if self._tag(block.column) not in spaces and (drawn is None or drawn.edges not in spaces):
            return name
        if drawn is None:
            assert arrays
            masks = self._kept[block.column]
            whole = zip(arrays.matrices[name], masks, strict=True)
            matrices = [over_columns(each, mask, self._factor) for each, mask in whole]
            edges = tuple(each.nnz for each in matrices)
            self._emitter.add_block(block.part(self._tag(name), edges, column=self._tag(block.column)), matrices)
        return self._tag(name)


def _is_drawn(cycle: Cycle, op: Operator, constant: set[str]) -> bool:
    is_halo = op.kind == "exchange" and "level" in op.attributes
    return is_halo and cycle.values[op.writes[0]].layout == "dense" and op.reads[0] not in constant
