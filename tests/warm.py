"""Workers that start warm: forked from one process that has imported torch and PyG, in place of torchrun.

A worker of `gnnplan.profiles.launch.launch` imports for seconds what a test needs for a tenth of one. Tests of
torchrun, of failures and of emulated hosts start workers by `gnnplan.profiles.launch`; tests of what workers compute
may start them here.
"""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import os
import runpy
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection, wait

import pytest

from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.launch import _EVENT_MARK

_PRELOADED = ["gnnplan.runtime.worker", "gnnplan.runtime.mini_batch.measure", "gnnplan.planner.preloaded"]
_LONGEST_S, _LONGEST_END_S = 290.0, 90.0
_ASK_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"  # in place of CUDA, which a process that is forked must not begin
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def launch(module, arguments, *, hosts, folder, on_event=None, environment=None, silence_s=math.inf):
    """As `gnnplan.profiles.launch.launch`, for workers of one host with one thread each that are not meant to fail."""
    (host,) = hosts
    assert host.threads == 1, "the process they are forked from was started with one"
    folder.mkdir(parents=True, exist_ok=True)
    meeting = _meeting()
    store = meeting.next_rendezvous().bootstrap_store_info
    context = _context()
    outputs, children = {}, []
    for rank in range(host.num_workers):
        places = {
            "RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": host.num_workers,
            "LOCAL_WORLD_SIZE": host.num_workers, "MASTER_ADDR": store.master_addr, "MASTER_PORT": store.master_port,
            "TORCHELASTIC_USE_AGENT_STORE": "True", "GLOO_SOCKET_IFNAME": "lo", "PYTHONSAFEPATH": "1",
        }  # fmt: skip
        output, writing = context.Pipe(duplex=False)
        variables = os.environ | {name: str(value) for name, value in places.items()} | (environment or {})
        child = context.Process(target=_work, args=(module, list(arguments), variables, writing), daemon=True)
        child.start()
        writing.close()
        children.append(child)
        outputs[output] = b""
    try:
        log = _listen(outputs, on_event)
        for child in children:
            child.join(10)
    finally:
        for child in children:
            child.kill()
            child.join()
    (folder / "workers.log").write_text(log)
    codes = [child.exitcode for child in children]
    if any(codes):
        reports = [json.loads(path.read_text())["error"] for path in sorted(folder.glob("worker_*.error.json"))]
        raise RunFailedError(f"exit codes {codes}, reports {reports}, output {log[-2000:]}")


@contextmanager
def runs(*, warm=True):
    """Within, plans that are run start their workers like this (or not: by torchrun)."""
    with pytest.MonkeyPatch.context() as patch:
        if warm:
            patch.setattr("gnnplan.planner.run.launch", launch)
        yield


def _meeting():
    """A store on loopback, where the workers find each other; it goes with its last reference."""
    import torch.distributed.elastic.rendezvous  # noqa: F401  first: it loads what is imported next as a plugin

    from gnnplan.profiles.rendezvous import BoundRendezvous

    return BoundRendezvous("warm", timedelta(seconds=60))


def _context():
    """A fork server, started at the first call."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    kept = {name: os.environ.get(name) for name in (*_THREADS, _ASK_NVML)}
    os.environ.update(dict.fromkeys(kept, "1"))
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return context


def _work(module: str, arguments: list[str], variables: dict[str, str], output: Connection) -> None:
    """In the child: what `python -m module` does, with its output going to the parent."""
    gc.freeze()  # what is imported stays: a test that collects garbage need not look through it
    os.environ.clear()
    os.environ.update(variables | dict.fromkeys(_THREADS, "1"))
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    output.close()
    sys.stdout, sys.stderr = (os.fdopen(os.dup(descriptor), "w", buffering=1) for descriptor in (1, 2))
    sys.path[:0] = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _listen(outputs: dict[Connection, bytes], on_event) -> str:
    """Relays events until every child has closed its output, soon after the first; returns what else they wrote.

    While none has, what any of them writes gives all of them more time.
    """
    deadline_s, words, num_children = time.monotonic() + _LONGEST_S, [], len(outputs)
    while outputs:
        ready = wait(list(outputs), timeout=max(0.0, deadline_s - time.monotonic()))
        if not ready:
            raise RunFailedError(f"workers are silent, still at work or stopped: {''.join(words)[-2000:]}")
        if len(outputs) == num_children:
            deadline_s = time.monotonic() + _LONGEST_S
        for output in ready:
            part = os.read(output.fileno(), 2**16)
            *lines, outputs[output] = (outputs[output] + part).split(b"\n")
            for line in lines:
                text, mark, event = line.decode().partition(_EVENT_MARK)
                if mark and on_event:
                    on_event(json.loads(event))
                if text.strip():
                    words.append(f"{text}\n")
            if not part:
                words.append(outputs.pop(output).decode())
                deadline_s = min(deadline_s, time.monotonic() + _LONGEST_END_S)
    return "".join(words)
