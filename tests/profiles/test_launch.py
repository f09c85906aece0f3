"""Workers by torchrun: events come through, a failure is named once, and nothing is left behind."""

import json
import os
import tempfile
import time
from collections import deque
from pathlib import Path

import pytest

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import NoPlanFitsError, RunFailedError, UserError
from gnnplan.profiles.launch import (
    HOSTS_VARIABLE,
    _first_cause,
    _first_death,
    _loss,
    _was_missed,
    hosts_here,
    launch,
    reporting_errors,
)

pytestmark = pytest.mark.distributed

HEAD = """
import json, os, signal, sys, time
from pathlib import Path
from gnnplan.profiles.launch import emit, reporting_errors
rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(sys.argv[1])
"""
JOIN = """
    from datetime import timedelta
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    dist.barrier()
"""


@pytest.fixture
def run(tmp_path):
    """Writes a worker module and launches it; returns the events it sent."""

    def start(body, *, num_workers=2, threads=1, name="a_worker", **options):
        code = tmp_path / "code"
        code.mkdir(exist_ok=True)
        (code / f"{name}.py").write_text(HEAD + body)
        folder, events = tmp_path / "run", []
        options.setdefault("on_event", events.append)
        paths = [str(code), os.environ.get("PYTHONPATH", "")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **options.pop("environment", {})}
        launch(
            name,
            [str(folder)],
            hosts=[HostGroup(num_workers, threads)],
            folder=folder,
            environment=environment,
            **options,
        )
        return events

    return start


def is_running(pid):
    """Whether a process lives (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone_within(pids, seconds):
    """Waits until none of the processes lives; False where one still does after `seconds`."""
    end_s = time.monotonic() + seconds
    while any(map(is_running, pids)):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.long
def test_events_are_relayed_and_the_rest_is_logged(run, tmp_path):
    """Every worker's events arrive as they were sent; its other output goes to workers.log only.

    What they tell is that they got the threads asked for, whatever the parent's environment says.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "PYTHONSAFEPATH")
    body = f"""
nested = [1, {{"threads": [os.environ.get(name) for name in {names}]}}]
emit({{"rank": rank, "size": size, "nested": nested}})
print("plain words", rank)
"""
    events = run(body, threads=3, environment={"OMP_NUM_THREADS": "7"})
    assert sorted(events, key=lambda event: event["rank"]) == [
        {"rank": rank, "size": 2, "nested": [1, {"threads": ["3", "3", "3", "1"]}]} for rank in (0, 1)
    ]
    log = (tmp_path / "run" / "workers.log").read_text()
    assert "plain words 0" in log
    assert "plain words 1" in log
    assert "nested" not in log


@pytest.mark.long
def test_temporary_files_of_workers_are_removed(run, tmp_path, monkeypatch):
    """What torchrun and the workers leave there, also after a failure."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    body = """
import tempfile
handle, path = tempfile.mkstemp()
emit({"path": path})
with reporting_errors(folder, rank):
    raise ValueError("left behind")
"""
    events = []
    with pytest.raises(RunFailedError, match="left behind"):
        run(body, on_event=events.append)
    assert events
    assert all(Path(event["path"]).is_relative_to(temporary) for event in events)
    assert not list(temporary.iterdir())


def test_raising_worker_is_named_not_its_peers(run, tmp_path):
    """The message has the rank and the error of the worker that failed first, not the peers' lost connection."""
    body = f"""
with reporting_errors(folder, rank):
{JOIN}
    if rank == 1:
        raise ValueError("the seventh shelf is empty")
    dist.all_reduce(torch.zeros(4))
"""
    with pytest.raises(RunFailedError, match="worker 1 failed: ValueError: the seventh shelf is empty"):
        run(body)
    report = json.loads((tmp_path / "run" / "worker_1.error.json").read_text())
    assert "raise ValueError" in report["traceback"]


