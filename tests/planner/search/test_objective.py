"""The search takes what the objective asks for, of any set of workers, and refuses where a limit cannot be kept."""

from types import SimpleNamespace

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.objective.spec import ObjectiveFigures, ObjectiveSpec
from gnnplan.planner.search import objective
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.objective import Judge, epoch_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import MarkovWeather, SleepWeather, WorkerWeather
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from gnnplan.profiles.machine import CpuQuota, Link
from tests.planner.search.searched import GRAPHS, SBM

DEAR, CHEAP = 40.0, 0.1
TRAINING = TrainingSpec(epochs=1000)


def placement(*hosts):
    """Hosts by (device, dollars an hour), on a fast network."""
    link = Link(bytes_per_s=1e11)
    specs = (
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=device),), link=link, price_per_hour=price)
        for i, (device, price) in enumerate(hosts)
    )
    return resolve(Cluster(hosts=tuple(specs)))


def found(where, **objective):
    """What the search comes to on a skewed graph."""
    job = Job(graph=SBM, model=ModelSpec(hidden_channels=64), training=TRAINING, objective=ObjectiveSpec(**objective))
    return decide(job, where, GRAPHS["skewed"])


MIXED = placement(("h100-sxm", DEAR), ("t4", CHEAP))


def hosts_of(result):
    """Names of the hosts that take part."""
    return [worker.host for worker in result.best.setting.placement.workers]


def test_money_takes_the_cheap_host_and_time_the_fast_one():
    """Alone a dear device is faster; the cheap one costs less in all."""
    fast, cheap = found(MIXED), found(MIXED, minimize="money")
    assert "h0" in hosts_of(fast)
    assert fast.objective is None
    assert hosts_of(cheap) == ["h1"]
    assert cheap.best.epoch_s > fast.best.epoch_s
    assert cheap.objective.dollars == pytest.approx(cheap.objective.seconds * CHEAP / 3600)
    price = fast.best.setting.placement.price_per_hour
    assert cheap.objective.dollars < fast.best.epoch_s * TRAINING.epochs * price / 3600
    assert 0 < cheap.objective.least <= cheap.objective.dollars


def test_equal_devices_are_told_apart_by_their_price():
    """The cheaper of two equal hosts is taken, whichever comes first."""
    for hosts in ([("t4", DEAR), ("t4", CHEAP)], [("t4", CHEAP), ("t4", DEAR)]):
        result = found(placement(*hosts), minimize="money")
        assert [worker.price_per_hour for worker in result.best.setting.placement.workers] == [CHEAP]


@pytest.mark.long
def test_money_under_a_deadline_takes_no_more_than_it_needs():
    """Where the cheap host alone is too late, the cheapest of what is in time."""
    cheap, fast = found(MIXED, minimize="money").objective, found(MIXED, minimize="time").objective
    assert fast.seconds < cheap.seconds
    between_s = (cheap.seconds + fast.seconds) / 2
    result = found(MIXED, minimize="money", deadline_s=between_s)
    assert result.objective.seconds <= between_s
    assert cheap.dollars < result.objective.dollars
    assert found(MIXED, minimize="money", deadline_s=cheap.seconds * 1.01).objective.dollars == cheap.dollars


@pytest.mark.long
def test_time_within_a_budget():
    """The fastest of what can be paid."""
    cheap, fast = found(MIXED, minimize="money").objective, found(MIXED, minimize="time").objective
    assert hosts_of(found(MIXED, minimize="time", budget=cheap.dollars * 1.01)) == ["h1"]
    assert found(MIXED, minimize="time", budget=fast.dollars * 1.01).objective.seconds == fast.seconds


@pytest.mark.long
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"deadline_s": 1e-3}, "more than the deadline of 0.001 s"),
        ({"budget": 1e-9}, "more than the budget of 1e-09"),
    ],
)
def test_the_nearest_miss_is_said(limits, words):
    """By how much it misses the limit, and on which workers."""
    with pytest.raises(NoPlanFitsError, match=r"no plan keeps the limits: the nearest needs .* 1,000 epochs") as error:
        found(MIXED, **limits)
    assert words in str(error.value)


def test_money_needs_prices():
    """Else every plan would cost nothing."""
    for asked in ({"minimize": "money"}, {"budget": 1.0}):
        job = Job(graph=SBM, objective=ObjectiveSpec(**asked))
        with pytest.raises(UserError, match="price_per_hour"):
            Judge(job).check(placement(("t4", 0.0)))
        Judge(job).check(placement(("t4", 0.0), ("t4", CHEAP)))
        assert found(placement(("t4", 0.0)), **asked).best.fits  # of a cluster that had some: these cost nothing


