"""The C library's heap."""

from __future__ import annotations

import ctypes


def return_freed_memory() -> None:
    """Gives freed heap pages back to the kernel, e.g. after loading; nothing where the C library cannot."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
