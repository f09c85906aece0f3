"""What training by torch's own modules needs to go on: parameters, torch's optimizer, and where torch draws from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from gnnplan.runtime.checkpoint.parts import Likes
from gnnplan.runtime.checkpoint.state import OPTIMIZER, PARAMETER

_RANDOM = "random"
_FLOAT = np.dtype(np.float32)
_ADAM, _MOMENTUM = ("exp_avg", "exp_avg_sq"), ("momentum_buffer",)


class ModuleState:
    """The state of a module and its optimizer, and of torch's generators, which dropout draws from."""

    def __init__(self, net: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        self._net, self._optimizer, self._device = net, optimizer, device
        self._is_adam = isinstance(optimizer, torch.optim.Adam)
        self._moments: tuple[str, ...] = _ADAM if self._is_adam else ()
        if isinstance(optimizer, torch.optim.SGD) and any(group["momentum"] for group in optimizer.param_groups):
            self._moments = _MOMENTUM

    def like(self) -> Likes:
        """As `State`."""
        found: dict[str, tuple[tuple[int | None, ...], np.dtype]] = {}
        for name, parameter in self._net.named_parameters():
            shape = tuple(parameter.shape)
            found[f"{PARAMETER}/{name}"] = (shape, _FLOAT)
            found |= {f"{OPTIMIZER}/{moment}:{name}": (shape, _FLOAT) for moment in self._moments}
            if self._is_adam:
                found[f"{OPTIMIZER}/step:{name}"] = ((), _FLOAT)
        for name in self._generators():
            found[f"{_RANDOM}/{name}"] = ((None,), np.dtype(np.uint8))
        return found

    def held(self) -> dict[str, Tensor | np.ndarray]:
        """As `State`."""
        found: dict[str, Tensor | np.ndarray] = {}
        for name, parameter in self._net.named_parameters():
            found[f"{PARAMETER}/{name}"] = parameter
            parts = (*(("step",) if self._is_adam else ()), *self._moments)
            its = self._optimizer.state[parameter]
            found |= {f"{OPTIMIZER}/{part}:{name}": its[part] for part in parts}
        return found | {f"{_RANDOM}/{name}": drawn for name, drawn in self._generators().items()}

    def put(self, arrays: Mapping[str, np.ndarray]) -> None:
        """As `State`."""
        with torch.no_grad():
            for name, parameter in self._net.named_parameters():
                parameter.copy_(torch.from_numpy(arrays[f"{PARAMETER}/{name}"]))
                if self._moments:
                    self._optimizer.state[parameter] = self._put_moments(arrays, name)
        if f"{_RANDOM}/cpu" in arrays:
            torch.set_rng_state(torch.from_numpy(arrays[f"{_RANDOM}/cpu"]))
        if f"{_RANDOM}/cuda" in arrays:
            torch.cuda.set_rng_state(torch.from_numpy(arrays[f"{_RANDOM}/cuda"]), self._device)

    def _put_moments(self, arrays: Mapping[str, np.ndarray], name: str) -> dict[str, Tensor]:
        moments = {m: torch.from_numpy(arrays[f"{OPTIMIZER}/{m}:{name}"]).to(self._device) for m in self._moments}
        if not self._is_adam:
            return moments
        # Adam counts its steps in host memory.
        return {"step": torch.tensor(float(arrays[f"{OPTIMIZER}/step:{name}"])), **moments}

    def _generators(self) -> dict[str, Tensor]:
        found = {"cpu": torch.get_rng_state()}
        return found | {"cuda": torch.cuda.get_rng_state(self._device)} if self._device.type == "cuda" else found
