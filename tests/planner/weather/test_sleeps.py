"""Injected sleeps: the paper's two settings, drawn alike wherever and however long."""

import numpy as np
import pytest

from gnnplan.planner.job import Job
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.weather.model import MarkovWeather, SleepWeather, TwoState, WorkerWeather
from gnnplan.planner.weather.sleeps import sleeps_s
from gnnplan.profiles.errors import UserError

MANY = 30_000


def test_section_6_1_is_a_tenth_of_the_epochs_five_seconds_longer():
    """The default."""
    slept = sleeps_s(SleepWeather(), 1, MANY, epoch_s=0.3)
    assert set(slept.tolist()) == {0.0, 5.0}
    assert (slept > 0).mean() == pytest.approx(0.1, abs=0.01)


def test_section_2_1_is_twice_the_epoch_for_five_epochs_on_end():
    """Every spell begins with a chance of a tenth; spells that overlap are one."""
    slept = sleeps_s(SleepWeather(sleep_epochs=2, duration_epochs=5), 1, MANY, epoch_s=0.3)
    assert set(slept.tolist()) == {0.0, 0.6}
    assert (slept > 0).mean() == pytest.approx(1 - 0.9**5, abs=0.015)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], slept > 0, [0]]).astype(int)))
    lengths = edges[1::2] - edges[::2]
    assert lengths[:-1].min() == 5


def test_the_warm_up_is_fair():
    """What is usual is measured without sleeps."""
    always = sleeps_s(SleepWeather(probability=1.0), 0, 10, epoch_s=1.0)
    assert (always > 0).tolist() == [False] * WARM_UP_EPOCHS + [True] * (10 - WARM_UP_EPOCHS)


def test_draws_depend_on_seed_worker_and_replica_but_not_on_the_length():
    """A longer run begins like a shorter one; the numbers are the same on every machine."""
    weather = SleepWeather(probability=0.5)
    whole = sleeps_s(weather, 1, 200, epoch_s=1.0)
    assert np.array_equal(whole[:50], sleeps_s(weather, 1, 50, epoch_s=1.0))
    for other in (
        sleeps_s(weather, 2, 200, epoch_s=1.0),
        sleeps_s(weather, 1, 200, epoch_s=1.0, replica=1),
        sleeps_s(weather.model_copy(update={"seed": 1}), 1, 200, epoch_s=1.0),
    ):
        assert not np.array_equal(whole, other)
    assert np.flatnonzero(whole)[:6].tolist() == [3, 4, 6, 7, 8, 10]


def test_a_job_file_names_its_weather(tmp_path):
    """By kind; a length given twice is refused."""
    head = 'schema_version = 1\n[graph]\nsource = "sbm"\n[training.weather]\n'
    path = tmp_path / "job.toml"
    path.write_text(head + 'kind = "sleep"\nsleep_epochs = 2.0\nduration_epochs = 5')
    weather = Job.load(path).training.weather
    assert weather == SleepWeather(sleep_epochs=2.0, duration_epochs=5)
    assert weather.seconds(0.4) == 0.8
    path.write_text(head + 'kind = "markov"\nworkers = [{compute = {share = 0.5, fair_s = 9.0, slow_s = 3.0}}, {}]')
    state = TwoState(share=0.5, fair_s=9, slow_s=3)
    assert Job.load(path).training.weather == MarkovWeather(workers=(WorkerWeather(compute=state), WorkerWeather()))
    path.write_text(head + 'kind = "sleep"\nsleep_s = 1.0\nsleep_epochs = 2.0')
    with pytest.raises(UserError, match="not both"):
        Job.load(path)
