"""Bytes that a program holds at a moment, on every worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import ITEM_BYTES


class HeldBytes:
    """Of temporaries in every worker's own memory: each storage once, and none of what stays.

    A value's storage is looked up when it is written: afterwards it changes in place, or is written again.

    Args:
        stored: what stays from before, by name; of every value a tensor a worker.
    """

    def __init__(self, cycle: Cycle, stored: Mapping[str, Sequence[Tensor | None]]) -> None:
        self._values = cycle.values
        self._temporary: list[dict[str, tuple[int, int]]] = [{} for _ in cycle.workers]  # storage, bytes
        self._staying: list[dict[str, tuple[int, int]]] = [{} for _ in cycle.workers]
        for name, tensors in stored.items():
            self._note(self._staying, name, tensors)

    def put(self, name: str, tensors: Sequence[Tensor | None]) -> None:
        """A value is written, on every worker; None where it has none."""
        is_temporary = self._values[name].role == "temporary"
        self._note(self._temporary if is_temporary else self._staying, name, tensors)

    def drop(self, name: str) -> None:
        """A temporary ends."""
        for held in self._temporary:
            held.pop(name, None)

    def num_bytes(self) -> np.ndarray:
        """int64 (num_workers,)."""
        found = []
        for held, staying in zip(self._temporary, self._staying, strict=True):
            kept = {at for at, _ in staying.values()}
            found.append(sum(num_bytes for at, num_bytes in dict(held.values()).items() if at not in kept))
        return np.array(found, np.int64)

    def _note(self, held: list[dict[str, tuple[int, int]]], name: str, tensors: Sequence[Tensor | None]) -> None:
        if self._values[name].tier != "device":
            return
        item_bytes = min(4, ITEM_BYTES[self._values[name].dtype])  # as it trains, whatever the executor computes in
        for here, tensor in zip(held, tensors, strict=True):
            if tensor is None or tensor.layout == torch.sparse_csr:
                here.pop(name, None)
            else:
                storage = tensor.untyped_storage()
                here[name] = (storage.data_ptr(), item_bytes * (storage.nbytes() // tensor.element_size()))
