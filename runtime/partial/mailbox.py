"""What has come from the other workers: the newest rows of every exchange with their version, and all else."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from gnnplan.profiles.roll_call import LostWorkerError
from gnnplan.runtime.partial.mesh import Mesh, Message

_FLOAT_BYTES = 4
_MOST_JSON_BYTES = 1 << 20


class Kind(IntEnum):
    """Messages that are no rows; rows have the index of their slot."""

    READY = -1  # number: round that the sender is ready for
    GROUP = -2  # number: round; payload: JSON
    PART = -3  # number: round; payload: a piece of a gradient
    SUM = -4  # number: round; payload: a piece of the summed gradient


class PeerError(LostWorkerError):
    """A peer is gone, or has not answered in time; the message names it."""


@dataclass(frozen=True)
class Slot:
    """One exchange of an epoch in one direction.

    Args:
        name: of its step, with `/forward` or `/backward`.
        recv_counts, send_counts: rows per peer.
        width: numbers a row.
        max_staleness: epochs that its rows may be old, where that is less than of others.
    """

    name: str
    recv_counts: Sequence[int]
    send_counts: Sequence[int]
    width: int
    max_staleness: int = sys.maxsize


class Arrival(NamedTuple):
    """Of which epoch some rows are (-1: none have come), and when their first and last bytes came (monotonic)."""

    version: int = -1
    begin_s: float = 0.0
    end_s: float = 0.0


NEVER = Arrival()


@dataclass
class _Rows:
    """The rows of one slot from one peer: those in use and how they came, and room for those to come."""

    current: Tensor
    spare: Tensor
    arrival: Arrival = NEVER


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
        self.index = {slot.name: index for index, slot in enumerate(self.slots)}
        self._rows = [self._rooms(slot) for slot in self.slots]
        self._parts: dict[tuple[int, int, int], Tensor] = {}
        self._lost: dict[int, Exception] = {}
        self._mesh: Mesh | None = None
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
        if kind >= 0:
            with self.changed:
                return self._room_for_rows(peer, kind, num_bytes)
        if kind in (Kind.PART, Kind.SUM) and num_bytes % _FLOAT_BYTES == 0:
            return bytes_of(torch.empty(num_bytes // _FLOAT_BYTES))
        if kind in (Kind.READY, Kind.GROUP) and num_bytes <= _MOST_JSON_BYTES:
            return memoryview(bytearray(num_bytes))
        raise ValueError(f"a message of kind {kind} with {num_bytes} bytes came, which is none of ours")

    def _room_for_rows(self, peer: int, slot: int, num_bytes: int) -> memoryview:
        rows = self._rows[slot].get(peer) if slot < len(self.slots) else None
        if rows is None or num_bytes != rows.spare.nbytes:
            expected = "none" if rows is None else str(rows.spare.nbytes)
            raise ValueError(f"{num_bytes} bytes came for exchange {slot}, not {expected}")
        return bytes_of(rows.spare)

    def arrived(self, peer: int, kind: int, number: int, payload: memoryview, begin_s: float) -> None:
        """Takes a message in, whose first bytes came at `begin_s` (monotonic)."""
        with self.changed:
            self._heard_s = time.monotonic()
            if kind >= 0:
                self._take_rows(peer, kind, number, begin_s)
            elif kind == Kind.READY:
                self.ready[peer] = max(self.ready[peer], number)
            elif kind == Kind.GROUP:
                self.know_group(number, json.loads(bytes(payload)))
            else:
                self._parts[kind, number, peer] = _floats(payload)
            self.changed.notify_all()

    def _take_rows(self, peer: int, slot: int, number: int, begin_s: float) -> None:
        rows = self._rows[slot][peer]
        rows.current, rows.spare = rows.spare, rows.current
        rows.arrival = Arrival(number, begin_s, time.monotonic())
        self.latest[peer] = max(self.latest[peer], number)

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
        return self._rows[slot][peer].arrival.version

    def senders(self, slot: int) -> Iterable[int]:
        """Peers that send rows of a slot."""
        return self._rows[slot].keys()

    def copy_rows(self, slot: int, out: Tensor) -> dict[int, Arrival]:
        """Copies the newest rows [h, width] of every peer into `out`; returns how they came, by peer."""
        with self.changed:  # no newer ones may take their place meanwhile
            parts = out.split(list(self.slots[slot].recv_counts))
            for peer, rows in self._rows[slot].items():
                parts[peer].copy_(rows.current)
            return {peer: rows.arrival for peer, rows in self._rows[slot].items()}

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
        """Waits for a piece of a round's gradient from a peer."""

        def is_here() -> bool:
            return (kind, number, peer) in self._parts

        if not self.wait(is_here, until_s):
            raise PeerError(f"Timed out: worker {peer} did not send its part of step {number}", (peer,))
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
                for peer, error in self._lost.items():  # not `missing`: it may have left because it missed another
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
