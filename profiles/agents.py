"""The torchrun agents of a run, one per host: started, listened to, and stopped without a trace."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from uuid import uuid4

from gnnplan.profiles.stopping import Stop

_GRACE_S = 5.0
_SHORT_END_S = 2.0  # where a worker or an agent is stopped
_LONGEST_END_S = 8.0  # for the agents to end by themselves, when a worker has failed or one of them has ended
LONGEST_STOP_S = 25.0
"""For workers that are told to end: torchrun kills them after 30."""

_SOFT = (signal.SIGTERM, signal.SIGKILL)
_HARD = (signal.SIGKILL,)  # for agents that have been waited for in vain
_POLL_S = 0.2
_SOCKETS = "[c10d]"  # torch's own lines, which say again and again that nobody answers
WAITING = "gnnplan:waits"
"""Name of a worker that its agent has forked and torchrun has not begun."""

_PORT = 29431  # of the rendezvous between hosts; each emulation has its own network

Line = tuple[int, str]


@dataclass(frozen=True)
class HostGroup:
    """The workers of one host.

    Args:
        num_workers: torchrun workers started there.
        threads: of each worker.
        prefix: command that the agent is run through, e.g. `nsenter --net=/run/netns/host-0`.
        address, interface: where its workers are reached.
    """

    num_workers: int
    threads: int = 1
    prefix: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    interface: str = "lo"


class Agents:
    """Starts one agent per host; `lines()` yields what they print until all have ended.

    On leaving the context every agent and worker is gone, however the context was left, and so are their temporary
    files: torchrun and PyG leave some of each worker.
    """

    def __init__(self, hosts: Sequence[HostGroup], worker: Sequence[str], environment: Mapping[str, str]) -> None:
        self._lines: Queue[Line | None] = Queue()
        self._children: list[subprocess.Popen[str]] = []
        self._hosts, self._worker, self._environment = hosts, worker, environment
        self._scratch: TemporaryDirectory[str] | None = None
        self._run_id = f"gnnplan-{uuid4().hex[:12]}"
        self.stuck: tuple[int, ...] = ()
        """Hosts whose agents did not end when they should have."""

    def __enter__(self) -> Agents:
        self._scratch = TemporaryDirectory(prefix="gnnplan-workers-", ignore_cleanup_errors=True)
        self._environment = {**self._environment, "TMPDIR": self._scratch.name}
        try:
            for rank in range(len(self._hosts)):
                self._start(rank)
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            _stop_group(child, _HARD if self.stuck else _SOFT)
        if self._scratch:
            self._scratch.cleanup()

    def _start(self, rank: int) -> None:
        host = self._hosts[rank]
        torchrun = [sys.executable, "-P", "-m", "gnnplan.profiles.agent", *_rendezvous(self._hosts, rank, self._run_id)]
        child = subprocess.Popen(
            [*host.prefix, *torchrun, f"--nproc-per-node={host.num_workers}", "--max-restarts=0", *self._worker],
            env=_worker_environment(host, self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",  # a layer of somebody's own may print anything
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._children.append(child)
        Thread(target=self._listen, args=(rank, child), daemon=True).start()

    def _listen(self, rank: int, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                self._lines.put((rank, line))
        finally:
            self._lines.put(None)

    def lines(
        self,
        has_failed: Callable[[], bool] = lambda: False,
        stop: Stop | None = None,
        silence_s: float = math.inf,
    ) -> Iterator[Line]:
        """(host rank, line) in the order of arrival; ends when all have, or soon after one failed or ended alone.

        Args:
            has_failed: whether a worker has said so: its agent ends soon, or is waiting for one that is stopped.
            stop: once it has a signal, agents are told to end, and given a while in which all may.
            silence_s: that somebody is stopped and no line comes, after which the run is not waited for any longer.
        """
        listening, ending_s, stopping_s = len(self._children), None, None
        heard_s = moved_s = time.monotonic()
        while listening:
            if stop and stop.number and stopping_s is None:
                stopping_s = time.monotonic()
                self._tell_to_end()
            if stopping_s is not None and time.monotonic() > stopping_s + LONGEST_STOP_S:
                return
            try:
                line = self._lines.get(timeout=_POLL_S)
            except Empty:
                if stopping_s is not None:
                    continue
                if self.exit_code():
                    return
                if ending_s is None and (has_failed() or self._one_is_over()):
                    ending_s = time.monotonic()
                is_late = ending_s is not None and time.monotonic() > ending_s + self._longest_end_s()
                moved_s = moved_s if self._none_will_end() else time.monotonic()
                if is_late or time.monotonic() > max(heard_s, moved_s) + silence_s:
                    self.stuck = self._stuck()
                    return
                continue
            if line is None:
                listening -= 1
                continue
            heard_s = heard_s if _SOCKETS in line[1] else time.monotonic()
            yield line

    def _tell_to_end(self) -> None:
        """torchrun's agents pass it on to their workers."""
        for child in self._children:
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)

    def _one_is_over(self) -> bool:
        """Whether an agent has ended, or is stopped with no worker of its own left."""
        return any(child.poll() is not None or _is_stopped_alone(child.pid) for child in self._children)

    def _longest_end_s(self) -> float:
        """Nobody waits for long for what is stopped: torchrun would, before it kills it."""
        return _SHORT_END_S if self._has_stopped() else _LONGEST_END_S

    def _none_will_end(self) -> bool:
        """Whether one is stopped, or an agent has no workers, for agents begin and end together: others are cut off."""
        return self._has_stopped() or any(not _has_workers(child.pid) for child in self._children)

    def _has_stopped(self) -> bool:
        return any(_is_stopped(child.pid) or _has_stopped_child(child.pid) for child in self._children)

    def _stuck(self) -> tuple[int, ...]:
        """Hosts whose agents run: of these those alone that are stopped, or have stopped workers, where any is."""
        running = {rank: child.pid for rank, child in enumerate(self._children) if child.poll() is None}
        stopped = tuple(rank for rank, pid in running.items() if _is_stopped(pid))
        return stopped or tuple(rank for rank, pid in running.items() if _has_stopped_child(pid)) or tuple(running)

    def exit_code(self) -> int:
        """That of the first agent that failed, 0 where none has (yet)."""
        return next((child.returncode for child in self._children if child.poll()), 0)

    def killed(self) -> tuple[tuple[int, int], ...]:
        """(host, signal) of every agent that one has ended."""
        codes = [child.poll() or 0 for child in self._children]
        return tuple((rank, -code) for rank, code in enumerate(codes) if code < 0)

    def wait(self) -> int:
        """Waits for agents that have closed their output; returns `exit_code()`, 1 for one that stays."""
        for child in self._children:
            try:
                child.wait(timeout=0 if self.exit_code() or self.stuck else _GRACE_S)
            except subprocess.TimeoutExpired:
                return self.exit_code() or 1
        return self.exit_code()


