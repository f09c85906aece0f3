"""A torchrun rendezvous for one host whose store listens on loopback only.

torchrun's own backends bind their store to every interface. This one is registered under the
entry-point group `torchrun.handlers` as `gnnplan-loopback`; several hosts use torchrun's `c10d`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import Store, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)

LOOPBACK = "127.0.0.1"


class LoopbackRendezvous(RendezvousHandler):
    """Hands the only agent of a single-host run a store bound to 127.0.0.1."""

    def __init__(self, run_id: str, timeout: timedelta) -> None:
        self._run_id = run_id
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((LOOPBACK, 0))
        listener.listen(128)
        port = listener.getsockname()[1]
        # The store owns the socket from here on, so the descriptor is detached from Python's object.
        self._store: Store = TCPStore(
            LOOPBACK,
            port,
            is_master=True,
            timeout=timeout,
            multi_tenant=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        self._info = RendezvousInfo(self._store, 0, 1, RendezvousStoreInfo(LOOPBACK, port))

    def get_backend(self) -> str:
        """Name under which torchrun knows this handler."""
        return "gnnplan-loopback"

    @property
    def use_agent_store(self) -> bool:
        """Workers share the agent's store instead of opening a second one."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """The one agent is rank 0 of 1."""
        return self._info

    def is_closed(self) -> bool:
        """A single-host run cannot be closed by another agent."""
        return False

    def set_closed(self) -> None:
        """Nothing waits on a single-host run."""

    def num_nodes_waiting(self) -> int:
        """No further agent may join."""
        return 0

    def get_run_id(self) -> str:
        """The run id torchrun was given."""
        return self._run_id

    def shutdown(self) -> bool:
        """The store goes with the process."""
        return True


def create_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Makes the handler for one host."""
    assert params.max_nodes == 1, "gnnplan-loopback serves one host; use --rdzv-backend c10d for several"
    return LoopbackRendezvous(params.run_id, timedelta(seconds=300))


def handler_creator() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """Entry point `torchrun.handlers`: torchrun calls this once to learn how handlers are made."""
    return create_handler
