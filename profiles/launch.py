"""Starts workers through torchrun, relays their events, and turns a failure into one clear line."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypedDict

from gnnplan.profiles.agents import Agents, HostGroup
from gnnplan.profiles.errors import (
    LostWorkersError,
    NoPlanFitsError,
    NotFiniteError,
    RunFailedError,
    StoppedError,
    UserError,
)
from gnnplan.profiles.folder import open_new
from gnnplan.profiles.stopping import noting_signals

HOSTS_VARIABLE = "GNNPLAN_HOSTS"


class HostEntry(TypedDict):
    """How this process reaches a host; a list of them is the file that `GNNPLAN_HOSTS` names."""

    name: str
    address: str
    interface: str
    prefix: list[str]


Event = dict[str, Any]
_UNFINISHED = ".partial"  # of a report, until it is written
_EVENT_MARK = "@gnnplan "
_ANSWER_S = 5.0
_TAIL_LINES = 1000  # torchrun says first which worker failed, and then seven lines on every other one


def emit(event: Event) -> None:
    """Sends an event from a worker to the process that launched it (a marked line on stdout)."""
    # One write: workers share the pipe, and a line in two pieces would mix with another worker's.
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"{_EVENT_MARK}{json.dumps(event)}\n".encode())


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
            "from_peer": is_peer_loss(error),
            "missing": list(getattr(error, "missing", ())),
            "users_mistake": str(error) if isinstance(error, UserError) else None,
            "no_plan_fits": str(error) if isinstance(error, NoPlanFitsError) else None,
            "not_finite": str(error) if isinstance(error, NotFiniteError) else None,
            "traceback": traceback.format_exc(),
        }
        path = folder / f"worker_{rank}.error.json"
        try:
            with open_new(path.with_suffix(_UNFINISHED)) as sink:
                sink.write(json.dumps(report))
            path.with_suffix(_UNFINISHED).replace(path)  # whole or not there: a worker may be ended while it writes
            where = f"its traceback is in {path}"
        except OSError as fault:  # the folder is gone, full or read-only, which may be what ended the worker
            print(report["traceback"], file=sys.stderr)
            where = f"{path} cannot be written: {fault.strerror}"
        print(f"worker {rank}: {' '.join(str(report['error']).split())} ({where})", file=sys.stderr, flush=True)
        raise SystemExit(1) from error


# What errors say where another worker, or the way to it, is gone. NCCL's other errors are a worker's own: wrong use
# (two workers on one device), a CUDA error, memory.
_SILENCE = ("Timed out", "Application timeout")
_LOST_PEER = (
    *_SILENCE,
    "closed by peer",
    "closed by remote peer",
    "Connection reset",
    "Broken pipe",
    "recvValue failed",
    "ncclRemoteError",
    "remote process exited",
    "NCCL communicator was aborted",
    "Watchdog caught collective operation timeout",
)


def is_peer_loss(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, says that another worker, or the way to it, is gone."""
    while error is not None:
        if getattr(error, "missing", ()):
            return True
        if isinstance(error, RuntimeError) and any(mark in str(error) for mark in _LOST_PEER):
            return True
        error = error.__cause__
    return False


