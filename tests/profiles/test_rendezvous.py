"""The rendezvous: its store listens on the address it is given, which nobody outside reaches where it is loopback."""

import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.api import RendezvousParameters

from gnnplan.profiles.rendezvous import LOOPBACK, BoundRendezvous, create_handler

LISTEN = "0A"


@pytest.fixture
def handler():
    return BoundRendezvous("run", timedelta(seconds=20))


def listening():
    """(address, port) of every socket this process listens on, from /proc/net."""
    inodes = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/self/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == LISTEN and fields[9] in inodes:
                found.add((address, int(port, 16)))
    return found


def test_store_listens_on_loopback_only():
    """Making a handler opens one listening socket, on 127.0.0.1, at the port it tells the workers."""
    before = listening()
    handler = BoundRendezvous("run", timedelta(seconds=20))
    opened = listening() - before
    port = handler.next_rendezvous().bootstrap_store_info.master_port
    assert opened == {("0100007F", port)}


def test_other_addresses_of_this_host_are_refused(handler):
    """A connection to the store's port by another address of this machine is refused."""
    port = handler.next_rendezvous().bootstrap_store_info.master_port
    with socket.create_connection((LOOPBACK, port), timeout=5):
        pass
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_agent_is_the_only_one(handler):
    """The one agent is rank 0 of 1, and a second client sees what it stores."""
    info = handler.next_rendezvous()
    assert (info.rank, info.world_size) == (0, 1)
    assert info.bootstrap_store_info.master_addr == LOOPBACK
    info.store.set("key", "value")
    client = TCPStore(LOOPBACK, info.bootstrap_store_info.master_port, is_master=False, timeout=timedelta(seconds=20))
    assert client.get("key") == b"value"


def test_answers_of_a_single_host(handler):
    """Nobody waits, nothing closes, the agent's store is shared, the id is the one given."""
    handler.set_closed()
    assert not handler.is_closed()
    assert handler.num_nodes_waiting() == 0
    assert handler.use_agent_store
    assert handler.get_run_id() == "run"
    assert handler.shutdown()


def parameters(max_nodes, endpoint="127.0.0.1:0", **configured):
    """As torchrun hands them over."""
    return RendezvousParameters(
        backend="gnnplan-loopback",
        endpoint=endpoint,
        run_id="7",
        min_nodes=max_nodes,
        max_nodes=max_nodes,
        **configured,
    )


def test_a_handler_is_made_of_what_torchrun_says():
    """It names the backend and the run."""
    made = create_handler(parameters(1))
    assert made.get_backend() == "gnnplan-loopback"
    assert made.get_run_id() == "7"


def test_agents_of_several_hosts_share_the_first_ones_store():
    """It listens on the address given alone, and every agent has its own rank."""
    with socket.create_server(("127.0.0.3", 0)) as free:
        port = free.getsockname()[1]
    before = listening()
    made = []
    for rank in (0, 1):
        given = parameters(2, endpoint=f"127.0.0.3:{port}", rank=str(rank))
        made.append(create_handler(given).next_rendezvous())
    assert listening() - before == {("0300007F", port)}
    assert [(info.rank, info.world_size) for info in made] == [(0, 2), (1, 2)]
    made[0].store.set("key", "value")
    assert made[1].store.get("key") == b"value"