def test_killed_worker_ends_the_run(run):
    """A worker killed without a word while its peer waits in a collective fails the run, peer included."""
    body = f"""
emit({{"pid": os.getpid()}})
with reporting_errors(folder, rank):
{JOIN}
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.zeros(4))
    time.sleep(600)
"""
    events = []
    with pytest.raises(RunFailedError, match="worker 1 was ended by SIGKILL"):
        run(body, on_event=events.append)
    assert len(events) == 2
    assert gone_within([event["pid"] for event in events], 20)


@pytest.mark.long
def test_module_that_does_not_exist_is_explained(run, tmp_path):
    """Workers that cannot even start give the last line of their output and where the log is."""
    with pytest.raises(RunFailedError, match=r"could not be started .*workers\.log"):
        launch("no_such_module_here", [], hosts=[HostGroup(1)], folder=tmp_path)


def test_error_reports_of_an_earlier_run_are_cleared(run, tmp_path):
    """A stale report in the folder is not blamed for a later success."""
    (tmp_path / "run").mkdir()
    stale = tmp_path / "run" / "worker_0.error.json"
    stale.write_text("{}")
    run("pass", num_workers=1)
    assert not stale.exists()


@pytest.mark.long
def test_a_worker_that_is_ended_while_it_reports_is_named(run, tmp_path):
    """A report is there whole or not at all, and nothing of one stays."""
    body = """
if rank == 1:
    def ended(*_): os.kill(os.getpid(), signal.SIGKILL)
    json.dumps = ended  # after the file was made, and before anything is in it
with reporting_errors(folder, rank):
    if rank == 1:
        raise ValueError("the seventh shelf is empty")
    time.sleep(600)
"""
    with pytest.raises(RunFailedError, match="worker 1 was ended by SIGKILL without an error of its own"):
        run(body)
    assert not [*(tmp_path / "run").glob("worker_*")]


LISTED = """
  rank      : {} (local_rank: {})
  exitcode  : -{} (pid: 22153)  (SIG...)
  error_file: <N/A>"""


@pytest.mark.parametrize(
    ("deaths", "reporting", "expected"),
    [
        ([(0, 15), (1, 9)], [], (1, "SIGKILL")),
        ([(1, 9), (0, 6)], [0], (1, "SIGKILL")),  # the peer's abort was seen first, and is no cause
        ([(2, 15), (1, 9), (0, 6)], [], (0, "SIGABRT")),
        ([(0, 15)], [], (0, "SIGTERM")),
        ([(0, 6)], [0], None),
        ([(0, 40)], [], (0, "signal 40")),  # a real-time one
        ([], [], None),
    ],
)
def test_of_several_deaths_the_first_is_named(deaths, reporting, expected):
    """torchrun lists its cause last; a worker that said that it lost a peer is not one, nor who was told to stop."""
    tail = deque("".join(LISTED.format(rank, rank, number) for rank, number in deaths).splitlines())
    assert _first_death(tail, set(reporting)) == expected


@pytest.mark.parametrize(
    ("missing", "first"),
    [
        ([(), (), ()], 1),  # nobody is named: the first report
        ([(2,), (2,), (0,)], 1),  # the third is the one that lost its link
        ([(1, 2), (0,), (0,)], 1),
        ([(), (0,), ()], 1),
        ([(0,), (), ()], 0),
        ([(2,), (0, 2), ()], 0),  # the first report misses who itself waits for 2
    ],
)
def test_of_several_losses_the_one_that_most_report_is_told(missing, first):
    """Reports come in the order 1, 2, 0."""
    reports = [{"rank": rank, "at_s": (rank - 1) % 3, "missing": list(ranks)} for rank, ranks in enumerate(missing)]
    assert _loss(reports)["rank"] == first


@pytest.mark.parametrize(
    ("end", "missing", "error", "was_missed"),
    [
        ("SIGTERM", [2], "Connection closed by peer", True),
        ("SIGTERM", [], "Connection closed by peer", False),
        ("SIGKILL", [2], "worker 2 does not answer: Timed out waiting", True),
        ("SIGKILL", [2], "worker 2 does not answer: Connection closed by peer", False),  # it was killed
        ("SIGKILL", [2], "worker 2 does not answer: Application timeout caused pair closure", True),
        ("SIGKILL", [0], "worker 0 does not answer: Timed out waiting", False),
        ("SIGSEGV", [2], "worker 2 does not answer: Timed out waiting", False),
    ],
)
def test_a_worker_that_torchrun_ends_after_the_others_was_missed(end, missing, error, was_missed):
    """How worker 2 ended is no cause then: by SIGTERM, or by SIGKILL where it was stopped."""
    reports = [{"rank": 1, "missing": [], "error": error}, {"rank": 0, "missing": missing, "error": error}]
    assert _was_missed(2, end, reports) == was_missed


