"""Exchanges whose rows come to a host once, and lie in its region for all of its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gnnplan.planner.program.cycle import EVALUATE, SETUP, Cycle, Program
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.labels import Label, brings
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.techniques.host_region.arrays import RegionArrays, RegionNames


def share_in_regions(cycle: Cycle, host_of: tuple[int, ...]) -> Cycle:
    """The cycle in which shared rows travel to their writers alone, and are read from the regions of hosts.

    It comes after the derivation, so gradients are returned by every reader as before; and after whatever makes cells
    of what was received, so that what outlives a program is the region alone. An evaluation that receives rows of its
    own does so in the plain way, since it may change nothing that training holds.

    Args:
        host_of: the host of every worker.
    """
    shared = {op.writes[0]: op for name, program in cycle.programs.items() for op in _shared(cycle, name, program)}
    if not shared:
        return cycle
    assert cycle.arrays
    emitter = Emitter(cycle)
    rewriter = _Rewriter(emitter, host_of, shared, {op.writes[0]: op for op in _packs(cycle)})
    played = [name for name in dict.fromkeys((SETUP, *cycle.order, *cycle.programs)) if name in cycle.programs]
    for name in played:  # a region is written before it is read
        emitter.begin()
        rewriter.rewrite(cycle.programs[name], {op.key for op in _shared(cycle, name, cycle.programs[name])})
        emitter.end(name)
    for name in shared:
        emitter.add_value(replace(emitter.cycle.values[name], role="temporary"))
    return without_dead(emitter.cycle)


def _shared(cycle: Cycle, name: str, program: Program) -> Iterable[Operator]:
    """Exchanges of rows that hosts hold; sparse rows stay with their workers."""
    if name == EVALUATE:
        return
    for op in program:
        is_dense = op.kind == "exchange" and cycle.values[op.writes[0]].layout == "dense"
        if brings(op, (Label.SHARED,)) and is_dense and not op.attributes.get("back"):
            yield op


def _packs(cycle: Cycle) -> Iterable[Operator]:
    return (op for op in cycle.operators() if op.kind == "take")


class _Rewriter:
    """Rewrites programs.

    Args:
        shared: by what it writes, the exchange of rows that hosts hold.
        packs: by what it writes, the operator that takes the rows to be sent.
    """

    def __init__(
        self,
        emitter: Emitter,
        host_of: tuple[int, ...],
        shared: Mapping[str, Operator],
        packs: Mapping[str, Operator],
    ) -> None:
        self._emitter, self._host_of, self._shared, self._packs = emitter, host_of, shared, packs
        self._arrays = RegionArrays(emitter, host_of)

    def rewrite(self, program: Program, exchanges: set[str]) -> None:
        """Appends a program's operators. What is shared is published and read as late as somebody asks for it."""
        written = {name for op in program for name in op.writes}
        pending = {name for name in self._shared if name not in written}
        received: dict[str, tuple[str, ...]] = {}
        for op in program:
            for name in [name for name in op.reads if name in pending]:
                self._read(name, received.pop(name, None))
                pending.remove(name)
            if op.key in exchanges:
                received[op.writes[0]] = self._received(op)
                pending.add(op.writes[0])
            else:
                self._emitter.operators.append(op)
        for name, rows in received.items():  # written here, and read by other programs alone
            self._publish(name, rows)

    def _received(self, op: Operator) -> tuple[str, ...]:
        """Sends to writers what they do not own; returns what they receive."""
        names, key = self._names(op), _key(op)
        if not names.sends:
            return ()
        source = self._packs[op.reads[0]].reads[0]
        packed = self._emitter.emit("take", source, key=f"{key}/once/pack", index=names.pack)
        attributes = {**op.attributes, "route": names.route}
        return (self._emitter.emit("exchange", packed, key=f"{key}/once/exchange", **attributes),)

    def _read(self, name: str, received: tuple[str, ...] | None) -> None:
        """What a program reads of a region; written before where it receives the rows."""
        if received is not None:
            self._publish(name, received)
        op = self._shared[name]
        index = self._names(op).find
        self._emitter.emit("find", _region(name), key=f"{_key(op)}/find", writes=(name,), index=index)

    def _publish(self, name: str, received: tuple[str, ...]) -> None:
        op, emit = self._shared[name], self._emitter.emit
        names, source, cell = self._names(op), self._packs[op.reads[0]].reads[0], _region(name)
        at = {"places": names.places}
        rows = emit("publish", source, *received, key=f"{_key(op)}/publish", index=names.own, cell=cell, **at)
        emit("host_barrier", rows, key=f"{_key(op)}/barrier", writes=(cell,), host_of=self._host_of, **at)
        self._emitter.add_value(replace(self._emitter.cycle.values[cell], role="cell"))

    def _names(self, op: Operator) -> RegionNames:
        return self._arrays.of(op.attributes["route"], self._packs[op.reads[0]].attributes["index"])


def _region(name: str) -> str:
    return f"{name}/region"


def _key(op: Operator) -> str:
    return op.key.removesuffix("/exchange")
