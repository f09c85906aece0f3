"""Memory that is page-locked is let go of once, before it is unmapped."""

import gc
import sys

import numpy as np
import pytest

from gnnplan.runtime.lockable_memory import LockableMemory


class Registrar:
    """Remembers what it is told, and whether the memory was there yet."""

    def __init__(self, refusal=None):
        self.refusal, self.log = refusal, []

    def register(self, address, num_bytes):
        self.log.append(("register", address, num_bytes))
        return self.refusal

    def unregister(self, address):
        with open("/proc/self/maps") as maps:
            ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps]
        self.log.append(("unregister", address, any(begin <= address < end for begin, end in ranges)))


@pytest.mark.long
@pytest.mark.parametrize("kept_by", [lambda memory: memory, lambda memory: np.frombuffer(memory, np.float32)])
def test_it_is_let_go_of_with_the_last_who_looks_at_it(kept_by):
    """Of the memory, or of an array on it; the next mapping at its address is another one to the driver."""
    registrar, memory = Registrar(), LockableMemory(-1, 2**16)
    memory.lock(registrar)
    ((_, address, num_bytes),) = registrar.log
    assert num_bytes == 2**16
    kept = kept_by(memory)
    del memory
    gc.collect()
    assert len(registrar.log) == 1
    del kept
    gc.collect()
    assert registrar.log[1:] == [("unregister", address, True)]


@pytest.mark.long
@pytest.mark.parametrize("how", ["refused", "failed"])
@pytest.mark.parametrize("closes", [True, False])
def test_what_stays_locked_stays_mapped(how, closes, monkeypatch):
    """The driver would find its range where the kernel puts the next mapping."""
    kept = []
    monkeypatch.setattr(LockableMemory, "_kept", kept)

    class Refusing(Registrar):
        def unregister(self, address):
            super().unregister(address)
            if how == "failed":
                raise RuntimeError("an illegal memory access")
            return "not now"

    registrar, memory = Refusing(), LockableMemory(-1, 2**16)
    memory.lock(registrar)
    memory[:3] = b"abc"
    if closes:
        memory.close()
    del memory
    gc.collect()
    assert [entry[0] for entry in registrar.log] == ["register", "unregister"]
    (view,) = kept
    assert bytes(view[:3]) == b"abc"


def test_closed_memory_is_let_go_of_once():
    """And no more when it is collected."""
    registrar, memory = Registrar(), LockableMemory(-1, 4096)
    memory.lock(registrar)
    memory.close()
    del memory
    gc.collect()
    assert [entry[0] for entry in registrar.log] == ["register", "unregister"]


def test_what_was_never_locked_is_not_let_go_of(monkeypatch):
    """Where nobody asked, where it was refused, and at exit."""
    refusing, willing = Registrar("no room"), Registrar()
    for registrar in (None, refusing):
        memory = LockableMemory(-1, 4096)
        if registrar:
            memory.lock(registrar)
        del memory
    memory = LockableMemory(-1, 4096)
    memory.lock(willing)
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    del memory
    gc.collect()
    assert [entry[0] for entry in refusing.log + willing.log] == ["register", "register"]
