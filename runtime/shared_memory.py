"""Memory that the workers of one host share: a file without a name, freed with the last process that has it open.

However a run ends, nothing is left. A host's first worker makes it, the others open it through that worker's entry in
/proc.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.memory import available_bytes
from gnnplan.runtime.lockable_memory import LockableMemory


def group_of_host(hosts: Sequence[int], rank: int, timeout_s: float) -> dist.ProcessGroup | None:
    """The group of a worker's host over the CPU, None where one is alone; groups are made by all, in the same order.

    Args:
        hosts: of every worker; rank: this one.
        timeout_s: longest wait for another worker of the host.
    """
    own = None
    for host in sorted(set(hosts)):
        members = [other for other, its in enumerate(hosts) if its == host]
        if len(members) > 1:
            group = dist.new_group(members, timeout=timedelta(seconds=timeout_s), backend="gloo")
            own = group if rank in members else own
    return own


def make_memory(num_bytes: int, what: str, name: str) -> int:
    """A descriptor of memory that is all there: what were missing would end a worker at its first touch.

    Args:
        what: it is for, as an error says it.
        name: as which it shows in /proc/PID/maps.

    Raises:
        UserError: the host has less left.
    """
    free = available_bytes()
    if free < num_bytes:
        raise UserError(f"{what} takes {num_bytes:,} bytes, {free:,} are left in its memory")
    descriptor = os.memfd_create(name)
    try:
        os.posix_fallocate(descriptor, 0, num_bytes)
    except OSError as error:
        os.close(descriptor)
        raise UserError(f"{what} takes {num_bytes:,} bytes: {error.strerror}") from None
    return descriptor


def share_memory(
    descriptor: int | None, num_bytes: int, ranks: Sequence[int], group: dist.ProcessGroup | None
) -> LockableMemory:
    """The memory behind the first worker's descriptor, in every worker of the host; all of them must call it.

    Args:
        descriptor: of the first of `ranks`, which is closed; None in the others.
        group: of `ranks`; None where one is alone.
    """
    address = torch.tensor([os.getpid(), descriptor or 0])
    if group is not None:
        dist.broadcast(address, ranks[0], group=group)
    if descriptor is None:
        process, number = address.tolist()
        descriptor = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR)
    memory = LockableMemory(descriptor, num_bytes)
    if group is not None:
        dist.barrier(group)  # the first worker keeps it open until all have it
    os.close(descriptor)
    return memory
