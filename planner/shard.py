"""What one worker needs of a graph, written as one `.npz` that only it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from planner.array_file import ArrayFile
from planner.graph import Graph
from planner.halo import Halo
from planner.joint_cache.overlap import kept_rows, kept_sent


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
        kept_halo: bool [h], halo rows that are kept between epochs.
        kept_sent: bool, of the rows sent those that their receiver keeps.
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
    kept_halo: np.ndarray
    kept_sent: np.ndarray


def cut_shard(graph: Graph, halo: Halo, rank: int, *, sparse_features: bool, num_kept: Sequence[int] = ()) -> Shard:
    """The share of one worker; features dense or CSR and `num_kept` halo rows of each worker kept, as was decided."""
    block = halo.blocks[rank]
    counts = halo.send_counts()
    kept = kept_rows(halo, num_kept or (0,) * halo.num_workers)
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
        kept_halo=kept[rank],
        kept_sent=kept_sent(halo, kept, rank),
    )
