"""The optimizers and learning-rate schedules of torch.optim that a job may name, and their arguments.

Every worker has all parameters and their whole gradient, so a step is torch's own: what stands here is what a plan has
to know of it. Arguments have torch's names and defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

OptimizerName = Literal["adam", "adamw", "sgd", "adagrad", "rmsprop", "adadelta", "adamax", "radam"]
ScheduleName = Literal["constant", "linear", "cosine", "step", "multistep", "exponential", "plateau"]
Argument = bool | float | tuple[float, ...]
Arguments = Mapping[str, Argument]
Items = tuple[tuple[str, Argument], ...]
"""Arguments as attributes of an operator have them, in the order of their names."""

_MOST_NUMBERS = 1000


@dataclass(frozen=True)
class OptimizerKind:
    """What a plan has to know of an optimizer.

    Args:
        moments: names of torch's state, a matrix beside every parameter.
        arguments: those that a job may give; what stands behind each is of the type that it must be.
        more: moments that an argument adds.
    """

    moments: tuple[str, ...]
    arguments: Mapping[str, Argument]
    more: Mapping[str, str]


_BETAS: Mapping[str, Argument] = {"betas": (0.9, 0.999), "eps": 1e-8}
_AVERAGES = ("exp_avg", "exp_avg_sq")
_LARGEST = {"amsgrad": "max_exp_avg_sq"}
OPTIMIZERS: Mapping[str, OptimizerKind] = {
    "adam": OptimizerKind(_AVERAGES, {**_BETAS, "amsgrad": False}, _LARGEST),
    "adamw": OptimizerKind(_AVERAGES, {**_BETAS, "amsgrad": False}, _LARGEST),
    "sgd": OptimizerKind((), {"nesterov": False}, {"momentum": "momentum_buffer"}),
    "adagrad": OptimizerKind(("sum",), {"lr_decay": 0.0, "eps": 1e-10}, {}),
    "rmsprop": OptimizerKind(
        ("square_avg",),
        {"alpha": 0.99, "eps": 1e-8, "centered": False},
        {"momentum": "momentum_buffer", "centered": "grad_avg"},
    ),
    "adadelta": OptimizerKind(("square_avg", "acc_delta"), {"rho": 0.9, "eps": 1e-6}, {}),
    "adamax": OptimizerKind(("exp_avg", "exp_inf"), _BETAS, {}),
    "radam": OptimizerKind(_AVERAGES, _BETAS, {}),
}
SCHEDULES: Mapping[str, Mapping[str, Argument]] = {
    "constant": {},
    "linear": {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 5.0},
    "cosine": {"T_max": 50.0, "eta_min": 0.0},
    "step": {"step_size": 30.0, "gamma": 0.1},
    "multistep": {"milestones": (30.0,), "gamma": 0.1},
    "exponential": {"gamma": 0.9},
    "plateau": {"factor": 0.1, "patience": 10.0, "threshold": 1e-4, "cooldown": 0.0, "min_lr": 0.0},
}
_NEEDED = {"step": ("step_size",), "multistep": ("milestones",), "exponential": ("gamma",)}
_POSITIVE = frozenset({"step_size", "total_iters", "T_max", "eps"})


def has_momentum(name: str) -> bool:
    """Whether an optimizer has a momentum, a field of its own in a job."""
    return "momentum" in OPTIMIZERS[name].more


def moments_of(name: str, given: Arguments) -> tuple[str, ...]:
    """torch's names of the matrices beside every parameter."""
    kind = OPTIMIZERS[name]
    return (*kind.moments, *(moment for argument, moment in kind.more.items() if given.get(argument)))


def check_optimizer(name: str, given: Arguments) -> None:
    """Raises `ValueError` where an optimizer has no such arguments."""
    _check(f"optimizer {name!r}", OPTIMIZERS[name].arguments, given)


def check_schedule(name: str, given: Arguments) -> None:
    """Raises `ValueError` where a schedule has no such arguments, or lacks one."""
    _check(f"schedule {name!r}", SCHEDULES[name], given)
    for needed in _NEEDED.get(name, ()):
        if needed not in given:
            raise ValueError(f"schedule {name!r} needs schedule_arguments.{needed}")


def _check(whose: str, known: Arguments, given: Arguments) -> None:
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{whose} has no argument {name!r}; it has {', '.join(known) or 'none'}")
        fault = _fault(name, value, known[name])
        if fault:
            raise ValueError(f"{whose}: {name} is {value!r}; it must be {fault}")


def _fault(name: str, value: Argument, like: Argument) -> str:
    """What an argument must be, where it is not (empty: it is)."""
    if isinstance(like, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(like, tuple):
        is_one = isinstance(value, tuple) and 0 < len(value) <= _MOST_NUMBERS
        numbers = value if isinstance(value, tuple) else ()
        if name == "betas":
            return "" if is_one and len(numbers) == 2 and all(0 <= each < 1 for each in numbers) else "two in [0, 1)"
        return "" if is_one and all(each >= 0 and each == int(each) for each in numbers) else "a list of epochs"
    if isinstance(value, bool | tuple) or not 0 <= value <= 1e9:
        return "a number, 0 or more"
    if name == "step_size" and value != int(value):
        return "a whole number of epochs"
    if name == "factor" and value >= 1:
        return "less than 1"
    return "more than 0" if name in _POSITIVE and not value else ""


def items(given: Arguments) -> Items:
    """Arguments as an operator's attribute."""
    return tuple(sorted(given.items()))


def rate_factor(schedule: str, given: Arguments, epoch: int, num_epochs: int, warmup_epochs: int, rate: float) -> float:
    """What the learning rate is multiplied by in an epoch, counted from 0.

    In the warm-up it grows along a line to 1, which it reaches in the last epoch of it: torch's `LinearLR` with
    `start_factor` 1 / n over n - 1 steps. The schedule begins behind it, and has what epochs are left.
    """
    if epoch < warmup_epochs:
        return (epoch + 1) / warmup_epochs
    return _after_warmup(schedule, given, epoch - warmup_epochs, max(1, num_epochs - warmup_epochs), rate)


def _after_warmup(schedule: str, given: Arguments, epoch: int, num_epochs: int, rate: float) -> float:
    def number(name: str, default: float | None = None) -> float:
        value = given.get(name, SCHEDULES[schedule][name] if default is None else default)
        assert not isinstance(value, tuple)
        return float(value)

    match schedule:
        case "linear":
            start, end = number("start_factor"), number("end_factor")
            return start + (end - start) * min(1.0, epoch / number("total_iters", num_epochs))
        case "cosine":
            passed = epoch / number("T_max") if "T_max" in given else min(1.0, epoch / num_epochs)
            least = number("eta_min") / rate
            return least + (1 - least) * (1 + math.cos(math.pi * passed)) / 2
        case "step":
            return number("gamma") ** (epoch // int(number("step_size")))
        case "multistep":
            milestones: Any = given["milestones"]
            return number("gamma") ** sum(epoch >= each for each in milestones)
        case "exponential":
            return number("gamma") ** epoch
    return 1.0  # that of a plateau changes with what is measured
