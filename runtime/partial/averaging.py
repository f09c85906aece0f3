"""The mean of the weights after each of a run's last steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class WeightMean:
    """What weights jump about, where steps are of few workers and rows are old.

    Averaging costs no waiting (Polyak and Juditsky 1992; stochastic weight averaging: Izmailov et al., UAI 2018). All
    workers take all steps in one order, so on devices of one kind their means are equal bit for bit.

    Args:
        parameters: that steps change.
        first, last: numbers of the first and last step that count.
    """

    def __init__(self, parameters: Sequence[Tensor], first: int, last: int) -> None:
        self._parameters, self._first, self._last = parameters, first, last
        self._mean: list[Tensor] = []
        self._count = 0

    def held(self) -> tuple[int, list[Tensor]]:
        """How many steps are in the mean, and the mean; the weights where none is."""
        return self._count, self._mean or [parameter.detach() for parameter in self._parameters]

    def put(self, count: int, mean: Sequence[Tensor]) -> None:
        """Goes on with a mean of so many steps."""
        self._count = count
        self._mean = [part.to(parameter.device) for part, parameter in zip(mean, self._parameters)] if count else []

    @torch.no_grad()
    def after(self, number: int) -> None:
        """Takes the weights after a step into the mean; after the last one they become the mean."""
        if not self._first <= number <= self._last:
            return
        self._count += 1
        if not self._mean:
            self._mean = [parameter.detach().clone() for parameter in self._parameters]
        for mean, parameter in zip(self._mean, self._parameters, strict=True):
            mean.lerp_(parameter, 1 / self._count)  # without temporaries: of large weights those took 5% of an epoch
        if number == self._last:
            for mean, parameter in zip(self._mean, self._parameters, strict=True):
                parameter.copy_(mean)
            self._mean = []
