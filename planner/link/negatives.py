"""Pairs that are no edges, drawn for given heads."""

from __future__ import annotations

import numpy as np

_ROUNDS = 20
_SLACK = 1.2  # more than are missing are drawn at once, for some are edges


def drawn(
    heads: np.ndarray, counts: np.ndarray, tails: np.ndarray, taken: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Heads and tails of pairs that are no edges, no self loops, and all different.

    A head that is joined to nearly all others may have fewer than were asked for.

    Args:
        heads: int64 [H], each once.
        counts: int64 [H], of how many pairs of each.
        tails: int64 that are drawn from, each once.
        taken: int64 ascending keys head * n + tail of pairs that are edges.
        n: vertices.
    """
    found = np.empty(0, np.int64)
    missing = counts.copy()
    for _ in range(_ROUNDS):
        ask = np.where(missing > 0, np.ceil(missing * _SLACK).astype(np.int64) + 1, 0)
        if not ask.any():
            break
        head = np.repeat(heads, ask)
        tail = tails[rng.integers(0, len(tails), len(head))]
        keys = head * n + tail
        keys = keys[(head != tail) & ~_are_among(keys, taken) & ~_are_among(keys, found)]
        keys = rng.permutation(np.unique(keys))  # else of a head that got too many the smallest would stay
        keys = keys[np.argsort(keys // n, kind="stable")]
        found = np.union1d(found, _first_of_each(keys, heads, missing, n))
        missing = counts - _count(found // n, heads)
    return found // n, found % n


def _first_of_each(keys: np.ndarray, heads: np.ndarray, most: np.ndarray, n: int) -> np.ndarray:
    """Of every head no more keys than are wanted; keys are grouped by head."""
    of = keys // n
    begins = np.searchsorted(of, of, side="left")
    place = np.arange(len(keys)) - begins
    order = np.argsort(heads)
    wanted = most[order][np.searchsorted(heads[order], of)]
    return keys[place < wanted]


def _count(of: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """How many there are of every head; `of` is ascending."""
    return np.searchsorted(of, heads, side="right") - np.searchsorted(of, heads, side="left")


def _are_among(keys: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    if not len(ascending):
        return np.zeros(len(keys), bool)
    places = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    return ascending[places] == keys
