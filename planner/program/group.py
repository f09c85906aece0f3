"""The sum of a gradient over some of the workers, as it stands for all of them."""

from __future__ import annotations

from collections.abc import Sequence


def scales(contributing: Sequence[Sequence[int]], members: Sequence[int]) -> list[float]:
    """By layer, what a group's summed gradient is multiplied with to stand for all workers'.

    NeutronCloud, equation 14: the sum over all vertices of the layer, divided by the group's own. With n_k the vertices
    of worker k and g_k its mean gradient a vertex, equation 14's sum of n_k g_k over sum of n_k, times all vertices,
    since the engine's gradients are sums. Exactly 1 for all workers; 0 where nobody in the group has a vertex.

    Args:
        contributing: `contributing[l][w]` vertices of worker w contribute to layer l's gradient.
        members: ranks.
    """
    found = []
    for counts in contributing:
        present = sum(counts[member] for member in members)
        found.append(sum(counts) / present if present else 0.0)
    return found
