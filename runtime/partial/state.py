"""What partial reduce needs to go on: what steps have made of the weights, the same on all workers.

Rows and gradients that lie in mailboxes are left out. Which ones lie there is a matter of who was late, and after a
stop nobody is: the first epoch is everybody's, with rows and gradients of its own, as in a training that begins.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gnnplan.runtime.checkpoint.parts import Likes
from gnnplan.runtime.checkpoint.state import PARAMETER, State, is_carried
from gnnplan.runtime.partial.averaging import WeightMean

_MEAN, _COUNT = "mean", "mean/num_steps"


class PartialState:
    """The state of a program without what is kept between epochs, and the mean of the weights so far.

    Args:
        state: of the program.
        mean: of the same parameters, in the same order.
    """

    def __init__(self, state: State, mean: WeightMean, names: list[str]) -> None:
        self._state, self._mean = state, mean
        self._names = names

    def like(self) -> Likes:
        """As `State`."""
        carried = {name: each for name, each in self._state.like().items() if is_carried(name)}
        mean: Likes = {f"{_MEAN}/{name}": carried[f"{PARAMETER}/{name}"] for name in self._names}
        return {**carried, **mean, _COUNT: ((1,), np.dtype(np.int64))}

    def held(self) -> dict[str, Tensor | np.ndarray]:
        """As `State`."""
        carried = {name: value for name, value in self._state.held().items() if is_carried(name)}
        count, mean = self._mean.held()
        matrices = [part.view(carried[f"{PARAMETER}/{name}"].shape) for name, part in zip(self._names, mean)]
        means = {f"{_MEAN}/{name}": part for name, part in zip(self._names, matrices)}
        return carried | means | {_COUNT: np.array([count])}

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `State`."""
        self._state.put({name: array for name, array in arrays.items() if is_carried(name)})
        if _COUNT in arrays:
            shapes = [part.shape for part in self._mean.held()[1]]
            means = [torch.from_numpy(arrays[f"{_MEAN}/{name}"]) for name in self._names]
            self._mean.put(int(arrays[_COUNT][0]), [part.view(shape) for part, shape in zip(means, shapes)])