@pytest.mark.long
def test_the_margin_stays_free():
    """Of every worker's memory; and a plan that fits without the margin is refused where it does not with it."""
    one = placement(("t4", CHEAP))
    best = found(one).best
    memory_bytes, peak = one.workers[0].memory_bytes, best.memory[0].peak_bytes
    share = 1 - peak / memory_bytes
    assert found(one, memory_margin=share * 0.999).best.fits
    with pytest.raises(NoPlanFitsError, match="beside the margin that stays free"):
        found(one, memory_margin=share + (1 - share) * 0.99)


def test_statistics_are_in_order():
    """Of an epoch whose tasks vary, 95% are within more than half of them are."""
    result = found(MIXED)
    spread = {
        name: type(schedule)(
            schedule.num_workers,
            [type(t)(t.key, t.worker, t.category, t.seconds, t.resource, t.after, t.group, 0.3 * t.seconds)
             for t in schedule.tasks],
        )
        for name, schedule in result.best.schedules.items()
    }  # fmt: skip
    result.best.__dict__["schedules"] = spread
    job = Job(graph=SBM)
    p50, mean, p95 = (epoch_of(job, result.best, each, 200) for each in ("p50", "mean", "p95"))
    assert p50 < p95
    assert mean < p95
    judged = Judge(job.model_copy(update={"objective": ObjectiveSpec(minimize="time", statistic="p95")}))
    assert judged.scored(result.best).epoch_s == pytest.approx(p95, rel=0.05)


@pytest.mark.long
def test_by_any_statistic_nothing_is_below_the_bound():
    """What is least is a bound, whatever is counted."""
    for statistic in ("p50", "p95", "mean"):
        figures = found(MIXED, minimize="time", statistic=statistic).objective
        assert figures.statistic == statistic
        assert figures.least <= figures.seconds
        assert figures.gap >= 0


def test_half_of_all_sums_take_less_than_they_are_priced_at():
    """So the bound on what half of all epochs take has none; every other statistic has."""
    of = SimpleNamespace(without_sum_s=lambda _: 1.0, without_pauses_s=lambda _: 2.0, seconds=lambda _: 3.0)
    job = Job(graph=SBM)

    def least_s(**objective):
        return Judge(job.model_copy(update={"objective": ObjectiveSpec(**objective)})).least_epoch_s(of, (0, 1))

    assert least_s(minimize="time", statistic="p50") == 1.0
    assert least_s(minimize="time", statistic="p95") == 2.0
    assert least_s(minimize="time") == least_s() == 3.0


def names(candidate):
    """Of the techniques that take part."""
    return {choice.technique for choice in candidate.choices}


def like(epoch_s, expected_s, *techniques, fits=True):
    """What a judge asks a candidate for."""
    choices = tuple(SimpleNamespace(technique=name) for name in techniques)
    job = SimpleNamespace(pin=PinnedDecisions())
    place = SimpleNamespace(placement=SimpleNamespace(price_per_hour=0.0), job=job, num_workers=1)
    return SimpleNamespace(
        epoch_s=epoch_s, expected_s=expected_s, choices=choices, fits=fits, setting=place, schedules={}
    )


@pytest.mark.parametrize("has_weather", [False, True])
def test_of_plans_that_take_as_long_the_one_that_varies_less_is_taken(has_weather, monkeypatch):
    """Each set of techniques once; what is longer by more than the tie, or does not fit, is not weighed."""
    monkeypatch.setattr(objective, "epoch_of", lambda job, candidate, *_: candidate.expected_s)
    found = like(1.0, 1.2, "feature_slices")
    others = [
        like(1.01, 1.1, "halo_exchange"),
        like(1.0, 1.0, "feature_slices"),
        like(1.05, 1.06, "overlap"),
        like(1.0, 1.0, "replicas", fits=False),
    ]
    weather = SleepWeather(probability=0.1) if has_weather else None
    judge = Judge(Job(graph=SBM, training=TrainingSpec(weather=weather)))
    finalists = judge.finalists(found, [found, *others])
    assert finalists == ([found] if has_weather else [found, others[0]])
    assert judge.best(finalists).candidate is finalists[-1]
    assert judge.best(finalists).epoch_s == (found.expected_s if has_weather else finalists[-1].epoch_s)


@pytest.mark.parametrize("statistic", [None, "p50"])
def test_what_is_pinned_takes_part_whatever_is_weighed(statistic, tmp_path):
    """Among what was looked at is what would be faster without it: a direct sum does the same without waiting."""
    path = tmp_path / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    host = HostSpec(name="h", devices=(DeviceSpec(profile=path, count=3),), price_per_hour=CHEAP)
    waiting = PartialReducePin(alpha=0.5, max_staleness=3)
    fields = {"op_order": "multiply_first", "precompute": False, "overlap": False, "num_workers": 3}
    pin = PinnedDecisions(partial_reduce=waiting, dependencies="communicate", **fields)
    job = Job(graph=SBM, model=ModelSpec(hidden_channels=8), fidelity="stale", pin=pin)
    job = job.model_copy(update={"objective": ObjectiveSpec(statistic=statistic)})
    result = decide(job, resolve(Cluster(hosts=(host,))), GRAPHS["sbm"])
    without = [each for each in result.looked_at if "partial_reduce" not in names(each) and len(each.memory) == 3]
    assert min(each.epoch_s for each in without) < result.best.epoch_s
    assert "partial_reduce" in names(result.best)


