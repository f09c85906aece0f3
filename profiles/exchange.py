"""Uneven all-to-all among the workers of the default group."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor


def all_to_all(out: Tensor, source: Tensor, recv_counts: Sequence[int], send_counts: Sequence[int]) -> None:
    """Sends rows of `source` to every worker and receives rows into `out`, both concatenated by rank.

    Every worker of the group must call it, and `recv_counts[q]` here must be `send_counts` there.
    """
    for work in start_all_to_all(out, source, recv_counts, send_counts):
        work.wait()


def start_all_to_all(
    out: Tensor, source: Tensor, recv_counts: Sequence[int], send_counts: Sequence[int]
) -> list[dist.Work]:
    """The same, only begun: it has ended when all works have; both tensors must live until then.

    gloo's own all-to-all posts each send before the receive of the same pair, and the pair's notice
    that it is ready to receive then queues behind the data: of two workers, the later one sends
    first and receives after, half duplex. Here all receives are posted first. What a worker sends
    to itself is copied.
    """
    if dist.get_backend() != "gloo":
        work = dist.all_to_all_single(out, source, list(recv_counts), list(send_counts), async_op=True)
        assert work is not None
        return [work]
    rank, size = dist.get_rank(), dist.get_world_size()
    received, sent = out.split(list(recv_counts)), source.split(list(send_counts))
    before, after = ([(rank + sign * step) % size for step in range(1, size)] for sign in (-1, 1))
    works = [dist.irecv(received[peer], peer) for peer in before if recv_counts[peer]]
    works += [dist.isend(sent[peer], peer) for peer in after if send_counts[peer]]
    received[rank].copy_(sent[rank])
    return [work for work in works if work is not None]
