"""Mapped memory that a GPU may read and write directly."""

from __future__ import annotations

import mmap
import sys
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gnnplan.runtime.sampling.page_lock import Registrar


class LockableMemory(mmap.mmap):
    """A mapping that can be page-locked, and is let go of before it is unmapped.

    The driver would find a range that nobody let go of where the kernel puts the next mapping, and copy from and to
    pages that are no longer there.
    """

    _registrar: Registrar | None = None
    _address = 0

    def lock(self, registrar: Registrar) -> None:
        """Page-locks all of it; without effect where that is refused: then copies are staged."""
        self._address = torch.frombuffer(self, dtype=torch.uint8).data_ptr()
        if registrar.register(self._address, len(self)) is None:
            self._registrar = registrar

    def __del__(self) -> None:
        # At exit it goes with the process, and waiting for a kernel that is stuck would keep it.
        if self._registrar is not None and not sys.is_finalizing():
            self._registrar.unregister(self._address)
