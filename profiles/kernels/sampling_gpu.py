"""Neighbour sampling as Triton kernels: the same draws as `gnnplan.profiles.kernels.sampling`, bit by bit.

The graph may lie in page-locked host memory, which a GPU reads directly (UVA). Without a GPU the kernels
run under `TRITON_INTERPRET=1`, for tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from gnnplan.profiles.kernels.counter import GOLDEN, MIX_1, MIX_2

_GOLDEN, _MIX_1, _MIX_2 = tl.constexpr(GOLDEN), tl.constexpr(MIX_1), tl.constexpr(MIX_2)
MAX_FAN_OUT = 128  # a vertex's draws are unrolled and stay in registers
_BLOCK = 64
_MAX_GATHER_WIDTH = 1024


@triton.jit
def _splitmix_at(state, counter):
    """As `counter.splitmix_at`."""
    z = state + (counter.to(tl.uint64) + 1) * _GOLDEN
    z = (z ^ (z >> 30)) * _MIX_1
    z = (z ^ (z >> 27)) * _MIX_2
    return z ^ (z >> 31)


# Numbers that differ from batch to batch must not have the kernel compiled anew for each kind of number.
@triton.jit(do_not_specialize=["num_frontier", "first_column"])
def _draw_kernel(
    indptr,
    frontier,
    edge_starts,
    key_halves,
    positions,
    columns,
    num_frontier,
    first_column,
    FAN_OUT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Positions of the edges each frontier vertex draws, by Floyd's algorithm, and its local id beside each."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = row < num_frontier
    vertex = tl.load(frontier + row, mask=here, other=0)
    start = tl.load(indptr + vertex, mask=here, other=0)
    degree = tl.load(indptr + vertex + 1, mask=here, other=0) - start
    key = (tl.load(key_halves).to(tl.uint64) << 32) | tl.load(key_halves + 1).to(tl.uint64)
    state = _splitmix_at(key, vertex)
    draw = tl.arange(0, WIDTH)[None, :]
    takes_all = degree <= FAN_OUT
    chosen = tl.where(takes_all[:, None], start[:, None] + draw, -1)
    for i in tl.static_range(FAN_OUT):
        last = degree - FAN_OUT + i
        bits = _splitmix_at(state, tl.full((BLOCK,), i, tl.int64)) >> 32
        drawn = start + ((bits * (last + 1).to(tl.uint64)) >> 32).to(tl.int64)
        is_taken = tl.sum(((chosen == drawn[:, None]) & (draw < i)).to(tl.int32), 1) > 0
        drawn = tl.where(is_taken, start + last, drawn)
        chosen = tl.where((draw == i) & (takes_all == 0)[:, None], drawn[:, None], chosen)
    num_drawn = tl.minimum(degree, FAN_OUT)
    at = tl.load(edge_starts + row, mask=here, other=0)[:, None] + draw
    is_drawn = here[:, None] & (draw < num_drawn[:, None])
    tl.store(positions + at, chosen, mask=is_drawn)
    tl.store(columns + at, (first_column + row)[:, None] + draw * 0, mask=is_drawn)


@triton.jit(do_not_specialize=["num_rows"])
def _gather_kernel(
    table, kept, slots, index, out, num_rows, width, HAS_KEPT: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr
):
    """out[i] = kept[slots[i]] where slots[i] >= 0, else table[index[i]]; rows of `width` elements."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    here = (row < num_rows)[:, None] & (column < width)[None, :]
    source = tl.load(index + row, mask=row < num_rows, other=0)
    if HAS_KEPT:
        slot = tl.load(slots + row, mask=row < num_rows, other=-1)
        is_kept = (slot >= 0)[:, None]
        near = tl.load(kept + slot[:, None] * width + column[None, :], mask=here & is_kept)
        far = tl.load(table + source[:, None] * width + column[None, :], mask=here & (slot < 0)[:, None])
        values = tl.where(is_kept, near, far)
    else:
        values = tl.load(table + source[:, None] * width + column[None, :], mask=here)
    tl.store(out + row[:, None].to(tl.int64) * width + column[None, :], values, mask=here)


