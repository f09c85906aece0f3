"""Page-locks: in place, once however many use it, let go with the last user, and a copy only where it must be."""

import gc
import weakref

import pytest
import torch

from gnnplan.profiles.errors import RunFailedError
from gnnplan.runtime.sampling.page_lock import CudaRegistrar, PageLocks


class Owner:
    """Something whose life page-locks follow."""


class FakeRegistrar:
    """Registers in a dict, refuses what overlaps as CUDA does, and everything where it is told a reason."""

    def __init__(self, refusal=None):
        self.refusal, self.ranges, self.log = refusal, {}, []

    def register(self, address, num_bytes):
        self.log.append(("register", address, num_bytes))
        if any(address < begin + size and begin < address + num_bytes for begin, size in self.ranges.items()):
            return "already mapped"
        if self.refusal is None:
            self.ranges[address] = num_bytes
        return self.refusal

    def unregister(self, address):
        self.log.append(("unregister", address))
        del self.ranges[address]


def large(rows=100_000):
    """400 kB of float32, more than shares its pages with others."""
    return torch.arange(float(rows))


@pytest.fixture
def said():
    return []


def locks_of(registrar, said, copied=torch.clone):
    """Page-locks whose copies are plain ones."""
    return PageLocks(registrar, copied=copied, say=said.append)


def test_a_tensor_is_locked_where_it_lies_while_its_owner_lives(said):
    """The very tensor is given back, its whole range is locked, and unlocked when the owner is gone."""
    registrar, tensor, owner = FakeRegistrar(), large(), Owner()
    locks = locks_of(registrar, said)
    assert locks.locked(tensor, owner) is tensor
    assert registrar.ranges == {tensor.data_ptr(): tensor.nbytes}
    assert locks.num_bytes() == tensor.nbytes
    del owner
    gc.collect()
    assert registrar.ranges == {}
    assert locks.num_bytes() == 0
    assert not said


def test_memory_outlives_its_lock(said):
    """A tensor that everybody else has dropped is freed after it is unlocked, not before."""
    registrar, tensor, owner = FakeRegistrar(), large(), Owner()
    locks_of(registrar, said).locked(tensor, owner)
    alive = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert alive() is not None
    del owner
    gc.collect()
    assert alive() is None


def test_nothing_is_unlocked_at_exit(said, monkeypatch):
    """It would wait for the device, and for ever where a kernel is stuck; memory is unlocked with its process."""
    finalizers, finalize, tensor, owner = [], weakref.finalize, large(), Owner()
    monkeypatch.setattr(weakref, "finalize", lambda *given: finalizers.append(finalize(*given)) or finalizers[-1])
    locks_of(FakeRegistrar(), said).locked(tensor, owner)
    assert [each.atexit for each in finalizers] == [False]


def test_two_users_share_one_lock(said):
    """CUDA refuses a second lock of the same range; the first is kept until both are gone."""
    registrar, tensor, owners = FakeRegistrar(), large(), [Owner(), Owner()]
    locks = locks_of(registrar, said)
    assert all(locks.locked(tensor, owner) is tensor for owner in owners)
    assert len(registrar.log) == 1
    owners.pop()
    gc.collect()
    assert registrar.ranges
    owners.pop()
    gc.collect()
    assert [entry[0] for entry in registrar.log] == ["register", "unregister"]


def test_the_beginning_of_a_locked_tensor_is_locked_and_more_than_it_is_not(said):
    """A part that begins there needs nothing; a whole whose beginning is locked is copied."""
    registrar, tensor, owner = FakeRegistrar(), large(), Owner()
    locks = locks_of(registrar, said)
    half = tensor[:50_000]
    assert locks.locked(half, owner) is half
    assert locks.locked(tensor[:40_000], owner).data_ptr() == tensor.data_ptr()
    assert locks.locked(tensor, owner).data_ptr() != tensor.data_ptr()
    assert len(registrar.log) == 1


def test_what_cannot_be_locked_in_place_is_copied_and_said(said):
    """With the same numbers; the line has the size and the reason."""
    registrar, tensor, owner = FakeRegistrar("CUDA says: operation not supported"), large(), Owner()
    locks = locks_of(registrar, said)
    copy = locks.locked(tensor, owner)
    assert copy.data_ptr() != tensor.data_ptr()
    assert torch.equal(copy, tensor)
    assert locks.num_bytes() == 0
    (line,) = said
    assert "0.4 MiB cannot be page-locked in place (CUDA says: operation not supported): a copy is held" in line
    del owner
    gc.collect()
    assert [entry[0] for entry in registrar.log] == ["register"]


