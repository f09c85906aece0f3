"""Memory of a host's workers: all there or refused, seen by all, and gone with them (also `test_host_region`)."""

import os

import pytest

from gnnplan.profiles.errors import UserError
from gnnplan.runtime import shared_memory
from gnnplan.runtime.shared_memory import group_of_host, make_memory, share_memory


def test_more_than_the_memory_left_is_refused(monkeypatch):
    """In words, before anything is written; and where the kernel has no such memory after all."""
    with pytest.raises(UserError, match=r"^the graph takes 1,152,921,504,606,846,976 bytes, [\d,]+ are left"):
        make_memory(2**60, "the graph", "gnnplan-test")
    monkeypatch.setattr(shared_memory, "available_bytes", lambda: 2**62)
    held = len(os.listdir("/proc/self/fd"))

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(UserError, match="the graph takes 4,096 bytes: No space left on device"):
        make_memory(4096, "the graph", "gnnplan-test")
    assert len(os.listdir("/proc/self/fd")) == held, "no descriptor is left open"


def test_one_alone_has_its_memory():
    """No group is needed; the descriptor is closed, and the memory goes with its mapping."""
    held = len(os.listdir("/proc/self/fd"))
    assert group_of_host([0, 1, 2], 1, 60.0) is None
    memory = share_memory(make_memory(4096, "the graph", "gnnplan-test"), 4096, [1], None)
    memory[:3] = b"abc"
    assert (memory[:4], len(memory)) == (b"abc\0", 4096)
    memory.close()
    assert len(os.listdir("/proc/self/fd")) == held
