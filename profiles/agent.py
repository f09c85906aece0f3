"""A torchrun agent whose workers are forked from it: what they import is imported once a host.

`python -m gnnplan.profiles.agent` takes torchrun's arguments and does what torchrun does. But torch, and what else a
worker imports, take two to four seconds of a core, in the agent and in each worker again. So this agent imports what a
worker's module names in `IMPORTS`, and forks its workers. That comes before torchrun begins: there are no threads of
torch, no store, no signal handlers and no CUDA then. A worker waits for its place, which is the environment that
torchrun makes for it, and then runs its module as `python -m` would.

Where workers cannot be forked, as where an import has begun with CUDA, torchrun starts them itself.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module, util
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.run import main as torchrun
from torch.distributed.run import parse_args

from gnnplan.profiles.agents import WAITING, die_with_parent, name_of_rank, name_process
from gnnplan.profiles.rendezvous import BACKEND, create_handler
from gnnplan.profiles.torchrun import importing, leave

_POLL_S = 0.02
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_CUDA_DEVICE = "/dev/nvidia-uvm"  # open where CUDA has begun
IMPORTS = "IMPORTS"
"""Name of a tuple that a worker's module may have: modules that it imports when it begins, and that take long."""


class Forked:
    """A worker that has been forked, as torchrun knows a `subprocess.Popen`.

    Args:
        descriptor: of what it reads its environment from.
    """

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid, self.descriptor = pid, descriptor
        self.returncode: int | None = None

    def begin(self, environment: Mapping[str, str]) -> Forked:
        """Gives it its place; one that has ended meanwhile is found by `poll`."""
        with suppress(BrokenPipeError), os.fdopen(self.descriptor, "w") as place:
            json.dump(dict(environment), place)
        return self

    def poll(self) -> int | None:
        """Its exit code, negative where a signal ended it; None while it runs."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises `subprocess.TimeoutExpired` after so many seconds."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if end_s is not None and time.monotonic() > end_s:
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            time.sleep(_POLL_S)
        assert self.returncode is not None
        return self.returncode


def main(words: Sequence[str]) -> None:
    """Runs an agent; in the workers that are forked from it, runs those."""
    arguments = parse_args(list(words))
    if _can_fork(arguments):
        with importing():
            import_for(arguments.training_script)
        if not is_open(_CUDA_DEVICE):
            gc.freeze()  # what is imported stays: looked through, its pages would be copied for every worker
            forked: list[Forked] = []
            for _ in range(int(arguments.nproc_per_node)):
                reading, writing = os.pipe()
                if (pid := os.fork()) == 0:
                    for other in (*(worker.descriptor for worker in forked), writing):
                        os.close(other)  # else a worker would not see that the agent is gone
                    _work(arguments, reading)
                    return
                os.close(reading)
                forked.append(Forked(pid, writing))
            SubprocessHandler._popen = _handing(forked)  # type: ignore[method-assign]
    rendezvous_handler_registry.register(BACKEND, create_handler)
    torchrun(list(words))


def _can_fork(arguments: argparse.Namespace) -> bool:
    """Whether workers are a module's, so many, write where the agent does, and this torch starts them as is known."""
    is_plain = arguments.redirects == "0" and arguments.tee == "0" and arguments.max_restarts == 0
    return arguments.module and arguments.nproc_per_node.isdigit() and is_plain and hasattr(SubprocessHandler, "_popen")


def import_for(module: str) -> None:
    """Imports what a module's workers need; what fails here fails in the workers again, who say so.

    Some imports ask whether there is CUDA. They shall ask its library NVML: CUDA itself would begin, and a process in
    which it has begun cannot be forked.
    """
    kept = os.environ.get(_ASK_NVML)
    os.environ[_ASK_NVML] = "1"
    try:
        with suppress(Exception):
            for needed in _imports_of(module):
                import_module(needed)
    finally:
        os.environ.pop(_ASK_NVML)
        os.environ.update({_ASK_NVML: kept} if kept is not None else {})


def is_open(path: str) -> bool:
    """Whether this process has a file open."""
    descriptors = Path("/proc/self/fd")
    for descriptor in descriptors.iterdir() if descriptors.exists() else ():
        with suppress(OSError):  # that of the listing is closed by now
            if str(descriptor.readlink()) == path:
                return True
    return False


def _imports_of(module: str) -> Sequence[str]:
    """What a module's source assigns to `IMPORTS`; the module itself is not run here."""
    spec = util.find_spec(module)
    if spec and spec.submodule_search_locations:
        spec = util.find_spec(f"{module}.__main__")
    if not spec or not spec.origin:
        return ()
    for statement in ast.parse(Path(spec.origin).read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == IMPORTS:
            return ast.literal_eval(statement.value)
    return ()


def _handing(forked: list[Forked]) -> Callable[..., Any]:
    def begin(_: SubprocessHandler, __: Sequence[str], environment: dict[str, str]) -> Any:
        return forked[int(environment["LOCAL_RANK"])].begin(environment)

    return begin


def _work(arguments: argparse.Namespace, descriptor: int) -> None:
    """In a worker: waits for its place, and runs its module; without a place the agent is gone."""
    die_with_parent(signal.SIGKILL)
    name_process(WAITING)
    os.setsid()
    with os.fdopen(descriptor) as place:
        environment = place.read()
    if not environment:
        return
    os.environ.clear()
    os.environ.update(json.loads(environment))
    name_process(name_of_rank(int(os.environ["RANK"])))
    sys.argv = [arguments.training_script, *arguments.training_script_args]
    runpy.run_module(arguments.training_script, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    leave()
