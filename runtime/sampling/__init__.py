"""Mini-batches by neighbour sampling, with the attributes of PyG's loader.

from gnnplan.runtime.sampling import NeighborLoader
"""

from __future__ import annotations

from gnnplan.runtime.sampling.loader import NeighborLoader

__all__ = ["NeighborLoader"]
