"""The arrays of a plan's choices, and the two files of a plan: its contract, and these arrays beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.loaders.read import check_archive, reading
from gnnplan.planner.plan import Plan
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError


@dataclass(frozen=True)
class Partition:
    """The arrays of a plan's choices.

    Args:
        chosen: every array by `technique/name`.
    """

    chosen: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> Partition:
        """The arrays of choices."""
        arrays = ((f"{each.technique}/{name}", array) for each in choices for name, array in each.arrays.items())
        return cls(dict(arrays))

    @property
    def part(self) -> np.ndarray:
        """int32 [N]: the owner of every vertex, where a layout gives every vertex one (else none)."""
        return next((array for name, array in self.chosen.items() if name.endswith("/part")), np.empty(0, np.int32))

    def digest(self) -> str:
        """SHA-256 of the bytes of all, and of their names, types and shapes."""
        digest = hashlib.sha256()
        for name, array in sorted(self.chosen.items()):
            digest.update(f"{name}{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def save_plan(plan: Plan, partition: Partition, path: Path) -> Path:
    """Writes the partition beside the plan, then the plan; a plan on disk is never half there."""
    with replacing(path.parent / plan.partition_file) as temporary:
        np.savez_compressed(temporary, **partition.chosen)  # type: ignore[arg-type]
    return plan.save(path)


def load_partition(plan: Plan, plan_path: Path) -> Partition:
    """The partition of a plan; `UserError` where it is missing, damaged or another plan's."""
    path = plan_path.parent / plan.partition_file
    if not path.exists():
        raise UserError(f"{path}: the plan's partition is missing; keep it beside the plan")
    check_archive(path)
    with reading(path, "a partition file"), np.load(path, allow_pickle=False) as file:
        found = Partition({name: file[name] for name in _names(file)})
    wanted = {f"{each.technique}/{name}" for each in plan.choices for name in technique(each.technique).arrays}
    if set(found.chosen) != wanted or found.digest() != plan.partition_sha256:
        raise UserError(f"{path}: not the partition this plan was made with; make the plan again")
    return found


def _names(file: object) -> list[str]:
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError("one array alone")
    return file.files
