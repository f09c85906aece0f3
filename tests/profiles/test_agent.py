"""Workers are forked from an agent that has imported what they need; where they cannot be, torchrun starts them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gnnplan.profiles.agent import is_open
from gnnplan.profiles.agents import HostGroup, workers_of
from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.launch import launch

SLOW = "import os\nIMPORTED_BY = os.getpid()\n"
WORKER = """
import os, sys
from pathlib import Path
from gnnplan.profiles.launch import emit, reporting_errors

IMPORTS = ("slow_to_import",)

rank = int(os.environ["RANK"])
with reporting_errors(Path(sys.argv[1]), rank):
    import slow_to_import
    emit({
        "rank": rank, "name": __name__, "imported_by": slow_to_import.IMPORTED_BY, "own": os.getpid(),
        "agent": os.getppid(), "session": os.getsid(0), "local": os.environ["LOCAL_RANK"],
        "called": Path("/proc/self/comm").read_text().strip(), "words": sys.argv[1:],
    })
"""


def started(folder, *, slow=SLOW, variables=None):
    """Events of two workers, by rank."""
    (folder / "forked_worker.py").write_text(WORKER)
    (folder / "slow_to_import.py").write_text(slow)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    events = []
    launch(
        "forked_worker",
        [str(folder)],
        hosts=[HostGroup(2)],
        folder=folder,
        on_event=events.append,
        environment={"PYTHONPATH": path, **(variables or {})},
    )
    return sorted(events, key=lambda event: event["rank"])


@pytest.mark.distributed
def test_what_workers_import_is_imported_once(tmp_path):
    """By the agent; each is its child, in a session of its own, and is called by its rank."""
    events = started(tmp_path)
    assert [event["rank"] for event in events] == [0, 1]
    for event in events:
        assert event["imported_by"] == event["agent"]
        assert event["session"] == event["own"]
        assert event["name"] == "__main__"
        assert event["local"] == str(event["rank"])
        assert event["called"] == f"gnnplan:{event['rank']}"
        assert event["words"] == [str(tmp_path)]
    assert workers_of(tmp_path) == {}


@pytest.mark.long
@pytest.mark.distributed
def test_an_import_that_fails_is_a_workers_error(tmp_path):
    """As if nobody had tried before."""
    with pytest.raises(RunFailedError, match="ImportError: no shelf"):
        started(tmp_path, slow="raise ImportError('no shelf')")


@pytest.mark.long
@pytest.mark.distributed
def test_where_output_goes_elsewhere_torchrun_starts_them(tmp_path):
    """It knows how to redirect, or to have output in two places."""
    events = started(tmp_path, variables={"PET_TEE": "3"})
    assert [event["imported_by"] for event in events] == [event["own"] for event in events]


@pytest.mark.long
@pytest.mark.distributed
def test_workers_that_wait_go_with_their_agent(tmp_path):
    """It ends before there is a place for them, for the first host's agent does not come."""
    (tmp_path / "forked_worker.py").write_text(WORKER)
    (tmp_path / "slow_to_import.py").write_text(SLOW)
    arguments = ["--nnodes=2", "--rdzv-backend=gnnplan-loopback", "--rdzv-endpoint=127.0.0.1:29999"]
    arguments += ["--rdzv-conf=rank=1", "--nproc-per-node=2", "--max-restarts=0", "-m", "forked_worker", str(tmp_path)]
    agent = subprocess.Popen(
        [sys.executable, "-P", "-m", "gnnplan.profiles.agent", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    try:
        waiting = _waiting(agent.pid, 2)
        assert workers_of(tmp_path) == {}
    finally:
        agent.kill()
        agent.wait()
    until_s = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in waiting) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in waiting)


def _waiting(agent, wanted):
    """Children of an agent that wait."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        children = [int(word) for word in Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]
        names = [Path(f"/proc/{child}/comm").read_text().strip() for child in children]
        if names == ["gnnplan:waits"] * wanted:
            return children
        time.sleep(0.05)
    raise AssertionError("no workers wait")


ASKING = """
import os, sys
import torch

def ask(*_):
    asked.append(os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"))
    return 0

asked = []
for name in {"_cuda_init", "_cuda_getDeviceCount"} & set(dir(torch._C)):
    setattr(torch._C, name, lambda *_: asked.append("begun") or 0)
torch.cuda.device_count = torch.cuda.is_available = ask
from gnnplan.profiles.agent import import_for
assert not set(sys.argv[2:]) & set(sys.modules)
import_for(sys.argv[1])
assert set(sys.argv[2:]) <= set(sys.modules)
assert set(asked) <= {"1"}, asked
assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("gnnplan.runtime", "gnnplan.runtime.worker"),
        ("gnnplan.runtime.mini_batch", "gnnplan.runtime.mini_batch.measure"),
        ("gnnplan.runtime.inference", "gnnplan.runtime.inference.worker"),
        ("gnnplan.runtime.pilot", "gnnplan.runtime.pilot.train"),
        ("gnnplan.profiles.worker", "gnnplan.profiles.profiler"),
    ],
)
def test_our_workers_imports_do_not_begin_with_cuda(module, imported):
    """What asks for it, asks NVML."""
    command = [sys.executable, "-c", ASKING, module, imported]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_file_that_is_open_is_found(tmp_path):
    """By its name, until it is closed."""
    with (tmp_path / "device").open("w") as device:
        assert is_open(device.name)
    assert not is_open(device.name)
