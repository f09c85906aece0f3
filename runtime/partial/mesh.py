"""A connection between any two workers, over which nobody has to wait for a peer to take or to send anything.

Not a process group of gloo: a receive there cannot be called off, so the thread that blocks in it could not be joined
when its peer is stopped; a receive that timed out, or one lost peer, breaks the connections to all the others; and
what is queued for a peer that does not read cannot be replaced by something newer.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from ipaddress import IPv4Address
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist

from gnnplan.profiles.torchrun import group_device

_HEADER = struct.Struct("!iqq")  # kind, number, bytes that follow
_HELLO = struct.Struct("!qi")  # the listener's token, the caller's rank
_GET_INTERFACE_ADDRESS = 0x8915
_LOOPBACK = "127.0.0.1"
_HELLO_S, _JOIN_S = 10.0, 10.0
_SHORT_BYTES = 1 << 12  # of messages that overtake longer ones: who is ready, which group


class Message(NamedTuple):
    """What is sent: two numbers that say what it is, and its bytes (a view that keeps them alive)."""

    kind: int
    number: int
    payload: memoryview


class Sink(Protocol):
    """Where messages arrive, each on the thread of its peer."""

    def room_for(self, peer: int, kind: int, number: int, num_bytes: int) -> memoryview:
        """Where the payload is to be received; raises `ValueError` where no such message can come."""

    def arrived(self, peer: int, kind: int, number: int, payload: memoryview, begin_s: float) -> None:
        """The payload is all there; it began to come at `begin_s` (monotonic)."""

    def lost(self, peer: int, error: Exception) -> None:
        """No message will come from the peer any more."""


@dataclass(frozen=True)
class _Address:
    host: str
    port: int
    token: int


def connect_all(timeout_s: float) -> dict[int, socket.socket]:
    """A connection to every other worker of the default group, by rank; every worker must call it.

    A worker listens on the address of the interface that gloo uses, loopback by default, and lets in only who knows
    the token that the workers told each other over the default group.

    Raises `RuntimeError` where a worker has not connected after `timeout_s`.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    deadline_s = time.monotonic() + timeout_s
    address, token = _own_address(), secrets.randbits(63)
    found: dict[int, socket.socket] = {}
    with socket.create_server((address, 0), backlog=size) as listener:
        port = listener.getsockname()[1]
        told = _told_by_everyone([int(IPv4Address(address)), port, token])
        known = [_Address(str(IPv4Address(host)), port, token) for host, port, token in told]
        try:
            for peer in range(rank):
                found[peer] = _call(known[peer], rank, deadline_s)
            while len(found) < size - 1:
                peer, connection = _answer(listener, token, set(range(rank + 1, size)) - found.keys(), deadline_s)
                found[peer] = connection
        except OSError as error:
            for connection in found.values():
                connection.close()
            missing = ", ".join(str(peer) for peer in range(size) if peer != rank and peer not in found)
            raise RuntimeError(f"Timed out: no connection to worker {missing}: {error}") from error
    for connection in found.values():
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _own_address() -> str:
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "lo").split(",")[0]
    if interface == "lo":
        return _LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        reply = ioctl(probe.fileno(), _GET_INTERFACE_ADDRESS, struct.pack("256s", interface.encode()))
    return socket.inet_ntoa(reply[20:24])


def _told_by_everyone(values: list[int]) -> list[list[int]]:
    device = group_device()
    mine = torch.tensor(values, dtype=torch.int64, device=device)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    return [each.tolist() for each in all_of_them]


def _call(address: _Address, rank: int, deadline_s: float) -> socket.socket:
    connection = socket.create_connection((address.host, address.port), timeout=_left_s(deadline_s))
    connection.sendall(_HELLO.pack(address.token, rank))
    return connection


def _answer(listener: socket.socket, token: int, awaited: set[int], deadline_s: float) -> tuple[int, socket.socket]:
    """The next of the awaited workers to call; who does not know the token is hung up on."""
    while True:
        listener.settimeout(_left_s(deadline_s))
        connection, _ = listener.accept()
        connection.settimeout(min(_HELLO_S, _left_s(deadline_s)))
        with suppress(OSError):
            hello = connection.recv(_HELLO.size, socket.MSG_WAITALL)
            if len(hello) == _HELLO.size:
                told, peer = _HELLO.unpack(hello)
                if told == token and peer in awaited:
                    return peer, connection
        connection.close()


