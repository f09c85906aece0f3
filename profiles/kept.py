"""The profile of this machine, measured once and kept in a cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

import torch

from gnnplan.profiles.cgroups import core_limit
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.memory import worker_memory_bytes
from gnnplan.profiles.operators import OPERATORS
from gnnplan.profiles.profiler import device_name, num_usable_cores, profile_machine

CACHE_VARIABLE = "GNNPLAN_CACHE"


def cache_folder() -> Path:
    """`GNNPLAN_CACHE`, else `gnnplan` in `XDG_CACHE_HOME`, else `~/.cache/gnnplan`."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "gnnplan"


def machine_fingerprint(num_workers: int = 0) -> str:
    """16 hex digits that change where a profile of this machine would have to be measured again.

    They stand for its name, devices, usable cores, limits on processor time, memory that may be used, torch and Python,
    for what a profile holds, and for the number of workers that share it (0: the default).
    """
    limit = core_limit()
    facts = {
        "machine": [platform.node(), platform.machine(), device_name(torch.device("cpu"))],
        "cuda": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "cores": [num_usable_cores(), limit and [limit.num_cores, limit.period_s]],
        "memory": worker_memory_bytes(torch.device("cpu"), 1),
        "software": [platform.python_version(), torch.__version__],
        "profile": [sorted(OPERATORS), sorted(MachineProfile.model_fields)],
        "num_workers": num_workers,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def kept_profile(
    *, num_workers: int = 0, fresh: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> tuple[MachineProfile, Path]:
    """The profile of this machine with the file that it is kept in; measured where there is none yet.

    Args:
        num_workers: as `profile_machine` takes it.
        fresh: measure again, and keep the new one instead.
        on_progress: as `profile_machine` takes it; not called where nothing is measured.

    Raises as `profile_machine` does, and `UserError` where the cache folder cannot be written.
    """
    path = cache_folder() / "profiles" / f"{machine_fingerprint(num_workers)}.json"
    if not fresh and (kept := _read(path)):
        return kept, path
    check_writable(path)
    profile = profile_machine(num_workers=num_workers, quick=True, on_progress=on_progress)
    profile.save(path)
    return profile, path


def _read(path: Path) -> MachineProfile | None:
    """None where there is none, or one that this version does not read."""
    if not path.exists():
        return None
    try:
        return MachineProfile.load(path)
    except UserError:
        return None
