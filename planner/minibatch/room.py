"""What of a device's memory is for mini-batches that wait there, and what for rows of the graph and the features."""

from __future__ import annotations

from dataclasses import dataclass

from gnnplan.profiles.errors import NoPlanFitsError, UserError

MAX_SLOTS = 10
_USABLE = 0.9  # of what is free: an allocator's blocks are larger than what they hold, and batches differ


@dataclass(frozen=True)
class BatchNeeds:
    """What mini-batches take of a device's memory at most.

    Args:
        batch_bytes: of one that waits.
        step_bytes: of one in work: its training step or its making, whichever takes more, itself included.
    """

    batch_bytes: int
    step_bytes: int


@dataclass(frozen=True)
class DeviceRoom:
    """How the memory beside the batch in work is used.

    Args:
        num_slots: batches that may wait.
        row_bytes: that the graph, the features and what finds their rows may take.
    """

    num_slots: int
    row_bytes: int


def share_out(free_bytes: int, needs: BatchNeeds, *, limit_bytes: int | None = None, num_pools: int = 1) -> DeviceRoom:
    """Slots take half of what a batch in work leaves at most, for more than ten gain nothing; rows get the rest.

    Args:
        free_bytes: of the device, with the model on it.
        limit_bytes: the most that all of it may take, where the job sets one.
        num_pools: that batches come from. A stream's allocator keeps the blocks of those that it has made, and where
            two streams make them, each pool may in turn have held all that wait, and the one in work.
    Raises:
        NoPlanFitsError: not a single batch can wait beside the one in work.
        UserError: the limit is more than is free.
    """
    if limit_bytes is not None and limit_bytes > free_bytes:
        raise UserError(
            f"mini_batch.device_bytes is {limit_bytes}, and {free_bytes} bytes of the device are free; ask for less"
        )
    left = int(_USABLE * (free_bytes if limit_bytes is None else limit_bytes)) - needs.step_bytes
    if left < needs.batch_bytes:
        least = int((needs.step_bytes + needs.batch_bytes) / _USABLE) + 1
        what = "are free" if limit_bytes is None else "are allowed by mini_batch.device_bytes"
        raise NoPlanFitsError(
            f"batches need {least} bytes of the device's memory, {free_bytes if limit_bytes is None else limit_bytes} "
            f"{what}; make batch_size or fan_outs smaller"
        )
    num_slots = max(1, min(MAX_SLOTS, left // 2 // (num_pools * needs.batch_bytes)))
    held = num_pools * (num_slots + 1) - 1  # the one in work is counted in the step, of one pool
    return DeviceRoom(num_slots, max(0, left - held * needs.batch_bytes))
