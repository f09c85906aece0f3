"""Rows turned into slices of their columns, one after another, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

Slices = Sequence[tuple[int, int]]


def pack_columns_(packed: Tensor, rows: Tensor, slices: Slices, heads: int) -> Tensor:
    """Writes the slices of `rows` [n, width] one after another, and returns `packed` [n, width].

    Args:
        slices: (start, stop) of each in a head's order: of every head as many columns.
    """
    for part, of_rows in _parts(packed, rows, slices, heads):
        part.copy_(of_rows)
    return packed


def unpack_columns_(rows: Tensor, packed: Tensor, slices: Slices, heads: int) -> Tensor:
    """The way back: returns `rows`."""
    for part, of_rows in _parts(packed, rows, slices, heads):
        of_rows.copy_(part)
    return rows


def _parts(packed: Tensor, rows: Tensor, slices: Slices, heads: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Views [n, heads, channels] of every slice: where it stands packed, and among the rows."""
    num_rows, width = rows.shape
    flat, by_head = packed.view(-1), rows.view(num_rows, heads, width // heads)
    for start, stop in slices:
        part = flat[num_rows * start : num_rows * stop]
        yield (
            part.view(num_rows, heads, (stop - start) // heads),
            by_head[:, :, start // heads : stop // heads],
        )
