"""Where a user's own module comes from: a function in a file of theirs, or a module that their program has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.job import Job
from gnnplan.planner.losses import is_own
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.own_code.own_loss import digest_of_loss
from gnnplan.planner.own_code.source_file import digest_of, function_of, line_in
from gnnplan.profiles.errors import UserError

if TYPE_CHECKING:
    from torch import nn

_BUILD = "model.build"


def with_source(job: Job) -> Job:
    """The job, which says what the files of its module and its loss hold; it is refused later where one has changed.

    Raises `UserError` where a file cannot be read.
    """
    model, training = job.model, job.training
    if model.build and not model.source_sha256:
        model = model.model_copy(update={"source_sha256": _digest(model)})
    if is_own(training.loss) and not training.loss_sha256:
        training = training.model_copy(update={"loss_sha256": digest_of_loss(training.loss)})
    return job.model_copy(update={"model": model, "training": training})


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
    build = function_of(path, function, _BUILD)
    try:
        made = build(num_features, num_classes)
    except Exception as error:
        raise UserError(f"{line_in(path, error)}: {function}({num_features}, {num_classes}) failed: {error}") from error
    if not isinstance(made, nn.Module):
        raise UserError(f"{path}: {function} must return a torch.nn.Module, and returned a {type(made).__name__}")
    return made


def _digest(model: ModelSpec) -> str:
    return digest_of(model.build_file, _BUILD)
