"""Host memory page-locked where it lies, so that a device can read it directly and nothing is held twice."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.kernels.pool import POOLED_BYTES
from gnnplan.runtime.lockable_memory import LockableMemory, Registrar

_PORTABLE, _MAPPED = 1, 2  # cudaHostRegister's flags: for every device, and in its address space


@dataclass
class _Locked:
    """A range's memory, kept from being freed while it is page-locked, and how many use it."""

    tensor: Tensor
    num_users: int = 0


class PageLocks:
    """The tensors that are page-locked in this process; each is let go with the last of its owners.

    Args:
        registrar: page-locks and lets go.
        copied: a page-locked copy of a tensor, for one that cannot be locked where it lies.
        say: told in a line where memory is held twice.
    """

    def __init__(
        self,
        registrar: Registrar,
        *,
        copied: Callable[[Tensor], Tensor] = Tensor.pin_memory,
        say: Callable[[str], None] = print,
    ) -> None:
        self._registrar, self._copied, self._say = registrar, copied, say
        self._held: dict[int, _Locked] = {}
        self._mutex = threading.RLock()  # an owner may be collected within

    def locked(self, tensor: Tensor, owner: object) -> Tensor:
        """The tensor itself, page-locked while `owner` lives; where that is refused, a page-locked copy.

        A small tensor shares its pages with others and is always copied.

        Args:
            tensor: contiguous, in host memory.
        Raises:
            RunFailedError: neither can be had.
        """
        assert tensor.is_contiguous()
        assert tensor.device.type == "cpu"
        if tensor.nbytes < POOLED_BYTES:
            return self._copied(tensor)
        address = tensor.data_ptr()
        with self._mutex:
            held = self._held.get(address)
            if held is None:
                refusal = self._registrar.register(address, tensor.nbytes)
                if refusal is not None:
                    return self._copy_of(tensor, refusal)
                held = self._held[address] = _Locked(tensor)
            elif held.tensor.nbytes < tensor.nbytes:
                return self._copy_of(tensor, "its beginning is already")
            held.num_users += 1
        # Not at exit: what is locked goes with the process, and waiting for a kernel that is stuck would keep it.
        weakref.finalize(owner, self._let_go, address).atexit = False
        return tensor

    def num_bytes(self) -> int:
        """Page-locked where they lie."""
        return sum(held.tensor.nbytes for held in self._held.values())

    def _let_go(self, address: int) -> None:
        with self._mutex:
            held = self._held[address]
            held.num_users -= 1
            if held.num_users:
                return
            refusal = self._registrar.unregister(address)
            if refusal is None:
                del self._held[address]
            else:  # memory must not be freed while it is locked: the next user of it finds it so
                self._say(f"{held.tensor.nbytes / 2**20:.1f} MiB stay page-locked ({refusal})")

    def _copy_of(self, tensor: Tensor, refusal: str) -> Tensor:
        what = f"{tensor.nbytes / 2**20:.1f} MiB cannot be page-locked in place ({refusal})"
        try:
            copy = self._copied(tensor)
        except RuntimeError as error:
            cause = " ".join(str(error).split())
            raise RunFailedError(f"{what}, nor copied into page-locked memory: {cause}; free host memory") from error
        if copy is not tensor:  # it is where somebody else has locked it already
            self._say(f"{what}: a copy is held beside it")
        return copy


class CudaRegistrar:
    """Page-locks for every CUDA device of this process, through the runtime that torch has loaded.

    What reads them is waited for on the device that was current when this was made, whichever is current where the
    last owner is collected: a thread of its own begins with the first device.
    """

    def __init__(self) -> None:
        self._runtime = torch.cuda.cudart()
        self._device = torch.device("cuda", torch.cuda.current_device())

    def register(self, address: int, num_bytes: int) -> str | None:
        """As `Registrar`."""
        return self._refusal(self._runtime.cudaHostRegister(address, num_bytes, _PORTABLE | _MAPPED))

    def unregister(self, address: int) -> str | None:
        """As `Registrar`; waits for the device first."""
        torch.cuda.synchronize(self._device)
        return self._refusal(self._runtime.cudaHostUnregister(address))

    def _refusal(self, code: object) -> str | None:
        if code == self._runtime.cudaError.success:
            return None
        # A refusal stays behind as this thread's last error, and the next launch would be blamed: this one is.
        with suppress(RuntimeError):
            torch.ones(1, device=self._device)
        return f"CUDA says: {self._runtime.cudaGetErrorString(code)}"


def page_lock(memory: LockableMemory) -> None:
    """Lets a GPU read and write memory directly while it lives; without effect where that is refused."""
    memory.lock(CudaRegistrar())


@cache
def cuda_page_locks() -> PageLocks:
    """Those of this process."""
    return PageLocks(CudaRegistrar())
