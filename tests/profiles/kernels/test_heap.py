"""Freed heap pages go back to the kernel where the C library can give them, and nothing happens where not."""

import ctypes

from gnnplan.profiles.kernels.heap import return_freed_memory


def test_the_c_library_is_asked_to_keep_nothing(monkeypatch):
    """No byte is left at the top of the heap."""
    asked = []

    class Library:
        malloc_trim = staticmethod(asked.append)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    return_freed_memory()
    assert asked == [0]


def test_a_c_library_that_cannot_is_left_alone(monkeypatch):
    """musl has no such call."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    return_freed_memory()


def test_this_machines_c_library_takes_it():
    """Whichever it is."""
    return_freed_memory()
