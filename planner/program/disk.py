"""Whether rows lie on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class HasValues(Protocol):
    """A cycle, or the document of one."""

    @property
    def values(self) -> Mapping[str, Any]:
        """By name, with a `tier` each."""
        ...


def lies_on_disk(of: HasValues) -> bool:
    """Whether some rows do. Then matrices, the rows of indexes and all inputs lie in files too."""
    return any(value.tier == "disk" for value in of.values.values())
