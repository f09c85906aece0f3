"""A technique that takes part in a plan, with what was decided for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gnnplan.profiles.contract import Contract


@dataclass(frozen=True)
class Choice:
    """A technique by its name.

    Args:
        decision: of the technique's own kind.
        arrays: what belongs to it, by name.
    """

    technique: str
    decision: Contract
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def key(self) -> tuple:
        """Equal for choices that are the same; arrays are told apart by identity, so searches keep them."""
        arrays = tuple((name, id(array)) for name, array in sorted(self.arrays.items()))
        return self.technique, self.decision.model_dump_json(), arrays
