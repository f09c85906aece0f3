"""Modules that are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazily:
    """Stands for a module until something of it is asked for.

    Importing numba takes a process 50 MB, and most models need none of it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found
