"""Runs in which a worker stops or a host's link goes down: gone on with where that ends, else ended by a name."""

import os
import re
import signal
from functools import partial

import pytest
from emulating import needs_emulation, remains
from faulty import NUM_WORKERS, K, Once, check_nothing_stays, each_of, hosts_up, plan_on, send, set_link, undone_later

from gnnplan.planner import api
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.profiles.errors import RunFailedError

pytestmark = pytest.mark.distributed

EPOCHS, FOR_EVER, TIMEOUT_S = 400, 1_000_000, 10.0  # also of the start, where workers come one after another
STOPPED_S = 2.0  # hundreds of epochs, and some where the machine is busy
SEVERAL = (10, 100, 190)  # a worker that stops amid a step all have joined is waited for, but hardly each time
LONG = pytest.mark.skipif("GNNPLAN_LONG_TESTS" not in os.environ, reason="takes long; set GNNPLAN_LONG_TESTS to run it")


def check_went_on(trace):
    """The others stepped without it, waited once what they have of it was K old, and end with everybody.

    That may be less than K steps: where its last step but one had gone without it, it never sent that epoch's rows.
    """
    assert len(trace.losses) == len(trace.num_members) == EPOCHS
    assert min(trace.num_members) == NUM_WORKERS - 1
    assert max(trace.oldest) == K
    assert {*trace.num_members[:WARM_UP_EPOCHS], trace.num_members[-1]} == {NUM_WORKERS}
    assert trace.losses[-1] < trace.losses[0]


@pytest.mark.long
@pytest.mark.parametrize("stopped_s", [STOPPED_S, pytest.param(20.0, marks=LONG)])
def test_a_worker_that_is_stopped_for_a_while_is_taken_back(tmp_path, stopped_s):
    """The others go on as far as K allows, and wait for it then: for longer than hundreds of epochs."""
    _, plan = plan_on(tmp_path, 1, partial=True, epochs=EPOCHS)
    run = tmp_path / "run"
    with undone_later() as later:

        def stop():
            send(run, 2, signal.SIGSTOP)
            later(stopped_s, partial(send, run, 2, signal.SIGCONT))

        stopping = [Once(stop, epoch) for epoch in SEVERAL]
        trace = api.run(plan, run, timeout_s=60, on_event=each_of(stopping))
    assert all(once.is_done for once in stopping)
    check_went_on(trace)


@pytest.mark.long
def test_a_worker_that_is_killed_ends_the_run_by_its_name(tmp_path):
    """At once, in the midst of training; nothing of the run is left but an earlier model."""
    _, plan = plan_on(tmp_path, 1, partial=True, epochs=FOR_EVER)
    run = tmp_path / "run"
    killing = Once(partial(send, run, 2, signal.SIGKILL))
    with pytest.raises(RunFailedError, match="worker 2 was ended by SIGKILL"):
        api.run(plan, run, timeout_s=60, on_event=killing)
    check_nothing_stays(run)


@pytest.mark.long
@needs_emulation
def test_a_host_whose_link_is_down_for_a_while_is_taken_back(tmp_path, monkeypatch):
    """As a worker that is stopped; what it sends and is sent meanwhile is not lost but late."""
    cluster, plan = plan_on(tmp_path, NUM_WORKERS, partial=True, epochs=EPOCHS)
    with hosts_up(cluster, monkeypatch) as identity, undone_later() as later:

        def unplug():
            set_link(identity, 2, "down")
            later(STOPPED_S, partial(set_link, identity, 2, "up"))

        unplugging = [Once(unplug, epoch) for epoch in SEVERAL]
        trace = api.run(plan, tmp_path / "run", timeout_s=60, on_event=each_of(unplugging))
    assert all(once.is_done for once in unplugging)
    check_went_on(trace)
    assert remains(identity) == []


@pytest.mark.long
@needs_emulation
@pytest.mark.parametrize("is_partial", [True, pytest.param(False, marks=LONG)], ids=["partial", "halo-exchange"])
def test_a_worker_that_stays_stopped_ends_the_run_by_its_name(tmp_path, monkeypatch, is_partial):
    """After the timeout; the stopped one is ended too."""
    cluster, plan = plan_on(tmp_path, NUM_WORKERS, partial=is_partial, epochs=FOR_EVER)
    run = tmp_path / "run"
    stopping = Once(partial(send, run, 2, signal.SIGSTOP))
    with hosts_up(cluster, monkeypatch) as identity:
        with pytest.raises(RunFailedError, match="worker 2") as raised:
            api.run(plan, run, timeout_s=TIMEOUT_S, on_event=stopping)
        check_nothing_stays(run)
    check_names_only(2, raised)
    assert remains(identity) == []


@pytest.mark.long
@needs_emulation
@pytest.mark.parametrize(
    ("is_partial", "lost"),
    [(True, 2), pytest.param(True, 0, marks=LONG), pytest.param(False, 2, marks=LONG)],
    ids=["partial", "partial-first-host", "halo-exchange"],
)
def test_a_host_whose_link_stays_down_ends_the_run_by_its_workers_name(tmp_path, monkeypatch, is_partial, lost):
    """After the timeout; also where that host holds what groups are written to."""
    cluster, plan = plan_on(tmp_path, NUM_WORKERS, partial=is_partial, epochs=FOR_EVER)
    run = tmp_path / "run"
    with hosts_up(cluster, monkeypatch) as identity:
        unplugging = Once(partial(set_link, identity, lost, "down"))
        with pytest.raises(RunFailedError, match=f"worker {lost}") as raised:
            api.run(plan, run, timeout_s=TIMEOUT_S, on_event=unplugging)
        check_nothing_stays(run)
    check_names_only(lost, raised)
    assert remains(identity) == []


def check_names_only(rank, raised):
    """The first worker that the message names is the one, and the run did not end for another reason."""
    assert re.findall(r"worker (\d)", str(raised.value))[0] == str(rank)
    assert re.search("Timed out|hears from no other", str(raised.value))