class Interrupted(KeyboardInterrupt):
    """Stands for Ctrl-C."""


@pytest.mark.long
def test_interrupted_launch_leaves_no_process(run):
    """When the launcher is interrupted, workers that would never answer are gone when it returns."""
    pids = []

    def on_event(event):
        pids.extend([event["pid"], event["parent"]])
        if len(pids) == 4:
            raise Interrupted

    with pytest.raises(Interrupted):
        run('emit({"pid": os.getpid(), "parent": os.getppid()})\ntime.sleep(600)\n', on_event=on_event)
    assert len(set(pids)) == 3
    assert gone_within(pids, 20)


@pytest.mark.long
def test_interrupted_launch_stops_workers_that_ignore_the_request(run, monkeypatch):
    """A worker that ignores SIGTERM is gone too: nothing is left behind on any way out."""
    monkeypatch.setattr("gnnplan.profiles.agents._GRACE_S", 1.0)
    pids = []

    def on_event(event):
        pids.append(event["pid"])
        raise Interrupted

    body = 'signal.signal(signal.SIGTERM, signal.SIG_IGN)\nemit({"pid": os.getpid()})\ntime.sleep(90)\n'
    with pytest.raises(Interrupted):
        run(body, num_workers=1, on_event=on_event)
    assert len(pids) == 1
    try:
        assert gone_within(pids, 5)
    finally:
        if is_running(pids[0]):
            os.kill(pids[0], 9)


@pytest.mark.long
def test_folders_of_the_user_do_not_shadow_ours(run, tmp_path, monkeypatch):
    """Workers started where a folder `gnnplan` lies, or one named as a part of it, still import the installed one."""
    here = tmp_path / "project"
    for name in ("gnnplan", "planner", "runtime", "profiles", "torch"):
        (here / name).mkdir(parents=True)
        (here / name / "__init__.py").write_text("raise RuntimeError('the wrong folder was imported')\n")
    monkeypatch.chdir(here)
    body = """
import gnnplan.planner.job as job, gnnplan.runtime as runtime, gnnplan.profiles.machine as machine
emit({"files": [module.__file__ for module in (job, runtime, machine)], "cwd": os.getcwd()})
"""
    (event,) = run(body, num_workers=1)
    assert event["cwd"] == str(here)
    assert not any(file.startswith(str(here)) for file in event["files"])


@pytest.mark.long
@pytest.mark.parametrize("kind", [UserError, NoPlanFitsError])
def test_a_users_mistake_or_want_of_memory_stays_one(run, tmp_path, kind):
    """What a worker finds wrong with its input, or too large, is told in its own words, which are all there is."""
    body = f"""
from gnnplan.profiles.errors import {kind.__name__}
with reporting_errors(folder, rank):
    raise {kind.__name__}("graph.npz: no such file")
"""
    with pytest.raises(kind, match=r"^graph\.npz: no such file$"):
        run(body)
    assert not list((tmp_path / "run").iterdir())


def raised_from(error, cause):
    """The error as `raise error from cause` leaves it."""
    error.__cause__ = cause
    return error


CLOSED = RuntimeError("Connection closed by peer [127.0.0.1]")
NCCL = "NCCL error in: ProcessGroupNCCL.cpp:3690, {}, NCCL version 2.27.3\n{}"


