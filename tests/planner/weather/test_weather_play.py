"""Partial reduce under weather: by hand in small cases, in fair weather the event engine's, always within bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.search import make_plan
from gnnplan.planner.simulator.engine import compile_schedule
from gnnplan.planner.simulator.engine import play as play_tasks
from gnnplan.planner.weather.conditions import fair
from gnnplan.planner.weather.model import MarkovWeather, SleepWeather, WorkerWeather
from gnnplan.planner.weather.partial_epochs import PartialEpochs, Waiting, aligned_sections
from gnnplan.planner.weather.play import figures, replicas_of
from gnnplan.planner.weather.sections import Sections, sections_of
from gnnplan.profiles.errors import UserError

SPEC = SbmGraph(source="sbm", num_nodes=400, average_degree=8, num_classes=4, num_features=24)
GRAPH = generate_sbm(SPEC)


def plan_of(kind="gcn", num_workers=3, *, overlap=False, **job):
    device = DeviceSpec(catalog="t4", count=num_workers)
    alike = {"partitioner": "metis", "balance": "equal", "feature_cache": False, "dependencies": "communicate"}
    pin = PinnedDecisions(num_workers=num_workers, overlap=overlap, **alike)
    spec = Job(graph=SPEC, model=ModelSpec(kind=kind, hidden_channels=16), pin=pin, **job)
    return make_plan(spec, Cluster(hosts=(HostSpec(name="a", devices=(device,)),)), GRAPH)[0]


def asleep(num_workers, num_epochs, sleeps):
    """Fair rates, and these seconds slept by (worker, epoch)."""
    conditions = fair(num_workers, num_epochs)
    for (worker, epoch), seconds in sleeps.items():
        conditions.sleep_s[worker, epoch] = seconds
    return conditions


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "tagcn"])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_a_fair_epoch_is_the_event_engines(kind, num_workers):
    """Every section and every collective is in it, on any number of workers."""
    schedule = lower_plan(plan_of(kind, num_workers))
    sections = sections_of(schedule)
    assert sections.fair_epoch_s == pytest.approx(play_tasks(compile_schedule(schedule)).makespan_s, rel=1e-5)
    assert 0 <= sections.backward < len(sections.compute_s[0]) - 1
    assert aligned_sections(schedule, 3.0).fair_epoch_s == pytest.approx(3.0)


def simple(num_workers=3, transfer_s=0.0):
    """One exchange after a second of work forward, another second backward."""
    return Sections(np.tile([1.0, 1.0, 0.0], (num_workers, 1)), np.array([transfer_s, 0.0]), backward=1)


def play(sections, conditions, waiting):
    """One run."""
    return PartialEpochs(sections, waiting, 1).play(conditions)


def test_partial_reduce_by_hand():
    """Worker 2 sleeps 10 s in epoch 5, half before each pass; alpha 0.5, K 3.

    In epoch 5 the others wait for its rows until 1.5 times the usual second, then go on without it: the epoch takes
    2.5 s. In 6 and 7 they expect nothing of it. In 8 it may not be missing any longer: it began epoch 5 at 10 s, slept
    5, sent its rows at 16, slept 5 more and is ready at 22, where the others are since 18.5.
    """
    run = play(simple(), asleep(3, 11, {(2, 5): 10.0}), Waiting(0.5, 3, 2))
    assert np.cumsum(run.epoch_s).tolist() == [2, 4, 6, 8, 10, 12.5, 14.5, 16.5, 22, 24, 26]
    assert run.num_members.tolist() == [3, 3, 3, 3, 3, 2, 2, 2, 3, 3, 3]
    assert run.oldest.tolist() == [0, 0, 0, 0, 0, 1, 2, 3, 3, 0, 0]


def test_a_short_delay_is_waited_out():
    """Within alpha times the usual nobody is left out."""
    run = play(simple(), asleep(3, 8, {(2, 5): 0.8}), Waiting(0.5, 3, 2))
    np.testing.assert_allclose(run.epoch_s, [2, 2, 2, 2, 2, 2.8, 2, 2])
    assert set(run.num_members.tolist()) == {3}
    assert not run.oldest.any()


def test_without_a_majority_the_others_wait():
    """Two of three asleep."""
    run = play(simple(), asleep(3, 8, {(1, 5): 4.0, (2, 5): 6.0}), Waiting(0.0, 3, 2))
    assert run.epoch_s[5] == 6.0
    assert run.num_members[5] == 2


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(0, 4), st.floats(0, 2), st.integers(0, 2**32 - 1))
def test_bounds_hold_under_any_sleeps(size, max_staleness, alpha, seed):
    """Groups as large as they must be, ages within K, everybody in the warm-up and in the closing."""
    rng = np.random.default_rng(seed)
    min_group = int(rng.integers(1, size + 1))
    num_epochs, closing_epochs = 20, int(rng.integers(1, 8))
    sections = Sections(rng.random((size, 5)), rng.random(4) * 0.2, backward=2)
    conditions = fair(size, num_epochs)
    conditions.sleep_s[:, WARM_UP_EPOCHS:] = rng.exponential(2.0, (size, num_epochs - WARM_UP_EPOCHS))
    conditions.sleep_s[rng.random(conditions.sleep_s.shape) < 0.7] = 0
    run = play(sections, conditions, Waiting(alpha, max_staleness, min_group, closing_epochs))
    assert run.num_members.min() >= min_group
    assert run.oldest.max() <= max_staleness
    assert (run.num_members[:WARM_UP_EPOCHS] == size).all()
    assert (run.num_members[-closing_epochs:] == size).all()
    assert not run.oldest[num_epochs - closing_epochs + 1 :].any()
    assert (run.epoch_s > 0).all()
    if max_staleness == 0:
        assert (run.num_members == size).all()


def test_partial_reduce_hides_the_papers_sleeps():
    """Sleeps of two epochs, a tenth of the time, on four workers: less delay the more epochs may be missed."""
    conditions_of = replicas_of(SleepWeather(sleep_epochs=2.0), 4, 100, 2.0)
    delays_s = [figures(PartialEpochs(simple(4), Waiting(0.1, k, 3), 1), conditions_of, 10).delay_s for k in (0, 1, 3)]
    assert delays_s[0] > delays_s[1] > delays_s[2] >= 0


def test_a_model_of_other_workers_is_refused():
    """It was fitted on another cluster."""
    with pytest.raises(UserError, match="describes 2 workers, the plan has 3"):
        replicas_of(MarkovWeather(workers=(WorkerWeather(),) * 2), 3, 10, 1.0)


def test_before_a_refresh_all_wait_for_all():
    """A sleep of ten seconds is gone on without for the rest of the interval, and no longer."""
    run = play(simple(), asleep(3, 12, {(2, 4): 10.0}), Waiting(0.5, 5, 2, 1, 3))
    assert run.num_members.tolist() == [3, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3, 3]


def test_of_a_run_that_is_played_in_part_as_many_fewer_epochs_close():
    """A tenth of the run waits for everybody at its end, whatever part of it is played."""
    conditions = asleep(3, 20, {(2, epoch): 8.0 for epoch in (6, 12, 19)})
    waiting = Waiting(0.5, 3, 2, closing_epochs=10)
    whole = PartialEpochs(simple(), waiting, 20).play(conditions)
    part = PartialEpochs(simple(), waiting, 100).play(conditions)
    assert whole.num_members[12] == 3
    assert part.num_members[12] == 2
    assert part.num_members[-2:].tolist() == [3, 3]
