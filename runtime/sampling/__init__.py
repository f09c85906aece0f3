"""Mini-batches by neighbour sampling, with the attributes of PyG's loaders.

from gnnplan.runtime.sampling import NeighborLoader, LinkNeighborLoader
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnplan.runtime.sampling.link_loader import LinkNeighborLoader
    from gnnplan.runtime.sampling.loader import NeighborLoader

__all__ = ["LinkNeighborLoader", "NeighborLoader"]

_MODULES = {"NeighborLoader": "loader", "LinkNeighborLoader": "link_loader"}


def __getattr__(name: str) -> type:
    """A loader, once it is asked for: it imports PyG for seconds, which other modules of this folder do without."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loader: type = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return loader