def _rendezvous(hosts: Sequence[HostGroup], rank: int, run_id: str) -> list[str]:
    port = _PORT if len(hosts) > 1 else 0
    return [
        f"--nnodes={len(hosts)}",
        "--rdzv-backend=gnnplan-loopback",  # its store listens on the first host's address alone
        f"--rdzv-endpoint={hosts[0].address}:{port}",
        f"--rdzv-conf=rank={rank}",
        f"--local-addr={hosts[rank].address}",
        f"--rdzv-id={run_id}",
    ]


def _worker_environment(host: HostGroup, extra: Mapping[str, str]) -> dict[str, str]:
    environment = {**os.environ, **extra}
    environment.update(
        PYTHONSAFEPATH="1",
        PYTHONUNBUFFERED="1",
        OMP_NUM_THREADS=str(host.threads),
        MKL_NUM_THREADS=str(host.threads),
        NUMBA_NUM_THREADS=str(host.threads),
        TORCH_CPP_LOG_LEVEL="ERROR",
        # Not the user's: one host stays on loopback, emulated ones have no other.
        GLOO_SOCKET_IFNAME=host.interface,
        NCCL_SOCKET_IFNAME=host.interface,
    )
    return environment


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Has the kernel end this process, by that signal, when the one that made it ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(number))


def name_process(name: str) -> None:
    """Has tools such as top and ps call this process so; Linux keeps 15 characters."""
    pr_set_name = 15
    ctypes.CDLL(None).prctl(pr_set_name, name.encode())


def name_of_rank(rank: int) -> str:
    """What a worker that is at work is called."""
    return f"gnnplan:{rank}"


def workers_of(path: Path) -> dict[int, int]:
    """Process ids, by rank, of forked workers at work whose command names a folder, or a file in it."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            mark, _, rank = _name(int(entry.name)).partition(":")
            if mark == "gnnplan" and rank.isdigit() and str(path).encode() in (entry / "cmdline").read_bytes():
                found[int(rank)] = int(entry.name)
    return dict(sorted(found.items()))


def _stop_group(child: subprocess.Popen[str], signals: Sequence[signal.Signals]) -> None:
    workers = _open_children(child.pid)
    for stop in signals:
        try:
            os.killpg(child.pid, stop)
        except ProcessLookupError:
            break
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue  # with the harder signal
    child.wait()
    for worker in workers:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(worker, signal.SIGKILL)
        os.close(worker)


def _is_stopped_alone(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return _state(pid) == "T" and all(_state(child) == "Z" for child in _children(pid))
    return False


def _has_workers(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return any(_state(child) != "Z" and _name(child) != WAITING for child in _children(pid))
    return True  # a kernel that lists no children says nothing against them


def _has_stopped_child(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return any(_state(child) == "T" for child in _children(pid))
    return False


def _is_stopped(pid: int) -> bool:
    with suppress(OSError, IndexError):  # it has ended
        return _state(pid) == "T"
    return False


def _state(pid: int) -> str:
    """The letter by which Linux says what a process does: T where it is stopped, Z where it has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _open_children(pid: int) -> list[int]:
    """Descriptors of the workers: torchrun gives each a session of its own, out of its group's reach."""
    descriptors = []
    with suppress(OSError):  # torchrun is gone, or this kernel does not list children
        for child in _children(pid):
            with suppress(ProcessLookupError):
                descriptors.append(os.pidfd_open(child))
    return descriptors