def launch(
    module: str,
    arguments: Sequence[str],
    *,
    hosts: Sequence[HostGroup],
    folder: Path,
    on_event: Callable[[Event], None] | None = None,
    environment: Mapping[str, str] | None = None,
    silence_s: float = math.inf,
) -> None:
    """Runs `python -m module arguments` as torchrun workers on every host; blocks until they end.

    Nothing is left behind: every agent and worker is killed on any way out, and they are told to
    stop if this process dies.

    Args:
        hosts: where, and how many workers each; ranks go host by host.
        folder: where the workers' error reports and the log `workers.log` go.
        on_event: called with each event a worker sent through `emit`.
        silence_s: without a word from any worker, after which an agent or a worker that is stopped counts as lost.

    Raises:
        RunFailedError: a worker failed; the message names it and its own error.
        LostWorkersError: workers, or a host's agent, are gone by no error of their own.
        UserError, NoPlanFitsError: it failed over what the user gave it, or for want of memory; the message is its
            own, and no report stays.
        StoppedError: this process was told to end by SIGTERM or SIGINT; workers were, and had a while to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in _reports(folder):
        stale.unlink()
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    worker = ["-m", module, *arguments]
    with noting_signals() as stop, Agents(hosts, worker, environment or {}) as agents, _log(folder) as log:
        for rank, line in agents.lines(lambda: bool(_reports(folder)), stop, silence_s):
            words, mark, event = line.partition(_EVENT_MARK)  # words: a print whose newline is still to come
            if mark and on_event:
                on_event(json.loads(event))
            if words.strip():
                log.write(f"{'' if len(hosts) == 1 else f'[host {rank}] '}{words.rstrip()}\n")
                tail.append(words.rstrip())
        code, stuck, killed = agents.wait(), agents.stuck, agents.killed()
    _clear_unfinished(folder)
    if stop.number:
        for report in _reports(folder):
            report.unlink()
        raise StoppedError(f"ended by {signal_name(stop.number)}", stop.number)
    if lost := _lost_workers(hosts, folder, stuck, killed):
        raise lost
    if code != 0:
        cause = _first_cause(folder, code, tail)
        if isinstance(cause, UserError | NoPlanFitsError):  # which says it all
            for path in (folder / "workers.log", *_reports(folder)):
                path.unlink()
        raise cause


def _lost_workers(
    hosts: Sequence[HostGroup], folder: Path, stuck: Sequence[int], killed: Sequence[tuple[int, int]]
) -> LostWorkersError | None:
    """Of agents that do not end, or were ended by a signal, where no worker's report says why (None: of none)."""
    if stuck and not any(map(_says_who, _read_reports(folder))):
        words = f"the agent of host {', '.join(map(str, stuck))} does not end: it, or a worker of its, is stopped, "
        words += "or it is cut off from others"
        return LostWorkersError(f"{words}; see {folder / 'workers.log'}", _ranks_of(hosts, stuck))
    if killed and not any(not report["from_peer"] for report in _read_reports(folder)):
        host, number = killed[0]
        words = f"the agent of host {host} was ended by {signal_name(number)}, and its workers with it"
        return LostWorkersError(f"{words}: killed, or out of memory?", _ranks_of(hosts, [host]))
    return None


