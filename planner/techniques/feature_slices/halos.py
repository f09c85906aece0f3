"""Rows that a group of a grid gathers and others own: sent between members of the same place, of the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.program.cuts import Part, cut_out
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.parts import Block, Index, Route, Space
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.only_rows import only_rows


class Halos:
    """Adds what travels between groups to a program that is being written.

    Spaces of the same rows that are gathered by the same matrix have one halo, whichever blocks it is of.

    Args:
        old: the program of one logical worker, with arrays.
        grid: of more than one group.
    """

    def __init__(self, old: Cycle, grid: Grid, emitter: Emitter) -> None:
        assert old.arrays
        assert grid.cutter
        self._old, self._arrays, self._grid, self._cutter = old, old.arrays, grid, grid.cutter
        self._emitter = emitter
        self._tags: dict[tuple[str, int], str] = {}
        self._tag_of: dict[str, str | None] = {}

    def share_block(self, block: Block, *, once: bool) -> None:
        """A block's rows of every worker's group, over all columns that these gather.

        Args:
            once: of its rows each member has its own alone.
        """
        (matrix,) = self._arrays.matrices[block.name]
        level, row_level = self._level(block.column), self._level(block.row)
        missing = self._cutter.missing(self._cutter.gathered(matrix, level, row_level), level)
        wanted = self._cutter.by_owner(missing, level, Label.SENT)
        if any(map(len, wanted)):
            self._tag_of[block.name] = tag = self._added(block, matrix, wanted)
            column = _with(tag)
        else:
            self._tag_of[block.name], column = None, f"all {block.column}"
        arrays = self._emitter.cycle.arrays
        assert arrays
        by_group = arrays.ids[column][:: self._grid.num_members]
        cuts: list[Part] = self._grid.on_members(self._cutter.matrices(matrix, row_level, by_group))
        if once:
            own = self._grid.own_rows(matrix.shape[0])
            places = map(self._cutter.positions, arrays.ids[f"all {block.row}"], own)
            cuts = [only_rows(cut_out(cut), rows) for cut, rows in zip(cuts, places, strict=True)]
        edges = tuple(cut.nnz for cut in cuts)
        self._emitter.add_block(block.part(block.name, edges, row=f"all {block.row}", column=column), cuts)

    def fetched(self, name: str, block: str) -> str:
        """A value of the groups' own rows, with the rows that a block gathers behind them."""
        tag = self._tag_of[block]
        if tag is None:
            return name
        packed = self._emitter.emit(
            "take", name, key=f"{name}/pack", index=f"pack {tag}", **self._entries(name, "sent", tag)
        )
        moved: dict[str, Any] = {"route": f"halo {tag}", "level": self._level(self._old.blocks[block].column)}
        moved |= self._entries(name, "received", tag)
        got = self._emitter.emit("exchange", packed, key=f"{name}/exchange", **moved)
        parts = tuple(_part(tag, number) for number in (0, 1))
        return self._emitter.emit(
            "place", name, got, key=f"{name}/place", parts=parts, **self._entries(name, "with halo", tag)
        )

    def _level(self, space: str) -> int:
        level = self._old.spaces[space].level
        assert level is not None
        return level

    def _added(self, block: Block, matrix: sp.csr_matrix, wanted: Sequence[np.ndarray]) -> str:
        """The spaces, indexes and the route of a halo; returns what they are called after."""
        key = (block.column, id(matrix))
        if key in self._tags:
            return self._tags[key]
        self._tags[key] = tag = block.name
        own, members = f"all {block.column}", self._grid.on_members
        sent, rows, counts = self._cutter.senders(wanted)
        self._add_space(f"sent {tag}", members(sent))
        self._add_space(f"received {tag}", members(wanted))
        # Members' ranges follow one another, so a row's place among its group's is the cutter's.
        self._emitter.add_index(Index(f"pack {tag}", own, f"sent {tag}"), members(rows))
        route = Route(f"halo {tag}", f"sent {tag}", f"received {tag}", self._grid.among_groups(counts))
        self._emitter.add_route(route)
        self._add_whole(tag, own)
        return tag

    def _add_whole(self, tag: str, own: str) -> None:
        arrays = self._emitter.cycle.arrays
        assert arrays
        spaces, inner = (own, f"received {tag}"), _with(tag)
        pairs = zip(*(arrays.ids[space] for space in spaces), strict=True)
        self._add_space(inner, [np.concatenate(pair) for pair in pairs])
        starts = np.zeros(self._grid.num_workers, np.int64)
        for number, space in enumerate(spaces):
            sizes = np.array([len(ids) for ids in arrays.ids[space]])
            rows = [np.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)]
            self._emitter.add_index(Index(_part(tag, number), inner, space, True), rows)
            starts = starts + sizes

    def _add_space(self, name: str, ids: Sequence[np.ndarray]) -> None:
        self._emitter.add_space(Space(name, tuple(map(len, ids))), ids)

    def _entries(self, name: str, what: str, tag: str) -> dict[str, Any]:
        """Of sparse rows, how many entries some of them have: taken to be as many as in the mean of the group's."""
        value = self._emitter.cycle.values[name]
        if value.layout != "csr":
            return {}
        space = self._emitter.cycle.spaces[f"{what} {tag}"]
        rows = self._emitter.cycle.spaces[value.space].sizes
        pairs = zip(value.num_entries, rows, space.sizes, strict=True)
        return {"entries": tuple(entries * some // max(count, 1) for entries, count, some in pairs)}


def _with(tag: str) -> str:
    return f"with halo {tag}"


def _part(tag: str, number: int) -> str:
    return f"{_with(tag)}, part {number}"
