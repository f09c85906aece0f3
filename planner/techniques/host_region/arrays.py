"""The arrays of regions: where the rows of a route lie, who writes them, and what of them still travels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Index, Route, Space
from gnnplan.planner.techniques.host_region.hosts import HostRows, host_rows, positions


@dataclass(frozen=True)
class RegionNames:
    """Arrays of one route, by name. `sends` is false where every row is written by its owner."""

    pack: str
    route: str
    own: str
    places: str
    find: str
    sends: bool


class RegionArrays:
    """Cuts the arrays of routes, those of each route once.

    Args:
        emitter: gets the spaces, indexes and routes.
        host_of: the host of every worker.
    """

    def __init__(self, emitter: Emitter, host_of: tuple[int, ...]) -> None:
        self._emitter, self._host_of = emitter, host_of
        self._cut: dict[tuple[str, str], RegionNames] = {}

    def of(self, route: str, pack: str) -> RegionNames:
        """The names of what is cut for a route, whose rows the index `pack` takes."""
        if (route, pack) not in self._cut:
            self._cut[route, pack] = self._make(route, pack)
        return self._cut[route, pack]

    def _make(self, route: str, pack: str) -> RegionNames:
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
        return RegionNames(f"pack {tag}", f"route {tag}", f"own {tag}", f"places {tag}", f"find {tag}", sends)

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
