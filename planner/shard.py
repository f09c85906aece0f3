"""What one worker needs of a graph, written as one `.npz` that only it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.array_file import ArrayFile
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.joint_cache.overlap import as_sent
from gnnplan.planner.joint_cache.region import NO_ROWS, kept_halo


@dataclass(frozen=True)
class Shard(ArrayFile):
    """One worker's share of a job.

    Shapes: n local vertices, h halo vertices, W workers, F features.

    Args:
        vertices: int64 [n], global ids.
        local, remote: CSR [n, n] and [n, h] of the aggregation matrix.
        send_rows: int64, local rows to send, concatenated over receivers.
        send_counts, recv_counts: int64 [W].
        x: float32 [n, F], dense or CSR.
        y: int64 [n], or float32 [n, C].
        train_mask, val_mask, test_mask: bool [n].
        num_train: training vertices of the WHOLE graph, which the loss is divided by.
        host_of: int64 [W], index of each worker's host.
        kept_halo: bool [h], halo rows that are kept between epochs, on the device or by the host.
        kept_sent: bool [s], of the rows sent those that their receiver keeps.
        shared_halo: int64 [h], the halo row's place in the host's region, -1 where it has none.
        received_halo, received_sent: bool [h] and [s], rows received and sent where all travel: the others are found
            in the region.
        shared_rows: int64, local rows that this worker writes to the region, in the order in which they lie there.
        shared_first: where in the region the rows begin that this worker writes.
    """

    WHAT = "a shard"

    rank: int
    num_workers: int
    num_nodes: int
    num_classes: int
    num_train: int
    vertices: np.ndarray
    local: sp.csr_matrix
    remote: sp.csr_matrix
    send_rows: np.ndarray
    send_counts: np.ndarray
    recv_counts: np.ndarray
    x: np.ndarray | sp.csr_matrix
    y: np.ndarray
    train_mask: np.ndarray
    val_mask: np.ndarray
    test_mask: np.ndarray
    host_of: np.ndarray
    kept_halo: np.ndarray
    kept_sent: np.ndarray
    shared_halo: np.ndarray
    received_halo: np.ndarray
    received_sent: np.ndarray
    shared_rows: np.ndarray
    shared_first: int


def cut_shard(
    graph: Graph,
    halo: Halo,
    rank: int,
    *,
    sparse_features: bool,
    cache: CacheDecision = NO_CACHE,
    host_of: Sequence[int] = (),
) -> Shard:
    """The share of one worker; features dense or CSR, and halo rows kept where it was decided.

    Args:
        host_of: index of each worker's host (none given: all on one).
    """
    block = halo.blocks[rank]
    counts = halo.send_counts()
    hosts = tuple(host_of) or (0,) * halo.num_workers
    kept = kept_halo(halo, cache, hosts)
    region = kept.hosts[hosts[rank]] if kept.hosts else NO_ROWS
    written = region.written_by(rank)
    owned = region.vertices[written[region.is_owned[written]]]
    x = graph.x[block.vertices]
    if sparse_features and not sp.issparse(x):
        x = sp.csr_matrix(x)
    elif not sparse_features and sp.issparse(x):
        x = x.toarray()
    return Shard(
        rank=rank,
        num_workers=halo.num_workers,
        num_nodes=graph.num_nodes,
        num_classes=graph.num_classes,
        num_train=int(graph.train_mask.sum()),
        vertices=block.vertices,
        local=block.local,
        remote=block.remote,
        send_rows=np.concatenate(halo.send[rank]),
        send_counts=counts[rank],
        recv_counts=counts[:, rank],
        x=x,
        y=graph.y[block.vertices],
        train_mask=graph.train_mask[block.vertices],
        val_mask=graph.val_mask[block.vertices],
        test_mask=graph.test_mask[block.vertices],
        host_of=np.array(hosts, np.int64),
        kept_halo=kept.kept[rank],
        kept_sent=as_sent(halo, kept.kept, rank),
        shared_halo=kept.place[rank],
        received_halo=kept.received[rank],
        received_sent=as_sent(halo, kept.received, rank),
        shared_rows=np.searchsorted(block.vertices, owned),
        shared_first=int(written[0]) if len(written) else 0,
    )
