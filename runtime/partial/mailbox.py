"""What has come from the other workers: the newest rows of every exchange with their version, and all else."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import torch
from torch import Tensor

from planner.program import Program
from profiles.roll_call import LostWorkerError
from runtime.partial.mesh import Mesh, Message

_FLOAT_BYTES = 4
_MOST_JSON_BYTES = 1 << 20


class Kind(IntEnum):
    """Messages that are no rows; rows have the index of their slot."""

    READY = -1  # number: round that the sender is ready for
    GROUP = -2  # number: round; payload: JSON
    PART = -3  # number: round; payload: a piece of a gradient
    SUM = -4  # number: round; payload: a piece of the summed gradient
    STATE = -5  # number: round; payload: weights and optimizer state


class PeerError(LostWorkerError):
    """A peer is gone, or has not answered in time; the message names it."""


@dataclass(frozen=True)
class Slot:
    """One exchange of an epoch in one direction.

    Args:
        name: of its step, with `/forward` or `/backward`.
        recv_counts, send_counts: rows per peer.
        width: numbers a row.
    """

    name: str
    recv_counts: Sequence[int]
    send_counts: Sequence[int]
    width: int


def slots_of(program: Program, recv_counts: Sequence[int], send_counts: Sequence[int]) -> list[Slot]:
    """The exchanges of an epoch; backward the counts change places, and constants have no gradients."""
    slots = []
    for step in program.steps:
        if step.op in ("aggregate", "exchange"):
            slots.append(Slot(f"{step.name}/forward", recv_counts, send_counts, step.in_width))
            if not step.constant:
                slots.append(Slot(f"{step.name}/backward", send_counts, recv_counts, step.in_width))
    return slots


@dataclass
class _Rows:
    """The rows of one slot from one peer: those in use, and room for those to come."""

    current: Tensor
    spare: Tensor
    version: int = -1


@dataclass
class Mailbox:
    """Keeps what arrives; `changed` is notified of everything that does.

    Args:
        rank, size: of this worker, and how many there are.
        slots: of an epoch.
        is_pinned: rows lie in page-locked memory, from which a GPU copies.
    """

    rank: int
    size: int
    slots: list[Slot]
    is_pinned: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)
    latest: list[int] = field(init=False)
    ready: list[int] = field(init=False)
    groups: dict[int, dict] = field(default_factory=dict)
    group_known_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.latest, self.ready = [-1] * self.size, [-1] * self.size
        self._rows = [self._rooms(slot) for slot in self.slots]
        self._parts: dict[tuple[int, int, int], Tensor] = {}
        self._lost: dict[int, Exception] = {}
        self._mesh: Mesh | None = None
        self.index = {slot.name: index for index, slot in enumerate(self.slots)}
        self._heard_s = time.monotonic()

    def _rooms(self, slot: Slot) -> dict[int, _Rows]:
        def room(num_rows: int) -> Tensor:
            return torch.empty(num_rows, slot.width, pin_memory=self.is_pinned)

        return {peer: _Rows(room(count), room(count)) for peer, count in enumerate(slot.recv_counts) if count}

    def open(self, mesh: Mesh) -> None:
        """Says over what messages are posted."""
        self._mesh = mesh

    # What the threads of the mesh call.

    def room_for(self, peer: int, kind: int, number: int, num_bytes: int) -> memoryview:
        """Room for a payload; `ValueError` where this worker expects no such message."""
        if 0 <= kind < len(self.slots):
            rows = self._rows[kind].get(peer)
            expected = -1 if rows is None else rows.spare.nbytes
            if num_bytes != expected:
                raise ValueError(f"{num_bytes} bytes came for {self.slots[kind].name}, not {expected}")
            assert rows is not None
            return bytes_of(rows.spare)
        if kind in (Kind.PART, Kind.SUM, Kind.STATE) and num_bytes % _FLOAT_BYTES == 0:
            return bytes_of(torch.empty(num_bytes // _FLOAT_BYTES))
        if kind in (Kind.READY, Kind.GROUP) and num_bytes <= _MOST_JSON_BYTES:
            return memoryview(bytearray(num_bytes))
        raise ValueError(f"a message of kind {kind} with {num_bytes} bytes came, which is none of ours")

    def arrived(self, peer: int, kind: int, number: int, payload: memoryview) -> None:
        """Takes a message in."""
        with self.changed:
            self._heard_s = time.monotonic()
            if kind >= 0:
                rows = self._rows[kind][peer]
                rows.current, rows.spare, rows.version = rows.spare, rows.current, number
                self.latest[peer] = max(self.latest[peer], number)
            elif kind == Kind.READY:
                self.ready[peer] = max(self.ready[peer], number)
            elif kind == Kind.GROUP:
                self.know_group(number, json.loads(bytes(payload)))
            else:
                self._parts[kind, number, peer] = _floats(payload)
            self.changed.notify_all()

    def lost(self, peer: int, error: Exception) -> None:
        """Whoever waits learns of it."""
        with self.changed:
            self._lost.setdefault(peer, error)
            self.changed.notify_all()

    # What the trainer calls.

    def post_rows(self, slot: int, version: int, rows: Tensor) -> None:
        """Sends rows [s, width] in host memory, concatenated over peers, none to itself; they must not change."""
        assert self._mesh is not None
        for peer, part in enumerate(rows.split(list(self.slots[slot].send_counts))):
            if len(part):
                self._mesh.post(peer, Message(slot, version, bytes_of(part)), slot)

    def post(self, peers: Iterable[int], kind: Kind, number: int, payload: Tensor | bytes = b"") -> None:
        """Sends anything else to some peers."""
        assert self._mesh is not None
        view = bytes_of(payload) if isinstance(payload, Tensor) else memoryview(payload)
        for peer in peers:
            self._mesh.post(peer, Message(kind, number, view), (kind, number))

    def version(self, slot: int, peer: int) -> int:
        """Epoch of the newest rows of a slot that are here from a peer that sends any; -1 where none have come."""
        return self._rows[slot][peer].version

    def senders(self, slot: int) -> Iterable[int]:
        """Peers that send rows of a slot."""
        return self._rows[slot].keys()

    def copy_rows(self, slot: int, out: Tensor) -> list[int]:
        """Copies the newest rows [h, width] of every peer into `out`; returns their versions."""
        with self.changed:  # no newer ones may take their place meanwhile
            parts = out.split(list(self.slots[slot].recv_counts))
            for peer, rows in self._rows[slot].items():
                parts[peer].copy_(rows.current)
            return [rows.version for rows in self._rows[slot].values()]

    def know_group(self, number: int, group: dict) -> None:
        """Takes in who takes part in a round; what is long over is forgotten."""
        with self.changed:
            self.groups.setdefault(number, group)
            self.group_known_s.setdefault(number, time.monotonic())

    def forget_groups(self, before: int) -> None:
        """Drops the groups of rounds before a number."""
        with self.changed:
            for number in [number for number in self.groups if number < before]:
                del self.groups[number], self.group_known_s[number]

    def take(self, kind: Kind, number: int, peer: int, until_s: float) -> Tensor:
        """Waits for a piece of a round's gradient or state from a peer."""

        def is_here() -> bool:
            return (kind, number, peer) in self._parts

        if not self.wait(is_here, until_s):
            raise PeerError(f"Timed out: worker {peer} did not send its part of step {number}")
        with self.changed:
            return self._parts.pop((kind, number, peer))

    @property
    def silent_s(self) -> float:
        """Seconds since anything came from anybody."""
        return time.monotonic() - self._heard_s

    def wait(self, is_enough: Callable[[], bool], until_s: float) -> bool:
        """Waits until `is_enough()`, which is asked with the lock held; False where it is not by `until_s` (monotonic).

        Raises `PeerError` as soon as a peer is lost.
        """
        with self.changed:
            while not is_enough():
                for peer, error in self._lost.items():
                    raise PeerError(f"Connection closed by peer: worker {peer}: {error}") from error
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return False
                self.changed.wait(min(left_s, threading.TIMEOUT_MAX))
            return True


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous float32 tensor in host memory; the view keeps it alive."""
    if tensor.numel() == 0:  # a view of nothing cannot be cast
        return memoryview(b"")
    return tensor.detach().numpy().reshape(-1).data.cast("B")


def _floats(payload: memoryview) -> Tensor:
    return torch.frombuffer(payload, dtype=torch.float32) if payload.nbytes else torch.empty(0)
