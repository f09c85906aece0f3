"""Mapped memory that a GPU may read and write directly."""

from __future__ import annotations

import mmap
import sys
from typing import ClassVar, Protocol

import torch


class Registrar(Protocol):
    """Page-locks ranges of this process's memory."""

    def register(self, address: int, num_bytes: int) -> str | None:
        """Page-locks a range; where that is refused, the reason."""

    def unregister(self, address: int) -> str | None:
        """Lets go of the range that begins there, when nothing reads it any more; where that is refused, the reason."""


class LockableMemory(mmap.mmap):
    """A mapping that can be page-locked, and is let go of before it is unmapped.

    The driver would find a range that nobody let go of where the kernel puts the next mapping, and copy from and to
    pages that are no longer there.
    """

    _registrar: Registrar | None = None
    _address = 0
    _kept: ClassVar[list[memoryview]] = []  # of memory that stays locked, which must not be unmapped

    def lock(self, registrar: Registrar) -> None:
        """Page-locks all of it; without effect where that is refused: then copies are staged."""
        self._address = torch.frombuffer(self, dtype=torch.uint8).data_ptr()
        if registrar.register(self._address, len(self)) is None:
            self._registrar = registrar

    def close(self) -> None:
        """Unmaps it; memory that the driver will not let go of stays."""
        if self._is_free():
            super().close()

    def __del__(self) -> None:
        self._is_free()

    def _is_free(self) -> bool:
        """Lets go of it, and says whether it may be unmapped."""
        registrar, self._registrar = self._registrar, None
        # At exit it goes with the process, and waiting for a kernel that is stuck would keep it.
        if registrar is None or sys.is_finalizing():
            return True
        try:
            refusal = registrar.unregister(self._address)
        except RuntimeError as error:  # of a device that has failed
            refusal = str(error)
        if refusal is not None:
            self._kept.append(memoryview(self))
        return refusal is None