def gather(table: Tensor, index: Tensor, kept: Tensor | None = None, slots: Tensor | None = None) -> Tensor:
    """Rows of `table` [N, F] or [N] at `index` int64 [n], on the index's device.

    Args:
        table: on the device, or page-locked in host memory, which the device reads directly.
        kept: [k, F] or [k] on the device: rows that need not be read over the bus.
        slots: int64 [n]: which of `kept` is row i, -1 where it is none; given with `kept`.
    """
    width = table[0].numel() if table.dim() > 1 else 1
    out = torch.empty((len(index), *table.shape[1:]), dtype=table.dtype, device=index.device)
    if len(index) and width:
        columns = min(triton.next_power_of_2(width), _MAX_GATHER_WIDTH)
        rows = max(1, _MAX_GATHER_WIDTH // columns)
        grid = (triton.cdiv(len(index), rows), triton.cdiv(width, columns))
        has_kept = kept is not None and len(kept) > 0
        near, places = (kept, slots) if has_kept else (out, index)
        _gather_kernel[grid](
            table, near, places, index, out, len(index), width, HAS_KEPT=has_kept, BLOCK=rows, WIDTH=columns
        )
    return out


def draw_hop(indptr: Tensor, frontier: Tensor, first_column: int, fan_out: int, key: int) -> tuple[Tensor, Tensor]:
    """One hop's edges: their positions in the graph and their targets' local ids, both int64 [e].

    Args:
        indptr: int64 [N + 1], on the device or page-locked.
        frontier: int64 [f] on the device; its local ids run from `first_column`.
        fan_out: neighbours to draw at most, 1 to `MAX_FAN_OUT`.
        key: `hop_key` of the hop.
    """
    degrees = gather(indptr, frontier + 1) - gather(indptr, frontier)
    counts = degrees.clamp(max=fan_out)
    ends = counts.cumsum(0)
    num_edges = int(ends[-1]) if len(ends) else 0
    positions, columns = (torch.empty(num_edges, dtype=torch.int64, device=frontier.device) for _ in range(2))
    if num_edges:
        halves = torch.tensor([key >> 32, key & 0xFFFFFFFF], dtype=torch.int64, device=frontier.device)
        _draw_kernel[(triton.cdiv(len(frontier), _BLOCK),)](
            indptr,
            frontier,
            ends - counts,
            halves,
            positions,
            columns,
            len(frontier),
            first_column,
            FAN_OUT=fan_out,
            WIDTH=triton.next_power_of_2(fan_out),
            BLOCK=_BLOCK,
        )
    return positions, columns


def number(found: Tensor, vertices: Tensor) -> tuple[Tensor, Tensor]:
    """Local ids in the order of first appearance.

    Args:
        found: int64 [n], known vertices, all different; their ids are their positions.
        vertices: int64 [e].
    Returns:
        The ids of `vertices` [e], and all vertices known now, the known ones first.
    """
    both = torch.cat([found, vertices])
    distinct, inverse = both.unique(return_inverse=True)
    position = torch.arange(len(both), device=both.device)
    first = torch.full_like(distinct, len(both)).scatter_reduce_(0, inverse, position, "amin")
    order = first.argsort()
    rank = torch.empty_like(order)
    rank[order] = position[: len(order)]
    return rank[inverse[len(found) :]], distinct[order]


@dataclass(frozen=True)
class KeptEdges:
    """In-neighbours of some vertices, in device memory.

    Args:
        indices: [k], their sources, vertex after vertex.
        starts: int64 [N], where a vertex's begin in `indices`; -1 where they are not kept.
        ids: int64 [k], their edges; None where positions in the graph are edges.
    """

    indices: Tensor
    starts: Tensor
    ids: Tensor | None = None

    def slots(self, indptr: Tensor, targets: Tensor, positions: Tensor) -> Tensor:
        """int64 [e], which of `indices` the edge at each position is; -1 for one that is not kept.

        Args:
            targets: int64 [e], the vertices that the edges lead to.
        """
        starts = self.starts[targets]
        return torch.where(starts >= 0, starts + positions - gather(indptr, targets), -1)


def sample(
    indptr: Tensor,
    indices: Tensor,
    seeds: Tensor,
    fan_outs: Sequence[int],
    keys: Sequence[int],
    kept: KeptEdges | None = None,
) -> tuple[Tensor, Tensor, Tensor, list[int], list[int]]:
    """One batch, equal to the CPU's: vertices, edges, positions of the edges, and both counts a hop.

    Args:
        indptr, indices: the graph by target, on the device or page-locked.
        seeds: int64 [B] on the device, all different.
        fan_outs: 1 to `MAX_FAN_OUT` each.
        keys: `hop_key` of every hop.
        kept: edges that need not be read over the bus.
    Returns:
        `n_id` [n], `edge_index` [2, e], positions [e], new vertices a hop (seeds first), edges a hop.
    """
    found, num_nodes, num_edges = seeds, [len(seeds)], []
    edges, taken = [], []
    for fan_out, key in zip(fan_outs, keys, strict=True):
        first = len(found) - num_nodes[-1]
        positions, columns = draw_hop(indptr, found[first:], first, fan_out, key)
        sources = _sources(indptr, indices, found, positions, columns, kept)
        rows, found_now = number(found, sources.to(torch.int64))
        edges.append(torch.stack([rows, columns]))
        taken.append(positions)
        num_nodes.append(len(found_now) - len(found))
        num_edges.append(len(positions))
        found = found_now
    return found, torch.cat(edges, 1), torch.cat(taken), num_nodes, num_edges


def _sources(
    indptr: Tensor, indices: Tensor, found: Tensor, positions: Tensor, columns: Tensor, kept: KeptEdges | None
) -> Tensor:
    """[e], where the drawn edges come from."""
    if kept is None:
        return gather(indices, positions)
    return gather(indices, positions, kept.indices, kept.slots(indptr, found[columns], positions))
