"""One fault at one moment of one run: what came of it, and whether the run went on to the right numbers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import torch

from gnnplan.profiles.agents import workers_of

TIMEOUT_S = 12.0
MARGIN_S = 15.0
"""Beside the timeout, from the fault to the end of the run."""

_PATIENCE_S = 60.0  # beside these: who has not ended by then hangs
_RUN_S = 180.0
_EVERY = 25  # epochs
_CLOSE = 0.15  # accuracies of two runs that are not alike
_WAIT_S = 1.0  # in which all others come to an exchange with a worker that is stopped
MOMENTS = ("middle", "checkpoint", "exchange", "start", "after saving", "first epoch", "last epoch")
NAN = "NaN"
Event = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A plan to run, and the folder of a run that nothing disturbed.

    Args:
        endless: the same with a learning rate that no training survives.
        is_repeatable: two runs have the same bits.
        prefix: command that a run is started through, as `gnnplan emulate CLUSTER --`.
    """

    kind: str
    plan: Path
    whole: Path
    epochs: int
    endless: Path | None = None
    is_repeatable: bool = True
    prefix: tuple[str, ...] = ()

    def is_right(self, folder: Path) -> bool:
        """Whether a run has come to the numbers of the one that nothing disturbed."""
        first, second = (torch.load(each / "model.pt", weights_only=True) for each in (self.whole, folder))
        if self.is_repeatable:
            return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
        traces = [json.loads((each / "measured.json").read_text()) for each in (folder, self.whole)]
        reached, wanted = (trace["accuracy"] for trace in traces)
        is_close = all(abs(reached[name] - wanted[name]) < _CLOSE for name in wanted)
        return is_close and all(bool(torch.isfinite(each).all()) for each in second.values())


@dataclass
class Cell:
    """What came of a fault.

    Args:
        exit_code: of the run.
        line: the last that it said.
        seconds: from the fault to its end.
        late: it ended, but took more than the timeout and the margin.
        resumed: whether the run that went on has the right bits; None where there was none to go on.
    """

    fault: str
    moment: str
    kind: str
    exit_code: int
    line: str
    seconds: float
    hangs: bool = False
    late: bool = False
    unnamed: bool = False
    wrong_numbers: bool = False
    left_behind: tuple[str, ...] = ()
    resumed: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Fault:
    """What is done to a run.

    Args:
        strike: given the run; says in words what else was wrong.
        mend: given its folder, before it goes on.
        codes: with which the run may end, where the fault came in time.
        lasts_s: for which a run that goes on is held up.
        on_link: of a host; so it is played on emulated ones alone.
        on_hosts: played on emulated hosts too.
        stays: names, as patterns, of files that nobody can remove under this fault: they go when the run goes on.
    """

    name: str
    strike: Callable[[Run], str | None]
    codes: tuple[int, ...]
    mend: Callable[[Path], None] = lambda _: None
    on_small_disk: bool = False
    lasts_s: float = 0.0
    on_link: bool = False
    on_hosts: bool = False
    stays: tuple[str, ...] = ()

    @property
    def timeout_s(self) -> float:
        """Of a worker that waits: whoever is only held up is not lost."""
        return TIMEOUT_S + self.lasts_s


