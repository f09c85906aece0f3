"""The gradient of a step that not all take part in: what stands in for those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnplan.planner.partial.decision import PartialReduceDecision

Sum = Callable[[Tensor], Tensor]
"""Adds a vector up over a group, with the same bits on every member."""


@dataclass
class GroupGradient:
    """Makes the gradient of every round out of the members' own, and with `reuse` of the missing ones' last.

    Scaled up (equations 13 and 14 of NeutronCloud) it is right on average over groups only: where the full gradient
    has vanished the workers' parts of it have not, since their vertices differ, and the weights never come quite to
    rest. Reused, it is off by how much the missing ones' gradients have changed since, which vanishes at rest; but
    where a step changes much, what is old points the wrong way, and training may become unstable.

    Reused gradients are never sent again: members send by how much theirs have changed, and all add that to the sum
    that they share. A worker that comes back adds up what it missed.

    Args:
        sizes: numbers of each parameter, and 1 for the loss.
        layers: of each, for the scales.
        total: sum of everybody's last gradients.
    """

    decision: PartialReduceDecision
    sizes: Sequence[int]
    layers: Sequence[int]
    total: Tensor | None = None
    _own: Tensor | None = None

    def of(self, flat: Tensor, members: Sequence[int], num_workers: int, sum_over: Sum) -> Tensor:
        """The gradient [P + 1] of a round, from this worker's own `flat`; both stay as they are afterwards."""
        sent = flat
        if len(members) < num_workers and self.decision.absent == "reuse":
            assert self._own is not None, "the first rounds are everybody's"
            sent = flat - self._own
        summed = sum_over(sent)
        if self.decision.absent == "reuse":
            self._own = flat
        return self.of_sum(summed, members, num_workers)

    def of_sum(self, summed: Tensor, members: Sequence[int], num_workers: int) -> Tensor:
        """The same from what the members' vectors add up to, also of a round that this worker has missed."""
        if len(members) == num_workers:
            self.total = summed
        elif self.decision.absent == "reuse":
            assert self.total is not None, "the first rounds are everybody's"
            self.total = self.total + summed
        else:
            self.total = self._scaled(summed, self.decision.scales(tuple(members)))
        return self.total

    def _scaled(self, total: Tensor, scales: list[float]) -> Tensor:
        parts = zip(total.split(list(self.sizes)), self.layers)
        return torch.cat([part * scales[layer] for part, layer in parts])
