"""Counts what batches read, before training: what a device's cache is planned by."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.minibatch.cache import Accesses
from gnnplan.runtime.sampling.loader import NeighborLoader


def presample(loader: NeighborLoader, num_batches: int, *, epoch: int = 0) -> Accesses:
    """Accesses of some batches of an epoch (all where it has fewer), spread evenly over it, sampled by the CPU.

    Other epochs draw other neighbours with the same probabilities, so what is read often here is read often there.
    Seeds that are not shuffled come in the same batches every time: those of one part of an epoch would be no sample.
    """
    num_all = len(loader)
    num_batches = min(num_batches, num_all)
    edge_reads = np.zeros(loader.graph.num_vertices, np.int64)
    feature_reads = np.zeros(loader.graph.num_vertices, np.int64)
    for number in range(num_batches):
        batch = loader.batch(epoch, number * num_all // num_batches)
        vertices = batch.n_id.numpy()
        feature_reads[vertices] += 1
        edge_reads[vertices] += np.bincount(batch.edge_index[1].numpy(), minlength=len(vertices))
    return Accesses(edge_reads, feature_reads, num_batches)
