"""One fault at one moment of one run: what came of it, and whether the run went on to the right numbers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import torch

TIMEOUT_S = 20.0
LONGEST_S = TIMEOUT_S + 15.0  # from the fault to the end of the run
_RUN_S = 120.0
_EVERY = 25  # epochs
MOMENTS = ("middle", "checkpoint", "start", "after saving", "first epoch", "last epoch")
Event = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A plan to run, and the model of a run that nothing disturbed."""

    kind: str
    plan: Path
    model: Path
    epochs: int


@dataclass
class Cell:
    """What came of a fault.

    Args:
        code: the run's exit code.
        line: the last that it said.
        seconds: from the fault to its end.
        resumed: whether the run that went on has the right bits; None where there was none to go on.
    """

    fault: str
    moment: str
    kind: str
    code: int
    line: str
    seconds: float
    hangs: bool = False
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
        strike: given the run and its folder.
        mend: given its folder, before it goes on.
        codes: with which the run may end, where the fault came in time.
    """

    name: str
    strike: Callable[[subprocess.Popen, Path], None]
    codes: tuple[int, ...]
    mend: Callable[[Path], None] = lambda _: None
    on_small_disk: bool = False


class Run:
    """A process of `benchmarks._fault_run`, and what it says."""

    def __init__(self, job: Job, folder: Path, scratch: Path, *, resume: bool = False) -> None:
        words = ["run", str(job.plan), "-o", str(folder), "--checkpoint-every", str(_EVERY), "--json"]
        words += [f"--timeout={TIMEOUT_S}", *["--resume"][:resume]]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._fault_run", *words],
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
    run = Run(job, folder, scratch)
    _wait_for(moment, run, job, folder)
    begun_s = time.monotonic()
    fault.strike(run.process, folder)
    has_ended = run.end(LONGEST_S)
    seconds, code = time.monotonic() - begun_s, run.process.returncode
    line = run.said[-1] if run.said else ""
    cell = Cell(fault.name, moment, job.kind, code, line, seconds, hangs=not has_ended)
    cell.unnamed = code != 0 and (code not in fault.codes or not _is_one_line(run.said))
    cell.left_behind = tuple(_left(folder, scratch))
    fault.mend(folder)
    if code == 0:
        cell.wrong_numbers = not _same(job.model, folder / "model.pt")
    else:
        again = Run(job, folder, scratch, resume=True)
        cell.resumed = again.end(_RUN_S) and again.process.returncode == 0 and _same(job.model, folder / "model.pt")
        cell.wrong_numbers = again.process.returncode == 0 and not cell.resumed
    return cell


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
        least = {"first epoch": 0, "middle": epochs // 2, "last epoch": epochs - 1}
        return moment in least and event["epoch"] >= least[moment]
    return kind == "start" and moment == "start"


def _is_one_line(said: list[str]) -> bool:
    own = [line for line in said if line.startswith("gnnplan: ")]
    return len(own) == 1 and said[-1] == own[0] and not any("Traceback" in line for line in said)


def _same(one: Path, other: Path) -> bool:
    first, second = (torch.load(path, weights_only=True) for path in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def _left(folder: Path, scratch: Path) -> list[str]:
    """Processes of the run, temporary files in its folder and elsewhere, and checkpoints that are none."""
    plan = str(folder / "plan.json").encode()
    pids = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _has(path, plan)]
    hidden = [str(path) for path in folder.rglob(".*")] if folder.exists() else []
    halves = [str(path) for path in folder.glob("checkpoints/epoch_*") if not (path / "manifest.json").exists()]
    return [*(f"process {path.parent.name}" for path in pids), *hidden, *halves, *map(str, scratch.iterdir())]


def _has(path: Path, plan: bytes) -> bool:
    try:
        return plan in path.read_bytes().split(b"\0")
    except OSError:
        return False


def kill_worker(_: subprocess.Popen, folder: Path) -> None:
    """The last worker that has begun; before there is one, the run itself waits for it."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        for path in sorted(Path("/proc").glob("[0-9]*/cmdline"), key=lambda path: -int(path.parent.name)):
            if _has(path, str(folder / "plan.json").encode()) and b"torch.distributed.run" not in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
                return
        time.sleep(0.05)


def remove_folder(_: subprocess.Popen, folder: Path) -> None:
    """All of it."""
    shutil.rmtree(folder, ignore_errors=True)


def signalled(number: signal.Signals) -> Callable[[subprocess.Popen, Path], None]:
    """The run is sent a signal."""
    return lambda process, _: process.send_signal(number)
