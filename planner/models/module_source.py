"""Where a user's own module comes from: a function in a file of theirs, or a module that their program has."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gnnplan.planner.job import Job, ModelSpec
from gnnplan.profiles.errors import UserError

if TYPE_CHECKING:
    from torch import nn


def with_source(job: Job) -> Job:
    """The job, which says what the file of its module holds; it is refused later where the file has changed.

    Raises `UserError` where the file cannot be read.
    """
    if not job.model.build or job.model.source_sha256:
        return job
    model = job.model.model_copy(update={"source_sha256": _digest(job.model)})
    return job.model_copy(update={"model": model})


def module_of(model: ModelSpec, num_features: int, num_classes: int, seed: int) -> nn.Module:
    """The module: the one that the program holds, or what its function builds, with the same weights for equal seeds.

    The function's file is imported, so it runs with the rights of whoever calls this.

    Raises:
        UserError: there is no such file or function, it fails, or the file is not the one a plan was made with.
    """
    if model.held is not None:
        return model.held
    if not model.build:
        raise UserError("the model is a module of a Python program: pass it as model=, to gnnplan.plan and gnnplan.run")
    if model.source_sha256 and _digest(model) != model.source_sha256:
        raise UserError(f"{model.build}: the file has changed since the plan was made; make the plan again")
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _built(model, num_features, num_classes)


def _built(model: ModelSpec, num_features: int, num_classes: int) -> nn.Module:
    from torch import nn

    path, function = model.build_file, model.build_function
    build = getattr(_imported(path), function, None)
    if not callable(build):
        raise UserError(f"{path}: there is no function {function!r}; model.build names FILE.py:FUNCTION")
    try:
        made = build(num_features, num_classes)
    except Exception as error:
        raise UserError(f"{_line(path, error)}: {function}({num_features}, {num_classes}) failed: {error}") from error
    if not isinstance(made, nn.Module):
        raise UserError(f"{path}: {function} must return a torch.nn.Module, and returned a {type(made).__name__}")
    return made


def _imported(path: Path) -> ModuleType:
    """The file as a Python module, which finds its neighbours as a script does."""
    _read(path)
    name = f"gnnplan_model_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: model.build must name a Python file, FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{_line(path, error)}: it cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _line(path: Path, error: BaseException) -> str:
    """The last line of the file that an error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f"{path}:{frames[-1].lineno}" if frames else str(path)


def _digest(model: ModelSpec) -> str:
    return hashlib.sha256(_read(model.build_file)).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: the model's file cannot be read: {error.strerror}") from error