@pytest.mark.parametrize(
    ("error", "is_lost_peer"),
    [
        (CLOSED, True),
        (raised_from(RunFailedError("train of batch 3 failed"), CLOSED), True),
        (raised_from(RunFailedError("train of batch 3 failed"), RuntimeError("illegal memory access")), False),
        (RunFailedError("train of batch 3 failed: Connection closed by peer"), False),
        (ValueError("Connection reset"), False),
        (RuntimeError(NCCL.format("remote process exited or there was a network error", "ncclRemoteError: ...")), True),
        (RuntimeError("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"), True),
        (RuntimeError("NCCL communicator was aborted on rank 1."), True),
        (RuntimeError(NCCL.format("invalid usage", "ncclInvalidUsage: ... Duplicate GPU detected")), False),
        (RuntimeError(NCCL.format("unhandled cuda error", "ncclUnhandledCudaError: ... out of memory")), False),
    ],
)
def test_report_marks_a_lost_peer(tmp_path, error, is_lost_peer):
    """A RuntimeError of a closed connection is the peer's fault, also where it is what another error was raised from.

    Any other, NCCL's among them, is the worker's own.
    """
    with pytest.raises(SystemExit), reporting_errors(tmp_path, 0):
        raise error
    report = json.loads((tmp_path / "worker_0.error.json").read_text())
    assert report["from_peer"] == is_lost_peer
    assert report["error"] == f"{type(error).__name__}: {error}"
    assert report["users_mistake"] is None


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """Two hosts that this process takes for those of an emulated cluster around it; the file that names them."""
    path = tmp_path / "hosts.json"
    entries = [
        {"name": name, "address": f"10.0.0.{index}", "interface": "eth0", "prefix": ["env", name]}
        for index, name in enumerate(("a", "b"), 1)
    ]
    path.write_text(json.dumps(entries))
    monkeypatch.setenv(HOSTS_VARIABLE, str(path))
    return path


def test_hosts_of_an_emulated_cluster_are_reached_through_their_prefix(emulated):
    """Several by their addresses; one alone too is started where it is emulated, and meets on loopback there."""
    assert hosts_here({"b": 1, "a": 2}, 3) == [
        HostGroup(1, 3, ("env", "b"), "10.0.0.2", "eth0"),
        HostGroup(2, 3, ("env", "a"), "10.0.0.1", "eth0"),
    ]
    assert hosts_here({"b": 2}, 3) == [HostGroup(2, 3, ("env", "b"), "127.0.0.1", "lo")]
    assert [group.threads for group in hosts_here({"b": 1, "a": 2}, {"a": 4, "b": 1})] == [1, 4]
    assert [group.threads for group in hosts_here({"b": 1}, {"a": 4, "b": 2})] == [2]


def test_one_host_that_is_not_emulated_is_this_machine(emulated, monkeypatch):
    """Whatever its name, inside an emulation or not; several that are not known are named."""
    assert hosts_here({"here": 2}, 1) == [HostGroup(2)]
    with pytest.raises(UserError, match="2 hosts are needed and c cannot be reached"):
        hosts_here({"a": 1, "c": 1}, 1)
    monkeypatch.delenv(HOSTS_VARIABLE)
    assert hosts_here({"a": 2}, 1) == [HostGroup(2)]


def test_an_emulation_that_has_ended_is_not_run_outside_of(emulated):
    """The variable stands, its file is gone."""
    emulated.unlink()
    with pytest.raises(UserError, match="the emulation has ended"):
        hosts_here({"a": 1}, 1)


def test_an_error_that_cannot_be_reported_to_the_folder_is_said(tmp_path, capsys):
    """It is gone, full or read-only, which may be what ended the worker: its own line comes through the output."""
    with pytest.raises(SystemExit), reporting_errors(tmp_path / "gone", 1):
        raise PermissionError(1, "Operation not permitted", "measured.json")
    said = capsys.readouterr().err.splitlines()
    assert "worker 1: PermissionError: [Errno 1] Operation not permitted: 'measured.json'" in said[-1]
    assert "cannot be written: No such file or directory" in said[-1]
    lost = "worker 0: RuntimeError: Connection closed by peer (no report)"
    cause = _first_cause(tmp_path, 1, deque([lost, *said, "======="]))
    assert str(cause).startswith("worker 1: PermissionError")
    assert str(_first_cause(tmp_path, 1, deque([lost, "======="]))).startswith("worker 0: RuntimeError")