def _left_s(deadline_s: float) -> float:
    return max(deadline_s - time.monotonic(), 1e-3)


class _Link:
    """One peer: a thread that sends what is posted and a thread that receives."""

    def __init__(self, peer: int, connection: socket.socket, sink: Sink) -> None:
        self.peer, self._connection, self._sink = peer, connection, sink
        self._outbox: dict[Hashable, Message] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self.threads = [
            threading.Thread(target=self._send, name=f"to worker {peer}", daemon=True),
            threading.Thread(target=self._receive, name=f"from worker {peer}", daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def post(self, key: Hashable, message: Message) -> None:
        with self._changed:
            self._outbox[key] = message
            self._changed.notify()

    def close(self, flush_s: float) -> None:
        """Ends both threads, after up to `flush_s` in which what was posted is still sent."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self.threads[0].join(flush_s)
        with suppress(OSError):  # the peer has closed already
            self._connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(_JOIN_S)
        self._connection.close()

    def _send(self) -> None:
        try:
            while self._send_one():
                pass
        except OSError as error:
            self._sink.lost(self.peer, error)

    def _send_one(self) -> bool:
        """A function of its own, so that a waiting thread holds on to no buffer."""
        with self._changed:
            while not self._outbox:
                if self._is_closing:
                    return False
                self._changed.wait()
            message = self._outbox.pop(self._next())
        header = _HEADER.pack(message.kind, message.number, message.payload.nbytes)
        # Together with what follows: the receiver takes the time from the one's coming to the other's.
        self._connection.sendall(header, socket.MSG_MORE if message.payload.nbytes else 0)
        if message.payload.nbytes:
            self._connection.sendall(message.payload)
        return True

    def _next(self) -> Hashable:
        """The first short message, else the first: what all wait for takes next to no time, and rows may be late."""
        short = (key for key, message in self._outbox.items() if message.payload.nbytes <= _SHORT_BYTES)
        return next(short, next(iter(self._outbox)))

    def _receive(self) -> None:
        try:
            while True:
                self._receive_one()
        except (OSError, ValueError) as error:
            self._sink.lost(self.peer, error)

    def _receive_one(self) -> None:
        header = memoryview(bytearray(_HEADER.size))
        self._fill(header)
        begin_s = time.monotonic()
        kind, number, num_bytes = _HEADER.unpack(header)
        payload = self._sink.room_for(self.peer, kind, number, num_bytes)
        self._fill(payload)
        self._sink.arrived(self.peer, kind, number, payload, begin_s)

    def _fill(self, view: memoryview) -> None:
        done = 0
        while done < view.nbytes:
            count = self._connection.recv_into(view[done:], view.nbytes - done, socket.MSG_WAITALL)
            if count == 0:
                raise ConnectionResetError("Connection closed by peer")
            done += count


class Mesh:
    """Links to all other workers.

    What is posted to a peer replaces what waits there under the same key, so that a peer that does not read costs
    bounded memory, and gets the newest of everything when it reads again.
    """

    def __init__(self, connections: dict[int, socket.socket], sink: Sink) -> None:
        self._links = {peer: _Link(peer, connection, sink) for peer, connection in connections.items()}

    def post(self, peer: int, message: Message, key: Hashable) -> None:
        """Has a message sent; returns at once."""
        self._links[peer].post(key, message)

    def close(self, flush_s: float = 0.0) -> None:
        """Ends all threads, after up to `flush_s` in all in which what was posted is still sent."""
        deadline_s = time.monotonic() + flush_s
        for link in self._links.values():
            link.close(max(deadline_s - time.monotonic(), 0.0))
        stuck = [thread.name for link in self._links.values() for thread in link.threads if thread.is_alive()]
        if stuck:
            raise RuntimeError(f"still at work when all should have ended: threads {', '.join(stuck)}")
