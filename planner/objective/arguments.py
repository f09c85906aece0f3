"""The options of the command line that say what a plan is chosen for, and how long it is searched for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnplan.planner.job import Job

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FIELDS = {  # by option, the section of the job and its key
    "objective": ("objective", "minimize"),
    "statistic": ("objective", "statistic"),
    "deadline": ("objective", "deadline_s"),
    "budget": ("objective", "budget"),
    "memory_margin": ("objective", "memory_margin"),
    "search_time": ("search", "longest_s"),
    "search_gap": ("search", "gap"),
}


def add_objective(parser: argparse.ArgumentParser) -> None:
    """Adds the options; each takes the place of a key in the job's section `[objective]` or `[search]`."""
    group = parser.add_argument_group("objective", "what the plan is chosen for, in place of the job's [objective]")
    group.add_argument(
        "--objective", choices=("epoch", "time", "money"), help="what is least: seconds an epoch, or all epochs'"
    )
    group.add_argument("--statistic", choices=("p50", "p95", "mean"), help="which of epochs that vary is counted")
    group.add_argument("--deadline", type=_duration, help="all epochs end within: seconds, or 30m, 2h, 1d")
    group.add_argument("--budget", type=_positive, help="dollars that all epochs may cost")
    group.add_argument("--memory-margin", type=_share, help="share of every worker's memory that stays free, 0 to 1")
    search = parser.add_argument_group("search", "when it ends, in place of the job's [search]; it says what it left")
    search.add_argument("--search-time", type=_duration, help="the best plan of so long a search: seconds, or 5m, 1h")
    search.add_argument(
        "--search-gap", type=_gap, help="end once the plan is within this share of the least that any could take"
    )


def with_objective(job: Job, arguments: argparse.Namespace) -> Job:
    """The job with what the options say; `UserError` where it may not ask for that."""
    given = {where: getattr(arguments, name, None) for name, where in _FIELDS.items()}
    given = {where: value for where, value in given.items() if value is not None}
    if not given:
        return job
    raw = job.model_dump(mode="json")
    for (section, key), value in given.items():
        raw[section][key] = value
    return type(job).parse(raw, where=job.name)


def _duration(text: str) -> float:
    unit = _SECONDS.get(text[-1:], 0.0)
    return _positive(text[:-1] if unit else text) * (unit or 1.0)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e12:
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def _gap(text: str) -> float:
    """0 or more; the most is the job's to say."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a share of at least 0, got {text}")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a share from 0 to less than 1, got {text}")
    return value