def signal_name(number: int) -> str:
    """As `SIGTERM`; real-time signals have none of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def hosts_here(workers_by_host: Mapping[str, int], threads: int | Mapping[str, int]) -> list[HostGroup]:
    """Where the workers of each named host are started from this process.

    Hosts are those of the emulated cluster this process runs in, by name. One alone that is none of them is
    this machine, whatever its name.

    Args:
        threads: of each worker, of all hosts or by host.

    Raises:
        UserError: several hosts, and they are not emulated here.
    """
    known = emulated_hosts()
    threads_of = dict.fromkeys(workers_by_host, threads) if isinstance(threads, int) else threads
    missing = [name for name in workers_by_host if name not in known]
    if len(workers_by_host) == 1:
        # Emulated or not, the workers of one host meet on loopback, which every namespace has of its own.
        return [
            HostGroup(count, threads_of[name], () if missing else tuple(known[name]["prefix"]))
            for name, count in workers_by_host.items()
        ]
    if missing:
        raise UserError(
            f"{len(workers_by_host)} hosts are needed and {', '.join(missing)} cannot be reached from here: "
            f"use `gnnplan emulate`, or a cluster of this host alone"
        )
    return [
        HostGroup(
            count, threads_of[name], tuple(known[name]["prefix"]), known[name]["address"], known[name]["interface"]
        )
        for name, count in workers_by_host.items()
    ]


def answers(host: str) -> bool:
    """Whether a process can be started on a host that this one reaches."""
    entry = emulated_hosts().get(host)
    command = [*(entry["prefix"] if entry else ()), "true"]
    try:
        return subprocess.run(command, timeout=_ANSWER_S, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def emulated_hosts() -> dict[str, HostEntry]:
    """The hosts of the emulated cluster around this process, by name; none where there is no such cluster."""
    path = os.environ.get(HOSTS_VARIABLE)
    if not path:
        return {}
    try:
        return {entry["name"]: entry for entry in json.loads(Path(path).read_text())}
    except OSError:
        raise UserError(f"{HOSTS_VARIABLE} is set but {path} is gone: the emulation has ended; unset it") from None


@contextmanager
def _log(folder: Path) -> Iterator[TextIO]:
    path = folder / "workers.log"
    try:
        with open_new(path) as sink:
            yield sink
    except OSError as error:  # a full disk does not say of which file
        raise error if error.filename else OSError(error.errno, error.strerror, str(path)) from None


def _reports(folder: Path) -> list[Path]:
    return sorted(folder.glob("worker_*.error.json"))


def _clear_unfinished(folder: Path) -> None:
    """Removes halves of reports; in a folder that cannot be written they stay."""
    for path in folder.glob(f"worker_*.error{_UNFINISHED}"):
        with suppress(OSError):
            path.unlink()


def _read_reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in _reports(folder)]


def _says_who(report: dict[str, Any]) -> bool:
    """Whether a report is of an error of its own, or names the worker that was lost."""
    return bool(not report["from_peer"] or report["missing"] or re.search(r"\bworker \d", report["error"]))


def _ranks_of(hosts: Sequence[HostGroup], chosen: Sequence[int]) -> tuple[int, ...]:
    """Of the workers of some hosts, which are numbered host by host."""
    host_of = [number for number, host in enumerate(hosts) for _ in range(host.num_workers)]
    return tuple(rank for rank, host in enumerate(host_of) if host in chosen)


def _first_cause(folder: Path, code: int, tail: deque[str]) -> UserError | NoPlanFitsError | RunFailedError:
    reports = _read_reports(folder)
    own = sorted((r for r in reports if not r["from_peer"]), key=lambda r: r["at_s"])
    if own and (message := own[0]["users_mistake"]):
        return UserError(message)
    if own and (message := own[0]["no_plan_fits"]):
        return NoPlanFitsError(message)
    if own and (message := own[0].get("not_finite")):
        return NotFiniteError(message)
    if own:
        return RunFailedError(f"worker {own[0]['rank']} failed: {own[0]['error']} (its traceback is in {folder})")
    dead = _first_death(tail, spared={report["rank"] for report in reports})
    if dead and not _was_missed(*dead, reports):
        words = f"worker {dead[0]} was ended by {dead[1]} without an error of its own: killed, or out of memory?"
        return LostWorkersError(words, (dead[0],))
    log = folder / "workers.log"
    if reports:
        loss = _loss(reports)
        return LostWorkersError(f"a worker was lost: {loss['error']}; see {log}", tuple(loss["missing"]))
    if said := [line for line in tail if re.match(r"worker \d+: ", line)]:  # and could not be written to the folder
        own_words = [line for line in said if not any(mark in line for mark in _LOST_PEER)]
        return RunFailedError(f"{(own_words or said)[0]}; see {log}")
    last = next((line for line in reversed(tail) if line.strip()), "no output")
    return RunFailedError(f"the workers could not be started (exit code {code}): {last}; see {log}")


def _was_missed(rank: int, end: str, reports: list[dict[str, Any]]) -> bool:
    """Whether torchrun ended a worker after others had missed it for its silence: by SIGKILL where it was stopped."""
    missing = [report for report in reports if report["missing"]]
    if end == signal.SIGKILL.name:
        missing = [r for r in missing if rank in r["missing"] and any(mark in r["error"] for mark in _SILENCE)]
    return bool(missing) and end in (signal.SIGTERM.name, signal.SIGKILL.name)


def _loss(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Of reports over lost peers the first that names whom most miss; the first of all where none names anybody.

    Rather one that names nobody else: a worker may only miss another because that one waits for the one that is lost.
    """
    votes = Counter(rank for report in reports for rank in report["missing"])

    def order(report: dict[str, Any]) -> tuple[int, int, float]:
        named = report["missing"]
        return -max((votes[rank] for rank in named), default=0), len(named), report["at_s"]

    return min(reports, key=order)


def _first_death(tail: deque[str], spared: set[int]) -> tuple[int, str] | None:
    """Rank and signal of a worker that one ended, as torchrun lists them: what it takes for the cause last.

    Args:
        spared: workers that reported a lost peer; what ends them then, an abort on the way out among it, is no cause.
    """
    found = re.findall(r"rank +: (\d+) \(local_rank: \d+\)\s+exitcode +: -(\d+) ", "\n".join(tail))
    deaths = [(int(rank), signal_name(int(number))) for rank, number in reversed(found) if int(rank) not in spared]
    # torchrun ends those that are left by SIGTERM.
    deaths.sort(key=lambda death: death[1] == signal.SIGTERM.name)
    return deaths[0] if deaths else None
