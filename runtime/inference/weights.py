"""The weights that an inference begins with: of a `model.pt`, or of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gnnplan.planner.checkpoints import MANIFEST_FILE, Manifest, part_file
from gnnplan.planner.loaders.read import check_archive, require_file
from gnnplan.planner.models.module_state import program_state
from gnnplan.planner.models.vocabulary import RUNNING
from gnnplan.planner.program.cycle import Cycle
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.checkpoint.parts import read_part
from gnnplan.runtime.checkpoint.state import PARAMETER
from gnnplan.runtime.checkpoint.state import RUNNING as RUNNING_GROUP

_FLOAT = np.dtype(np.float32)


def weights_of(path: Path, cycle: Cycle) -> dict[str, Tensor]:
    """Every parameter of a cycle as a matrix, and running statistics, on the CPU.

    Raises `UserError` where they are not those of the cycle's model.
    """
    return _of_checkpoint(path, cycle) if path.is_dir() else _of_model(path, cycle)


def _of_model(path: Path, cycle: Cycle) -> dict[str, Tensor]:
    require_file(path)
    check_archive(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its readers do
        raise UserError(f"{path}: it is no state_dict of tensors alone; name the model.pt of a run") from error
    for name, shape in cycle.parameters.items():
        found = tuple(getattr(state.get(name), "shape", ())) if isinstance(state, dict) else ()
        if not isinstance(state, dict) or not isinstance(state.get(name), Tensor) or found != tuple(shape):
            raise UserError(f"{path}: {name} is {list(found) or 'missing'}, and the plan's model has {list(shape)}")
    try:
        return {name: each.float().contiguous() for name, each in program_state(state, cycle).items()}
    except KeyError as error:
        raise UserError(f"{path}: {error.args[0]} is missing, which the plan's model has") from error


def load_buffers(module: nn.Module, path: Path) -> None:
    """Puts what layers of somebody's own registered as buffers into their module, as far as a model file has it."""
    if path.is_dir():
        return  # a checkpoint has what training changes
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, buffer in module.named_buffers():
        if (saved := state.get(name)) is not None and saved.shape == buffer.shape:
            buffer.copy_(saved)


def _of_checkpoint(path: Path, cycle: Cycle) -> dict[str, Tensor]:
    """Of the first worker's part: every part has all parameters."""
    manifest = Manifest.load(path / MANIFEST_FILE)
    groups = dict.fromkeys(cycle.parameters, PARAMETER)
    groups |= {
        name: RUNNING_GROUP for name, value in cycle.values.items() if value.role == "cell" and name.endswith(RUNNING)
    }
    like = {
        f"{group}/{name}": ((cycle.num_rows(name, 0), cycle.values[name].width), _FLOAT)
        for name, group in groups.items()
    }
    arrays = read_part(path / part_file(0), manifest.parts[0], like)
    return {name: torch.from_numpy(arrays[f"{group}/{name}"]) for name, group in groups.items()}
