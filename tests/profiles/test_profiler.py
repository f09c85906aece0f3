"""Profiling: every figure comes with its repeats, spread and provenance, over a full grid."""

import numba
import pytest
import torch

from gnnplan.profiles import profiler
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.cgroups import CoreLimit
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.grids import GRIDS, QUICK, Grid
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.operators import OPERATORS
from gnnplan.profiles.profiler import measure_as_worker, num_cores, num_usable_cores, profile_machine

TINY = Grid(
    axes={axis: (2.0, 8.0) if axis == "num_classes" else (256.0, 512.0) for axis in QUICK.axes}
    | {"degree": (0.25, 2.0)},
    collective_bytes=(4.0,),
    budget_s=1e-4,
)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def events(monkeypatch):
    sent = []
    monkeypatch.setattr(profiler, "emit", sent.append)
    return sent


@pytest.fixture
def profile(monkeypatch, no_gpu, events):
    """A profile of this process alone on a grid of two values an axis."""
    threads = torch.get_num_threads()
    # Numba's OpenMP layer sets torch's thread count too, so a worker is given both alike.
    shared = numba.get_num_threads()
    monkeypatch.setitem(GRIDS, "tiny", TINY)
    places = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "GROUP_RANK": 0}
    for key, value in {**places, "OMP_NUM_THREADS": shared}.items():
        monkeypatch.setenv(key, str(value))
    yield measure_as_worker("tiny")
    torch.set_num_threads(threads)


@pytest.mark.long
def test_real_profile_is_complete(profile, events, tmp_path):
    """One measurement: full grids of measured points, this machine's facts, a progress event a point, a round trip."""
    on_cpu = [name for name, operator in OPERATORS.items() if not operator.cuda_only]
    assert set(profile.operators) == set(on_cpu)
    for name, table in profile.operators.items():
        assert table.axes == OPERATORS[name].axes
        assert [point.shape for point in table.points] == TINY.shapes(name)
        for point in table.points:
            assert point.provenance == "measured"
            assert point.median_s > 0
            assert point.repeats >= 3
    assert any(point.spread_s > 0 for table in profile.operators.values() for point in table.points)
    assert (profile.device_kind, profile.num_threads, profile.num_workers_beside) == ("cpu", numba.get_num_threads(), 1)
    assert profile.collectives == ()
    assert 2**26 < profile.process_base_bytes < profile.memory_bytes
    more = (profile.compiled_kernel_bytes, profile.half_kernel_bytes, profile.optimizer_class_bytes, profile.pyg_bytes)
    assert min(more) >= 0
    assert profile.host_overhead_s > 0
    assert profile.software["torch"] == torch.__version__
    assert 0 <= profile.others_share <= 1
    assert len(profile.anchors) == 6
    assert all(anchor.first_s > 0 and anchor.again_s > 0 for anchor in profile.anchors)
    points = sum(len(TINY.shapes(name)) for name in on_cpu)
    assert [event["done"] for event in events] == list(range(1, points + 1))
    assert {event["of"] for event in events} == {points}
    assert MachineProfile.load(profile.save(tmp_path / "here.json")) == profile


def test_more_workers_than_cores_are_refused(no_gpu):
    """The error says how many were asked for and how many there are."""
    cores = num_cores()
    with pytest.raises(UserError, match=f"{cores + 1} workers asked for, this machine has {cores} cores"):
        profile_machine(num_workers=cores + 1)


@pytest.mark.parametrize(("quick", "grid"), [(True, "quick"), (False, "full")])
def test_workers_share_the_cores(monkeypatch, no_gpu, quick, grid):
    """Two workers on five cores are started with two threads each, on the grid asked for."""
    started = {}

    def launch(module, arguments, **options):
        started.update(options, module=module, grid=arguments[-1])
        raise InterruptedError

    monkeypatch.setattr(profiler, "launch", launch)
    monkeypatch.setattr(profiler, "num_usable_cores", lambda: 5)
    with pytest.raises(InterruptedError):
        profile_machine(quick=quick)
    assert (started["module"], started["grid"]) == ("gnnplan.profiles.worker", grid)
    assert started["hosts"] == [HostGroup(2, threads=2)]


def test_a_quota_bounds_threads_and_no_workers(monkeypatch, no_gpu):
    """In a container with the time of one core of four, two workers may be asked for; each has a thread."""
    started = {}

    def launch(module, arguments, **options):
        started.update(options)
        raise InterruptedError

    monkeypatch.setattr(profiler, "launch", launch)
    monkeypatch.setattr(profiler, "num_cores", lambda: 4)
    monkeypatch.setattr(profiler, "core_limit", lambda: CoreLimit(1.5, 0.1))
    assert num_usable_cores() == 1
    with pytest.raises(InterruptedError):
        profile_machine(num_workers=2)
    assert started["hosts"] == [HostGroup(2, threads=1)]


def test_progress_is_told(monkeypatch, no_gpu):
    """on_progress hears (done, of) of the workers' point events and of no other event."""
    heard = []

    def launch(module, arguments, *, on_event, **options):
        on_event({"event": "other"})
        on_event({"event": "point", "done": 3, "of": 9})
        raise InterruptedError

    monkeypatch.setattr(profiler, "launch", launch)
    with pytest.raises(InterruptedError):
        profile_machine(num_workers=1, on_progress=lambda done, of: heard.append((done, of)))
    assert heard == [(3, 9)]
