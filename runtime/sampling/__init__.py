"""Mini-batches by neighbour sampling, with the attributes of PyG's loader.

from gnnplan.runtime.sampling import NeighborLoader
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnplan.runtime.sampling.loader import NeighborLoader

__all__ = ["NeighborLoader"]


def __getattr__(name: str) -> type:
    """The loader, once it is asked for: it imports PyG for seconds, which other modules of this folder do without."""
    if name != "NeighborLoader":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gnnplan.runtime.sampling.loader import NeighborLoader

    return NeighborLoader
