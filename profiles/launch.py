"""Starts workers through torchrun, relays their events, and turns a failure into one clear line."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from profiles.errors import RunFailedError

Event = dict[str, Any]
_EVENT_MARK = "@gnnplan "
_GRACE_S = 10.0


def emit(event: Event) -> None:
    """Sends an event from a worker to the process that launched it (a marked line on stdout)."""
    print(_EVENT_MARK + json.dumps(event), flush=True)


@contextmanager
def reporting_errors(folder: Path, rank: int) -> Iterator[None]:
    """Writes what ended a worker to `folder`, so that the launcher can name the first cause."""
    try:
        yield
    except Exception as error:
        report = {
            "rank": rank,
            "at_s": time.time(),
            "error": f"{type(error).__name__}: {error}",
            "from_peer": _is_peer_loss(error),
            "traceback": traceback.format_exc(),
        }
        (folder / f"worker_{rank}.error.json").write_text(json.dumps(report))
        raise SystemExit(1) from error


def _is_peer_loss(error: Exception) -> bool:
    text = str(error)
    marks = ("closed by peer", "Connection reset", "Broken pipe", "recvValue failed", "NCCL", "Timed out")
    return isinstance(error, RuntimeError) and any(mark in text for mark in marks)


def launch(
    module: str,
    arguments: Sequence[str],
    *,
    num_workers: int,
    folder: Path,
    threads_per_worker: int = 1,
    on_event: Callable[[Event], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs `python -m module arguments` as `num_workers` torchrun workers on this host.

    Blocks until they end. Nothing is left behind: the whole process group is killed on any way
    out, and torchrun itself is told to stop if this process dies.

    Args:
        folder: where the workers' error reports and the log `workers.log` go.
        on_event: called with each event a worker sent through `emit`.

    Raises:
        RunFailedError: a worker failed; the message names it and its own error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("worker_*.error.json"):
        stale.unlink()
    command = [
        sys.executable,
        "-P",
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        f"--nproc-per-node={num_workers}",
        "--rdzv-backend=gnnplan-loopback",
        "--rdzv-endpoint=127.0.0.1:0",
        "--rdzv-id=gnnplan",
        "--local-addr=127.0.0.1",
        "--max-restarts=0",
        "-m",
        module,
        *arguments,
    ]
    child = subprocess.Popen(
        command,
        env=_worker_environment(threads_per_worker, environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    try:
        tail = _relay(child, folder / "workers.log", on_event)
        code = child.wait(timeout=_GRACE_S)
    finally:
        _stop_group(child)
    if code != 0:
        raise RunFailedError(_first_cause(folder, code, tail))


def _worker_environment(threads: int, extra: Mapping[str, str] | None) -> dict[str, str]:
    environment = {**os.environ, **(extra or {})}
    environment.update(
        PYTHONSAFEPATH="1",
        PYTHONUNBUFFERED="1",
        OMP_NUM_THREADS=str(threads),
        MKL_NUM_THREADS=str(threads),
        NUMBA_NUM_THREADS=str(threads),
        TORCH_CPP_LOG_LEVEL="ERROR",
    )
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return environment


def _die_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _relay(child: subprocess.Popen[str], log: Path, on_event: Callable[[Event], None] | None) -> deque[str]:
    tail: deque[str] = deque(maxlen=40)
    assert child.stdout is not None
    with log.open("w") as sink:
        for line in child.stdout:
            if line.startswith(_EVENT_MARK):
                if on_event:
                    on_event(json.loads(line[len(_EVENT_MARK) :]))
                continue
            sink.write(line)
            tail.append(line.rstrip())
    return tail


def _stop_group(child: subprocess.Popen[str]) -> None:
    workers = _open_children(child.pid)
    for stop in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, stop)
        except ProcessLookupError:
            break
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    child.wait()
    for worker in workers:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(worker, signal.SIGKILL)
        os.close(worker)


def _open_children(pid: int) -> list[int]:
    """Descriptors of the workers: torchrun gives each a session of its own, out of its group's reach."""
    descriptors = []
    with suppress(OSError):  # torchrun is gone, or this kernel does not list children
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(int(child)))
    return descriptors


def _first_cause(folder: Path, code: int, tail: deque[str]) -> str:
    reports = [json.loads(path.read_text()) for path in folder.glob("worker_*.error.json")]
    own = sorted((r for r in reports if not r["from_peer"]), key=lambda r: r["at_s"])
    if own:
        return f"worker {own[0]['rank']} failed: {own[0]['error']} (its traceback is in {folder})"
    dead = re.search(r"exitcode: (-\d+)\) local_rank: (\d+)", "\n".join(tail))
    if dead:
        how = signal.Signals(-int(dead[1])).name
        return f"worker {dead[2]} was ended by {how} without an error of its own: killed, or out of memory?"
    if reports:
        return f"a worker was lost: {reports[0]['error']}; see {folder / 'workers.log'}"
    last = next((line for line in reversed(tail) if line.strip()), "no output")
    return f"the workers could not be started (exit code {code}): {last}; see {folder / 'workers.log'}"
