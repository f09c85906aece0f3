"""A torchrun rendezvous whose store listens on the address that it is given, which is loopback for one host.

torchrun's own backends bind their store to every interface, also where the address given is loopback. Our agents
register this one as `BACKEND`. The agent of rank 0 has the store, and the others reach it at the same address.
"""

from __future__ import annotations

import socket
from datetime import timedelta

from torch.distributed import Store, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

BACKEND = "gnnplan-loopback"
LOOPBACK = "127.0.0.1"


class BoundRendezvous(RendezvousHandler):
    """Hands every agent of a run one store, which is bound to one address of the first agent's host.

    Args:
        address, port: of the store; port 0 takes one that is free, which only an agent alone can be told of.
        rank: of this agent among `num_agents`.
    """

    def __init__(
        self,
        run_id: str,
        timeout: timedelta,
        address: str = LOOPBACK,
        port: int = 0,
        rank: int = 0,
        num_agents: int = 1,
    ) -> None:
        self._run_id = run_id
        descriptor = None
        if rank == 0:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listener = socket.create_server((address, port), family=family, backlog=128)
            port = listener.getsockname()[1]
            descriptor = listener.detach()  # the store owns the socket from here on, and not Python's object
        self._store: Store = TCPStore(
            address,
            port,
            is_master=rank == 0,
            timeout=timeout,
            multi_tenant=True,
            wait_for_workers=False,
            master_listen_fd=descriptor,
        )
        self._info = RendezvousInfo(self._store, rank, num_agents, RendezvousStoreInfo(address, port))

    def get_backend(self) -> str:
        """Name under which torchrun knows this handler."""
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        """Workers share the agent's store instead of opening a second one."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """This agent's rank, and the store."""
        return self._info

    def is_closed(self) -> bool:
        """A run of agents that are known from the start is never closed by one of them."""
        return False

    def set_closed(self) -> None:
        """Nothing waits for it."""

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
    """Makes the handler from torchrun's `--rdzv-endpoint=ADDRESS:PORT` and `--rdzv-conf=rank=RANK`."""
    address, port = parse_rendezvous_endpoint(params.endpoint, default_port=0)
    timeout = timedelta(seconds=int(params.get("timeout", 300)))
    rank = int(params.get("rank", 0))
    return BoundRendezvous(params.run_id, timeout, address, port, rank, params.max_nodes)
