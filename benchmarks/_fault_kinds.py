"""The faults of the matrix: what is done to a run, with which codes it may end, and what mends it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer

from benchmarks._fault_cells import NAN, Fault, Run, agents_of, send
from gnnplan.planner.emulation import kernel
from gnnplan.profiles.agents import workers_of
from gnnplan.profiles.folder import LOCK_FILE

EMULATED = "emulated cluster"
_BEGINS_S = 30.0
_CUT_S = 5.0
_HELD_UP_S = 20.0
_REFUSED_S = 40.0


def _pid(run: Run, *, agents: bool = False) -> int | None:
    """The last worker, or agent, that has begun; before there is one, the run itself waits for it."""
    until_s = time.monotonic() + _BEGINS_S
    while time.monotonic() < until_s and run.process.poll() is None:
        if found := agents_of(run.folder) if agents else list(workers_of(run.folder).values()):
            return found[-1]
        time.sleep(0.05)
    return None


def _sends(number: signal.Signals, *, agents: bool = False) -> Callable[[Run], None]:
    def strike(run: Run) -> None:
        if pid := _pid(run, agents=agents):
            send(pid, number)

    return strike


def _stop_for_a_while(run: Run) -> None:
    if pid := _pid(run):
        send(pid, signal.SIGSTOP)
        Timer(_HELD_UP_S, send, (pid, signal.SIGCONT)).start()


def _tells(number: signal.Signals) -> Callable[[Run], None]:
    return lambda run: run.process.send_signal(number)


def _leave_no_memory(run: Run) -> None:
    if pid := _pid(run):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        most = pages * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def _run_beside(run: Run) -> str | None:
    if run.process.poll() is not None:
        return None
    other = Run(run.plan, run.folder, run.scratch)
    has_ended, held = other.end(_REFUSED_S), run.process.poll() is None
    if not held or (has_ended and other.process.returncode == 2 and "gnnplan: " in other.said[-1]):
        return None
    return f"the second run ended with {other.process.returncode}: {other.said[-1:]}"


def _remove_folder(run: Run) -> None:
    shutil.rmtree(run.folder, ignore_errors=True)


def _fill_disk(run: Run) -> None:
    with (run.folder / "filler").open("wb", buffering=0) as sink:
        try:
            while True:
                sink.write(bytes(2**12))
        except OSError:
            return


def _empty_disk(folder: Path) -> None:
    (folder / "filler").unlink(missing_ok=True)


def _cut_link(for_s: float | None) -> Callable[[Run], None]:
    """That of the last host, for so long or for good (None). The emulation is named after the process of the run."""

    def strike(run: Run) -> None:
        host = f"gnnplan{run.process.pid}-1"
        _set_link(host, "down")
        if for_s is not None:
            Timer(for_s, _set_link, (host, "up")).start()

    return strike


def _set_link(host: str, how: str) -> None:
    subprocess.run(["ip", "-n", host, "link", "set", kernel.INTERFACE, how], check=False)


def _forbid_writing(run: Run) -> None:
    _set_immutable(run.folder, "+i")


def _allow_writing(folder: Path) -> None:
    _set_immutable(folder, "-i")


def _set_immutable(folder: Path, how: str) -> None:
    """Of folders: Linux remounts none read-only while files in it are written. These refuse to have files made."""
    inside = [each for each in (folder, folder / "checkpoints", folder / "shards") if each.exists()]
    subprocess.run(["chattr", how, *map(str, inside)], stderr=subprocess.DEVNULL, check=False)


FAULTS = (
    Fault("link down for good", _cut_link(None), (1,), on_link=True),
    Fault("link down 5 s", _cut_link(_CUT_S), (0,), lasts_s=_CUT_S, on_link=True),
    Fault("SIGKILL", _sends(signal.SIGKILL), (1,), on_hosts=True),
    Fault("SIGTERM", _tells(signal.SIGTERM), (143,), on_hosts=True),
    Fault("agent killed", _sends(signal.SIGKILL, agents=True), (1,), on_hosts=True),
    Fault("SIGSTOP for good", _sends(signal.SIGSTOP), (1,), on_hosts=True),
    Fault("SIGSTOP 20 s", _stop_for_a_while, (0,), lasts_s=_HELD_UP_S),
    Fault("two runs at once", _run_beside, (0,)),
    Fault("out of memory", _leave_no_memory, (0, 1)),
    Fault("agent stopped", _sends(signal.SIGSTOP, agents=True), (0, 1), on_hosts=True),
    Fault("SIGINT", _tells(signal.SIGINT), (130,), on_hosts=True),
    Fault(NAN, lambda _: None, (1,)),
    Fault("folder removed", _remove_folder, (1, 2)),
    Fault("disk full", _fill_disk, (1, 2), _empty_disk, on_small_disk=True),
    Fault("read-only", _forbid_writing, (1, 2), _allow_writing, stays=(LOCK_FILE, "epoch_*")),
)


def can_come(fault: Fault, moment: str, kind: str) -> bool:
    """Whether a fault can be played at a moment of a kind of run."""
    if fault.name == NAN:
        return moment == "first epoch" and kind != EMULATED  # it comes of itself
    return fault.on_link or fault.on_hosts if kind == EMULATED else not fault.on_link


def is_root() -> bool:
    """Whether this process can give a run a disk of its own, or hosts."""
    return os.geteuid() == 0