def test_what_somebody_else_has_locked_is_no_copy(said):
    """torch's own page-locked memory is refused a second lock, and `pin_memory` gives it back as it is."""
    tensor = large()
    locks = locks_of(FakeRegistrar("already"), said, copied=lambda given: given)
    assert locks.locked(tensor, Owner()) is tensor
    assert not said


def test_neither_in_place_nor_copied_is_one_clear_error(said):
    """With both reasons and what to do."""

    def copied(_tensor):
        raise RuntimeError("CUDA error:\nout of memory")

    locks = locks_of(FakeRegistrar("CUDA says: out of memory"), said, copied=copied)
    with pytest.raises(RunFailedError) as caught:
        locks.locked(large(), Owner())
    message = str(caught.value)
    assert "CUDA says: out of memory" in message
    assert "nor copied into page-locked memory: CUDA error: out of memory; free host memory" in message
    assert "\n" not in message


def test_small_tensors_are_copied(said):
    """Their pages hold other things too, which could not be locked any more."""
    registrar = FakeRegistrar()
    tensor = torch.ones(10)
    assert locks_of(registrar, said).locked(tensor, Owner()).data_ptr() != tensor.data_ptr()
    assert not registrar.log
    assert not said


class FakeRuntime:
    """As much of CUDA's runtime as the registrar calls."""

    class cudaError:
        success = 0

    def __init__(self, code):
        self.code, self.asked = code, []
        self.unlocking = 0  # the code of that

    def cudaHostRegister(self, *arguments):
        self.asked.append(arguments)
        return self.code

    def cudaGetErrorString(self, code):
        return {712: "already mapped"}[code]

    def cudaHostUnregister(self, address):
        self.asked.append(address)
        return self.unlocking


@pytest.mark.parametrize(("code", "refusal"), [(0, None), (712, "CUDA says: already mapped")])
def test_cudas_answers_are_put_in_words(monkeypatch, code, refusal):
    """Locked for all devices and mapped; the refusal that CUDA remembers is taken away by a launch of our own."""
    runtime, launched = FakeRuntime(code), []

    def ones(*_arguments, **_options):
        launched.append(True)
        raise RuntimeError("CUDA error: already mapped")

    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch, "ones", ones)
    assert CudaRegistrar().register(4096, 100) == refusal
    assert runtime.asked == [(4096, 100, 3)]
    assert len(launched) == (refusal is not None)


def test_nothing_reads_any_more_what_is_unlocked(monkeypatch):
    """The device that was current at first is waited for, from whichever thread, then the range is let go."""
    runtime = FakeRuntime(0)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: runtime.asked.append(("waited", device)))
    registrar = CudaRegistrar()
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert registrar.unregister(4096) is None
    assert runtime.asked == [("waited", torch.device("cuda", 1)), 4096]


def test_a_range_that_cannot_be_unlocked_is_said(monkeypatch):
    """And CUDA's error taken away, as for one that cannot be locked."""
    runtime, launched = FakeRuntime(0), []
    runtime.unlocking = 712
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: None)
    monkeypatch.setattr(torch, "ones", lambda *_, device: launched.append(device))
    assert CudaRegistrar().unregister(4096) == "CUDA says: already mapped"
    assert launched == [torch.device("cuda", 1)]


def test_memory_that_stays_locked_is_kept(said):
    """It is said, and who wants it next finds it locked."""
    registrar, tensor, owner = FakeRegistrar(), large(), Owner()
    registrar.unregister = lambda _address: "CUDA says: not now"
    locks = locks_of(registrar, said)
    locks.locked(tensor, owner)
    del owner
    gc.collect()
    assert said == ["0.4 MiB stay page-locked (CUDA says: not now)"]
    assert locks.num_bytes() == tensor.nbytes
    assert locks.locked(tensor, Owner()) is tensor
    assert [entry[0] for entry in registrar.log] == ["register"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device_locks_and_lets_go():
    """Registered memory counts as pinned; a refused range leaves no error behind for the next kernel."""
    registrar, tensor = CudaRegistrar(), large()
    assert registrar.register(tensor.data_ptr(), tensor.nbytes) is None
    assert tensor.is_pinned()
    assert "CUDA says" in registrar.register(tensor.data_ptr(), tensor.nbytes)
    assert torch.ones(3, device="cuda").sum().item() == 3
    registrar.unregister(tensor.data_ptr())
    assert not tensor.is_pinned()
