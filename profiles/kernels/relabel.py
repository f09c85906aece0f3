"""Vertices of one batch numbered from 0 in the order they are found, by an open-addressing hash table."""

from __future__ import annotations

import numpy as np
from numba import njit

from gnnplan.profiles.kernels.counter import GOLDEN

_EMPTY = -1
_MIN_BITS = 10


class LocalIds:
    """The map from vertex to local id, kept from batch to batch for its memory; one thread at a time.

    Linear probing in a power of two of slots, at most three quarters full. It never has more slots
    than the next power of two above the number of vertices: with so many the hash is the vertex
    itself, and nothing collides.

    Args:
        num_vertices: N, below 2^31; vertices are 0..N - 1.
    """

    def __init__(self, num_vertices: int) -> None:
        self._max_bits = max(0, (num_vertices - 1).bit_length())
        self._slots = np.empty(0, np.int64)
        self._resize(min(_MIN_BITS, self._max_bits))

    def begin(self, seeds: np.ndarray) -> None:
        """Forgets the last batch and numbers `seeds` [B] by position; a repeated one by its first."""
        self._slots.fill(_EMPTY)
        self.reserve(seeds[:0], len(seeds))
        _remember(seeds, self._slots, self._multiplier, self._shift)

    def reserve(self, found: np.ndarray, num_new: int) -> None:
        """Makes room for `num_new` vertices beside those found so far [n], in order of their ids."""
        bits = min((4 * (len(found) + num_new) // 3).bit_length(), self._max_bits)
        if 1 << bits > len(self._slots):
            self._resize(bits)
            _remember(found, self._slots, self._multiplier, self._shift)

    def number(self, vertices: np.ndarray, found: np.ndarray, num_found: int) -> int:
        """Puts each vertex's local id in its place, in `vertices` itself; `reserve` comes first.

        Args:
            vertices: int32 [n] in, local ids out.
            found: int64, with room; vertices met for the first time are written behind `num_found`.
            num_found: how many are known.
        Returns:
            How many are known now.
        """
        return _number(vertices, found, num_found, self._slots, self._multiplier, self._shift)

    def _resize(self, bits: int) -> None:
        is_direct = bits == self._max_bits
        self._slots = np.full(1 << bits, _EMPTY, np.int64)
        self._multiplier = np.uint64(1 if is_direct else GOLDEN)
        self._shift = np.uint64(0 if is_direct else 64 - bits)


@njit(nogil=True, cache=True)
def _find(vertex, slots, multiplier, shift):  # pragma: no cover - compiled
    """The slot that holds `vertex`, or the free one where it belongs.

    A slot is the vertex in its upper and the local id in its lower 32 bits: one cache line a look.
    """
    mask = np.uint64(len(slots) - 1)
    slot = (np.uint64(vertex) * multiplier) >> shift
    while slots[slot] >= 0 and slots[slot] >> 32 != vertex:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(nogil=True, cache=True)
def _remember(found, slots, multiplier, shift):  # pragma: no cover - compiled
    for local in range(len(found)):
        vertex = np.int64(found[local])
        slot = _find(vertex, slots, multiplier, shift)
        if slots[slot] < 0:
            slots[slot] = (vertex << 32) | local


@njit(nogil=True, cache=True)
def _number(vertices, found, num_found, slots, multiplier, shift):  # pragma: no cover - compiled
    for i in range(len(vertices)):
        vertex = np.int64(vertices[i])
        slot = _find(vertex, slots, multiplier, shift)
        if slots[slot] < 0:
            slots[slot] = (vertex << 32) | num_found
            found[num_found] = vertex
            num_found += 1
        vertices[i] = slots[slot] & 0xFFFFFFFF
    return num_found
