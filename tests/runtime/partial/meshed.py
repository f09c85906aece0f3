"""Workers as threads of one process, their mailboxes connected by socket pairs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations

from gnnplan.runtime.partial.mailbox import Mailbox, Slot
from gnnplan.runtime.partial.mesh import Mesh

JOIN_S = 30.0


def slots_between(counts, width: int = 3, names=("l0/aggregate/forward",)) -> list[list[Slot]]:
    """Of every worker; `counts[p][q]` rows go from p to q in each slot."""
    size = len(counts)
    return [
        [Slot(name, [counts[p][rank] for p in range(size)], list(counts[rank]), width) for name in names]
        for rank in range(size)
    ]


@contextmanager
def meshed(size: int, slots=None) -> Iterator[list[Mailbox]]:
    """Connected mailboxes; on leaving, all threads have ended."""
    boxes = [Mailbox(rank, size, slots[rank] if slots else []) for rank in range(size)]
    connections: list[dict] = [{} for _ in range(size)]
    for a, b in combinations(range(size), 2):
        connections[a][b], connections[b][a] = socket.socketpair()
    meshes = [Mesh(connections[rank], boxes[rank]) for rank in range(size)]
    for box, mesh in zip(boxes, meshes, strict=True):
        box.open(mesh)
    try:
        yield boxes
    finally:
        for mesh in meshes:
            mesh.close()


def in_threads(calls: list[Callable[[], object]]) -> list[object]:
    """What each call returned, run side by side; the first error is raised."""
    results: list[object] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_S)
        assert not thread.is_alive(), "a worker hangs"
    if errors:
        raise errors[0]
    return results