def waiting_job(path, pin, **objective):
    """Three workers who may go on without each other, on hosts that sleep now and then."""
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    fields = {"op_order": "multiply_first", "precompute": False, "overlap": False, "num_workers": 3}
    pinned = PinnedDecisions(partial_reduce=pin, dependencies="communicate", **fields)
    training = TrainingSpec(epochs=40, weather=SleepWeather(probability=0.3, sleep_epochs=3.0))
    job = Job(graph=SBM, model=ModelSpec(hidden_channels=8), fidelity="stale", pin=pinned, training=training)
    hosts = (HostSpec(name="h", devices=(DeviceSpec(profile=path, count=3),)),)
    return job.model_copy(update={"objective": ObjectiveSpec(**objective)}), resolve(Cluster(hosts=hosts))


def test_a_deadline_is_kept_by_what_is_settled_last(tmp_path):
    """Waiting for all takes longer than what the search began with, and that is what counts."""
    pin = PartialReducePin(alpha=0.5, max_staleness=3, min_group=3)
    seconds = decide(*waiting_job(tmp_path / "here.json", pin, minimize="time"), GRAPHS["sbm"]).objective.seconds
    deadline = {"minimize": "time", "deadline_s": 1.001 * seconds}
    assert decide(*waiting_job(tmp_path / "here.json", pin, **deadline), GRAPHS["sbm"]).objective.seconds == seconds
    with pytest.raises(NoPlanFitsError, match="more than the deadline"):
        decide(*waiting_job(tmp_path / "here.json", pin, minimize="time", deadline_s=0.999 * seconds), GRAPHS["sbm"])


@pytest.mark.parametrize("statistic", [None, "p50", "p95"])
def test_time_under_a_quota_has_all_its_pauses(tmp_path, statistic):
    """The median of epochs says little of many; what is least holds of either."""
    quota = CpuQuota(share=0.4, period_s=1e-3)
    profile = catalog_profile("t4").model_copy(update={"device_kind": "cpu", "num_threads": 1, "cpu_quota": quota})
    profile.save(tmp_path / "here.json")
    where = resolve(Cluster(hosts=(HostSpec(name="h", devices=(DeviceSpec(profile=tmp_path / "here.json"),)),)))
    result = found(where, minimize="time", statistic=statistic)
    assert result.best.median_epoch_s != pytest.approx(result.best.epoch_s, rel=0.2)
    assert 0 < result.objective.least <= result.objective.seconds
    if statistic is None:
        assert result.objective.statistic == "mean"
        assert result.objective.seconds >= TRAINING.epochs * result.best.epoch_s


def test_a_markov_model_is_of_all_its_workers():
    """Sets of fewer are not looked at; of another number there is no plan."""
    weather = MarkovWeather(workers=(WorkerWeather(),) * 2)
    job = Job(graph=SBM, training=TrainingSpec(epochs=20, weather=weather))
    assert len(decide(job, placement(("t4", CHEAP), ("t4", CHEAP)), GRAPHS["sbm"]).best.memory) == 2
    with pytest.raises(UserError, match="describes 2 workers, and there are 3"):
        decide(job, placement(*[("t4", CHEAP)] * 3), GRAPHS["sbm"])


def test_weather_counts():
    """By the mean or the 95th percentile of epochs under it; half of them nobody simulates."""
    weather = SleepWeather(probability=0.3, sleep_epochs=2.0)
    job = Job(graph=SBM, model=ModelSpec(hidden_channels=64), training=TrainingSpec(epochs=30, weather=weather))
    where = placement(("t4", CHEAP))

    def seconds(**objective):
        wanted = job.model_copy(update={"objective": ObjectiveSpec(minimize="time", **objective)})
        return decide(wanted, where, GRAPHS["skewed"]).objective

    mean, p95 = seconds(), seconds(statistic="p95")
    assert (mean.statistic, p95.statistic) == ("mean", "p95")
    assert found(where, minimize="time").objective.seconds / TRAINING.epochs < mean.seconds / 30 < p95.seconds / 30
    with pytest.raises(UserError, match="under weather there are p95 and mean"):
        seconds(statistic="p50")


def test_a_training_may_take_longer_than_a_task():
    """A task may take eleven days, a million epochs as many each."""
    figures = ObjectiveFigures(
        minimize="money", statistic="mean", epochs=10**6, seconds=1.1e6, dollars=300.0, least=1.0
    )
    assert figures.gap == pytest.approx(299)
    assert ObjectiveSpec(deadline_s=12 * 86400).deadline_s == 12 * 86400