class Run:
    """A process of `benchmarks._fault_run`, and what it says."""

    def __init__(
        self,
        plan: Path,
        folder: Path,
        scratch: Path,
        *,
        prefix: Sequence[str] = (),
        resume: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.plan, self.folder, self.scratch = plan, folder, scratch
        words = ["run", str(plan), "-o", str(folder), "--checkpoint-every", str(_EVERY), "--json"]
        words += [f"--timeout={timeout_s}", *["--resume"][:resume]]
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "benchmarks._fault_run", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(scratch)},
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
        self.events: Queue[Event | None] = Queue()
        self.said: list[str] = []
        self._threads = [Thread(target=target, daemon=True) for target in (self._listen, self._hear)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)

    def _hear(self) -> None:
        assert self.process.stderr
        self.said.extend(line.rstrip() for line in self.process.stderr)

    def end(self, timeout_s: float) -> bool:
        """Whether it ends in time; it is killed where not."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        for thread in self._threads:
            thread.join(10)
        return True


def hear_interrupts() -> None:
    """In a child before it executes: shells have what they start in the background ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def play(job: Job, fault: Fault, moment: str, folder: Path, scratch: Path) -> Cell:
    """A run with a fault, and the run that goes on from what it has left."""
    plan = job.endless if fault.name == NAN and job.endless else job.plan
    run = Run(plan, folder, scratch, prefix=job.prefix, timeout_s=fault.timeout_s)
    _wait_for(moment, run, job, folder)
    begun_s = time.monotonic()
    with _meeting_in_vain(folder, moment):
        wrong = fault.strike(run)
    within_s = fault.timeout_s + fault.lasts_s + MARGIN_S
    has_ended = run.end(within_s + _PATIENCE_S + (_RUN_S if 0 in fault.codes else 0))
    seconds, code = time.monotonic() - begun_s, run.process.returncode
    line = wrong or (run.said[-1] if run.said else "")
    cell = Cell(fault.name, moment, job.kind, code, line, seconds, hangs=not has_ended)
    cell.late = has_ended and 0 not in fault.codes and seconds > within_s
    cell.unnamed = bool(wrong) or (code != 0 and (code not in fault.codes or not _is_one_line(run.said)))
    cell.left_behind = tuple(each for each in _left(folder, scratch) if not _may_stay(each, fault))
    fault.mend(folder)
    if code == 0:
        cell.wrong_numbers = not job.is_right(folder)
    elif plan == job.plan:
        again = Run(job.plan, folder, scratch, prefix=job.prefix, resume=True)
        has_gone_on = again.end(_RUN_S) and again.process.returncode == 0
        cell.resumed = has_gone_on and job.is_right(folder)
        cell.wrong_numbers = has_gone_on and not cell.resumed
        cell.left_behind += tuple(_left(folder, scratch))
    return cell


def _may_stay(left: str, fault: Fault) -> bool:
    return any(fnmatch(Path(left).name, pattern) for pattern in fault.stays)


@contextmanager
def _meeting_in_vain(folder: Path, moment: str) -> Iterator[None]:
    """For the moment of an exchange the first worker is stopped for a while, so that all others wait for it in one."""
    stopped = list(workers_of(folder).values())[:1] if moment == "exchange" else []
    for pid in stopped:
        send(pid, signal.SIGSTOP)
        time.sleep(_WAIT_S)
    try:
        yield
    finally:
        for pid in stopped:
            send(pid, signal.SIGCONT)


def _wait_for(moment: str, run: Run, job: Job, folder: Path) -> None:
    """Until the moment has come, or the run has ended."""
    until_s = time.monotonic() + _RUN_S
    while time.monotonic() < until_s:
        if moment == "after saving" and (folder / "model.pt").exists():
            return
        try:
            event = run.events.get(timeout=0.02)
        except Empty:
            continue
        if event is None or _is_it(moment, event, job.epochs):
            return


def _is_it(moment: str, event: Event, epochs: int) -> bool:
    kind = event.get("event")
    if kind == "checkpoint":
        return moment == "checkpoint"
    if kind == "epoch":
        least = {"first epoch": 0, "middle": epochs // 2, "exchange": epochs // 2, "last epoch": epochs - 1}
        return moment in least and event["epoch"] >= least[moment]
    return kind == "start" and moment == "start"


def _is_one_line(said: list[str]) -> bool:
    own = [line for line in said if line.startswith("gnnplan: ")]
    return len(own) == 1 and said[-1] == own[0] and not any("Traceback" in line for line in said)


def _left(folder: Path, scratch: Path) -> list[str]:
    """Processes of the run, temporary files in its folder and elsewhere, and checkpoints that are none."""
    plan = str(folder / "plan.json").encode()
    pids = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _has(path, plan)]
    hidden = [str(path) for path in folder.rglob(".*")] if folder.exists() else []
    halves = [str(path) for path in folder.glob("checkpoints/epoch_*") if not (path / "manifest.json").exists()]
    return [*(f"process {path.parent.name}" for path in pids), *hidden, *halves, *map(str, scratch.iterdir())]


def agents_of(folder: Path) -> list[int]:
    """Processes that have started, or are to start, those that train in a folder."""
    plan, found = str(folder / "plan.json").encode(), []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            is_worker = (path.parent / "comm").read_text().startswith("gnnplan:")
            if _has(path, plan) and b"gnnplan.profiles.agent" in _words(path) and not is_worker:
                found.append(int(path.parent.name))
    return found


def send(pid: int, number: signal.Signals) -> None:
    """A signal, to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _has(path: Path, plan: bytes) -> bool:
    return plan in _words(path)


def _words(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []
