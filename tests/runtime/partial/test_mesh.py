"""Links between workers: nothing is lost or mixed up, nobody waits, what is old is replaced, all threads end."""

import secrets
import socket
import threading
import time

import pytest

from gnnplan.runtime.partial.mesh import _HELLO, Mesh, Message, _answer


class Keeper:
    """A sink that keeps every message."""

    def __init__(self):
        self.messages, self.errors, self.changed = [], [], threading.Condition()

    def room_for(self, peer, kind, number, num_bytes):
        if kind == 99:
            raise ValueError("none of ours")
        return memoryview(bytearray(num_bytes))

    def arrived(self, peer, kind, number, payload, begin_s):
        with self.changed:
            self.messages.append((peer, kind, number, bytes(payload)))
            self.changed.notify_all()

    def lost(self, peer, error):
        with self.changed:
            self.errors.append((peer, error))
            self.changed.notify_all()

    def wait_for(self, is_enough):
        with self.changed:
            assert self.changed.wait_for(is_enough, 20)


ROWS = b"row" * 2000  # long: short messages overtake


@pytest.fixture
def pair():
    """Two meshes of one link, and what they keep."""
    ends, keepers = socket.socketpair(), (Keeper(), Keeper())
    meshes = [Mesh({1 - rank: ends[rank]}, keepers[rank]) for rank in (0, 1)]
    yield meshes, keepers
    for mesh in meshes:
        mesh.close()


def message(kind, number, payload=b""):
    return Message(kind, number, memoryview(payload))


def test_messages_arrive_whole(pair):
    """Empty, small and large payloads both ways at once, with their numbers."""
    meshes, keepers = pair
    payloads = [b"", b"abc", secrets.token_bytes(3_000_000), b"z" * 17]
    for number, payload in enumerate(payloads):
        for rank in (0, 1):
            meshes[rank].post(1 - rank, message(number - 2, number, payload), number)
    for rank, keeper in enumerate(keepers):
        keeper.wait_for(lambda keeper=keeper: len(keeper.messages) == len(payloads))
        assert sorted(keeper.messages) == [(1 - rank, n - 2, n, payload) for n, payload in enumerate(payloads)]


def test_short_messages_overtake_long_ones():
    """Not the one that is on its way; each kind keeps its order."""
    here, there = socket.socketpair()
    mesh = Mesh({1: here}, Keeper())
    mesh.post(1, message(0, 0, b"x" * 20_000_000), 0)
    time.sleep(0.2)  # it is on its way, to a peer that does not read
    for number, payload in enumerate([b"y" * 5000, b"", b"z" * 5000, b"ready"], start=1):
        mesh.post(1, message(0, number, payload), number)
    keeper = Keeper()
    reader = Mesh({0: there}, keeper)
    keeper.wait_for(lambda: len(keeper.messages) == 5)
    assert [number for _, _, number, _ in keeper.messages] == [0, 2, 4, 1, 3]
    mesh.close()
    reader.close()


def test_what_waits_for_a_peer_is_replaced_by_what_is_newer():
    """A peer that does not read gets the newest of each key when it reads again; posting never waits."""
    here, there = socket.socketpair()
    mesh, large = Mesh({1: here}, Keeper()), b"x" * 20_000_000
    mesh.post(1, message(0, 0, large), "large")
    for number in range(1, 100):
        mesh.post(1, message(1, number, ROWS), "rows")
        mesh.post(1, message(2, number, ROWS), ("other", number))
    keeper = Keeper()
    reader = Mesh({0: there}, keeper)
    keeper.wait_for(lambda: len(keeper.messages) >= 101 and keeper.messages[-1][2] == 99)
    rows = [number for _, kind, number, _ in keeper.messages if kind == 1]
    assert rows[-1] == 99
    assert len(rows) <= 2, "at most one was on its way already"
    assert [number for _, kind, number, _ in keeper.messages if kind == 2] == list(range(1, 100))
    mesh.close()
    reader.close()


def test_closing_ends_threads_though_the_peer_does_not_read():
    """Neither a blocked send nor a receive that nothing comes for holds it up."""
    before = threading.active_count()
    here, there = socket.socketpair()
    mesh = Mesh({1: here}, Keeper())
    assert threading.active_count() == before + 2
    mesh.post(1, message(0, 0, b"x" * 20_000_000), 0)
    mesh.close()
    assert threading.active_count() == before
    there.close()


def test_what_was_posted_is_still_sent_when_closing(pair):
    """With time to flush, the last message arrives."""
    meshes, keepers = pair
    meshes[0].post(1, message(5, 7, b"last" * 1_000_000), 0)
    meshes[0].close(flush_s=20)
    keepers[1].wait_for(lambda: keepers[1].messages)
    assert keepers[1].messages == [(0, 5, 7, b"last" * 1_000_000)]


def test_a_lost_peer_is_told_by_its_rank(pair):
    """When the other end closes."""
    meshes, keepers = pair
    meshes[1].close()
    keepers[0].wait_for(lambda: keepers[0].errors)
    peer, error = keepers[0].errors[0]
    assert peer == 1
    assert "closed" in str(error)


def test_a_message_that_nobody_expects_ends_the_link(pair):
    """It is an error of that peer, not of the process."""
    meshes, keepers = pair
    meshes[0].post(1, message(99, 0), 0)
    keepers[1].wait_for(lambda: keepers[1].errors)
    assert keepers[1].errors[0][0] == 0


def is_hung_up(caller):
    caller.settimeout(20)
    try:
        return caller.recv(1) == b""
    except ConnectionError:
        return True


def test_strangers_are_hung_up_on():
    """Only a caller with the token that is awaited is let in, whoever calls first."""
    token = secrets.randbits(63)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        hellos = [b"GET / HTTP/1.1\r\n", _HELLO.pack(token - 1, 2), _HELLO.pack(token, 7), _HELLO.pack(token, 2)]
        callers = []
        for hello in hellos:
            callers.append(socket.create_connection(address))
            callers[-1].sendall(hello)
        peer, connection = _answer(listener, token, {2, 3}, time.monotonic() + 20)
        assert peer == 2
        assert connection.getpeername() == callers[-1].getsockname()
        for caller in callers[:-1]:
            assert is_hung_up(caller)
        for end in (*callers, connection):
            end.close()
