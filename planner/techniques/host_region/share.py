"""Exchanges whose rows come to a host once, and lie in its region for all of its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.program.cycle import EVALUATE, SETUP, Cycle, Program
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.labels import Label, brings
from gnnplan.planner.program.parts import Index, Operator, Route, Space
from gnnplan.planner.techniques.host_region.hosts import HostRows, host_rows, positions


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
    return (op for program in cycle.programs.values() for op in program if op.kind == "take")


@dataclass(frozen=True)
class _Names:
    """Arrays of one route, by name. `sends` is false where every row is written by its owner."""

    pack: str
    route: str
    own: str
    places: str
    find: str
    sends: bool


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
        self._cut: dict[tuple[str, str], _Names] = {}

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

    def _names(self, op: Operator) -> _Names:
        key = op.attributes["route"], self._packs[op.reads[0]].attributes["index"]
        if key not in self._cut:
            self._cut[key] = self._arrays(*key)
        return self._cut[key]

    def _arrays(self, route: str, pack: str) -> _Names:
        """Cuts where the rows of a route lie in the regions, who writes them, and what still travels."""
        cycle, ranks = self._emitter.cycle, range(len(self._host_of))
        assert cycle.arrays
        plain, source = cycle.routes[route], cycle.indexes[pack].source
        wanted, ids, counts = cycle.arrays.ids[plain.target], cycle.arrays.ids[source], plain.counts
        owners = [np.repeat(np.arange(len(ranks)), counts[:, rank]) for rank in ranks]
        rows = self._rows_of_hosts(wanted, owners)
        tag = f"{plain.target} by host"
        of_each = {
            "region": [rows[rank].vertices for rank in ranks],
            "written": [rows[rank].vertices[rows[rank].places_of(rank)] for rank in ranks],
            "own": [rows[rank].owned_by(rank) for rank in ranks],
        }
        for word, vertices in of_each.items():
            self._emitter.add_space(Space(f"{word} {tag}", tuple(map(len, vertices))), vertices)
        self._index("own", tag, source, "own", [positions(*each) for each in zip(ids, of_each["own"], strict=True)])
        self._index("places", tag, f"region {tag}", "written", [rows[rank].places_of(rank) for rank in ranks], True)
        found = [positions(rows[rank].vertices, wanted[rank]) for rank in ranks]
        self._emitter.add_index(Index(f"find {tag}", f"region {tag}", plain.target), found)
        sends = self._add_route(tag, source, ids, [rows[rank].received_by(rank) for rank in ranks])
        return _Names(f"pack {tag}", f"route {tag}", f"own {tag}", f"places {tag}", f"find {tag}", sends)

    def _rows_of_hosts(self, wanted: tuple[np.ndarray, ...], owners: list[np.ndarray]) -> list[HostRows]:
        """By worker, the rows of its host."""
        found = {}
        for host in set(self._host_of):
            ranks = [rank for rank, its in enumerate(self._host_of) if its == host]
            found[host] = host_rows(ranks, [wanted[rank] for rank in ranks], [owners[rank] for rank in ranks])
        return [found[host] for host in self._host_of]

    def _index(
        self, word: str, tag: str, source: str, target: str, rows: list[np.ndarray], is_view: bool = False
    ) -> None:
        self._emitter.add_index(Index(f"{word} {tag}", source, f"{target} {tag}", is_view), rows)

    def _add_route(
        self, tag: str, source: str, ids: tuple[np.ndarray, ...], received: list[tuple[np.ndarray, np.ndarray]]
    ) -> bool:
        """The route of rows to their writers, and what is packed for it; whether any row travels."""
        size = len(received)
        counts = np.array([np.bincount(owner, minlength=size) for _, owner in received], np.int64).T
        sent = [np.concatenate([rows[owner == rank] for rows, owner in received]) for rank in range(size)]
        if not counts.any():
            return False
        self._emitter.add_space(Space(f"sent {tag}", tuple(map(len, sent))), sent)
        self._emitter.add_space(Space(f"received {tag}", tuple(counts.sum(0).tolist())), [rows for rows, _ in received])
        rows = [positions(*each) for each in zip(ids, sent, strict=True)]
        self._emitter.add_index(Index(f"pack {tag}", source, f"sent {tag}"), rows)
        self._emitter.add_route(Route(f"route {tag}", f"sent {tag}", f"received {tag}", counts))
        return True


def _region(name: str) -> str:
    return f"{name}/region"


def _key(op: Operator) -> str:
    return op.key.removesuffix("/exchange")
