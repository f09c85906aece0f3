"""Plans and runs of `fluctuation`: every variant of a row in every weather, and what is looked at of its epochs."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import ValidationError

from benchmarks._common import on_all, operators_of
from benchmarks._emulated import inside, loaded, started_fast, undisturbed
from benchmarks._fluctuation_settings import CALM, STATIC, Row, RunWeather, Scale, weathers_of
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec
from gnnplan.planner.emulation.emulate import WeatherKeeper
from gnnplan.planner.emulation.weather import Weather
from gnnplan.planner.forecast.simulate import player_of, spells_of
from gnnplan.planner.job import Job
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.conditions import Conditions, fair, under_sleeps
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import RunFailedError
from gnnplan.runtime.measured import UNTIMED_EPOCHS

_TIMEOUT_S = 600.0
_SLACK = 1.3  # of a run's epochs: predictions may be too long
START_S = 12.0  # workers import torch


@dataclass(frozen=True)
class Case:
    """One variant of a row in one weather. Its plan is made; its run may be kept from before."""

    row: str
    variant: str
    weather: RunWeather
    at: Path

    @property
    def plan_path(self) -> Path:
        """The plan, beside its partition."""
        return self.at / f"{slug(self.weather.name)}.json"

    @property
    def measured_path(self) -> Path:
        """The trace of a run that has ended; nothing is there of one that has not."""
        return self.at / f"{slug(self.weather.name)}.measured.json"

    @property
    def ends_path(self) -> Path:
        """(epoch, seconds) of the epochs that the run told the end of, on the clock of who started it."""
        return self.at / f"{slug(self.weather.name)}.ends.json"

    @property
    def plan(self) -> Plan:
        """Read again."""
        return Plan.load(self.plan_path)

    @property
    def expected_s(self) -> float:
        """Seconds that the run takes by its plan, with its start."""
        plan = self.plan
        return START_S + plan.prediction.epoch_s + float(simulated_lengths_s(plan, self.weather).sum())


def slug(name: str) -> str:
    """A name as a file's."""
    return name.replace(", ", "_").replace(" ", "_")


def with_training(plan: Plan, **changes: object) -> Plan:
    """The same decisions for a training of another length, weather or seed; of these its program has the seed alone."""
    assert changes.keys() <= {"epochs", "weather", "seed"}, f"a program is made anew for other {', '.join(changes)}"
    training = plan.job.training.model_copy(update=changes)
    cycle = plan.cycle.model_copy(update={"seed": training.seed}) if plan.cycle else None
    return plan.model_copy(update={"job": plan.job.model_copy(update={"training": training}), "cycle": cycle})


def profiled(scale: Scale, folder: Path) -> Cluster:
    """The cluster with its hosts' profiles, taken once; or with published figures that stand in for them."""
    cluster, path = scale.cluster(), folder / "profile" / "cluster.json"
    if not path.exists():
        if scale.is_profiled:
            print("profiling every host where it runs", flush=True)
            with inside(cluster):
                api.profile_cluster(cluster, path.parent)
        else:
            device = catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1})
            stand_in = DeviceSpec(profile=device.save(path.parent / "stand_in.json").relative_to(path.parent))
            hosts = tuple(host.model_copy(update={"devices": (stand_in,)}) for host in cluster.hosts)
            cluster.model_copy(update={"hosts": hosts}).save(path)
    return Cluster.load(path)


def plan_row(row: Row, cluster: Cluster, folder: Path, scale: Scale, skipped: list[str]) -> list[Case]:
    """Plans what is not yet planned; the cases weather by weather.

    Variants whose pins do not combine are said in `skipped`.
    """
    calm: dict[str, Plan] = {}
    for variant in scale.variants:
        at = folder / slug(row.name) / slug(variant)
        try:
            job = row.job(variant, TrainingSpec(epochs=scale.calm_epochs))
        except ValidationError as error:
            skipped.append(f"{row.name}, {variant}: {' '.join(str(error).split())}")
            continue
        calm[variant] = _planned(job, cluster, at / f"{slug(CALM)}.json")
    if len({operators_of(plan) for plan in calm.values()}) > 1:
        raise AssertionError(f"{row.name}: variants differ in the order of operators, which is not theirs to change")
    epoch_s = min(plan.prediction.epoch_s for variant, plan in calm.items() if variant in STATIC)
    weathers = weathers_of(scale, epoch_s, max(plan.prediction.epoch_s for plan in calm.values()))
    cases = [
        Case(row.name, variant, weather, folder / slug(row.name) / slug(variant))
        for weather in weathers
        for variant in calm
    ]
    for case in cases:
        if not case.plan_path.exists():
            _plan_under(case, calm[case.variant], cluster, scale)
    return cases


def _planned(job: Job, cluster: Cluster, path: Path) -> Plan:
    if path.exists():
        return Plan.load(path)
    return api.plan(on_all(job, cluster), cluster, path, graph=loaded(job.graph))


def _plan_under(case: Case, calm: Plan, cluster: Cluster, scale: Scale) -> None:
    """The calm's decisions for a weather; how partial reduce waits is decided again for what is told of it."""
    weather = case.weather
    told = weather.sleeps or weather.told
    epochs = scale.sleep_epochs if weather.sleeps else _num_epochs(calm, weather, scale)
    under = with_training(calm, epochs=epochs, weather=told)
    if told and calm.partial:
        under = _planned(under.job, cluster, case.plan_path)
    if weather.sleeps is None:
        under = with_training(under, epochs=_num_epochs(under, weather, scale))
    under.save(case.plan_path)


def _num_epochs(plan: Plan, weather: RunWeather, scale: Scale) -> int:
    """So many that a run fills the time that is looked at, by prediction."""
    fair_s = plan.prediction.epoch_s
    longest = min(math.ceil(weather.until_s / fair_s) + WARM_UP_EPOCHS, scale.most_epochs)
    epoch_s = float(simulated_lengths_s(with_training(plan, epochs=longest), weather).mean())
    return min(math.ceil(_SLACK * weather.until_s / epoch_s) + WARM_UP_EPOCHS, scale.most_epochs)


def run_case(case: Case, cluster: Cluster, scale: Scale) -> None:
    """Runs a case on hosts of its own, unless that was done before; again where it saw too little of the weather."""
    while not case.measured_path.exists():
        run = undisturbed(lambda: _run_once(case, cluster), scale.tries)
        lengths_s, until_s, epochs = measured_lengths_s(run.trace), case.weather.until_s, case.plan.job.training.epochs
        if math.isinf(until_s) or lengths_s.sum() >= until_s or epochs >= scale.most_epochs:
            _keep(case, run)
        else:
            more = min(math.ceil(_SLACK * epochs * until_s / float(lengths_s.sum())), scale.most_epochs)
            print(f"{case.row}, {case.variant}: {lengths_s.sum():.0f} s of {until_s:.0f} s, again with {more} epochs")
            with_training(case.plan, epochs=more).save(case.plan_path)


class _Run(NamedTuple):
    """What was measured; `ends` are (epoch, seconds) of the epochs that it told the end of."""

    trace: Trace
    ends: list[tuple[int, float]]

    @property
    def stolen_share(self) -> float:
        return self.trace.stolen_share


def _run_once(case: Case, cluster: Cluster) -> _Run:
    """On hosts of its own.

    Hosts come up in fair weather and take a while until they train. So the clock of a weather file does not start with
    them but when the first epoch has ended: every variant meets the same spells, and meets them training. Until then
    hosts have all processor time.
    """
    ends: list[tuple[int, float]] = []
    with inside(cluster) as (identity, hosts):
        keeper = WeatherKeeper(identity, hosts, case.weather.changes or Weather(schema_version=1))

        plan = case.plan
        graph = loaded(plan.job.graph)
        try:
            with started_fast(identity, hosts) as limit:

                def on_event(event: dict) -> None:
                    limit(event)
                    if not ends:
                        keeper.start()
                    ends.append((event["epoch"], time.monotonic()))

                trace = api.run(case.plan_path, case.at / "run", graph=graph, timeout_s=_TIMEOUT_S, on_event=on_event)
        finally:
            keeper.end()
    if keeper.fault:
        raise RunFailedError(f"{case.row}, {case.variant}: the weather could not be changed: {keeper.fault}")
    return _Run(trace, ends)


def _keep(case: Case, run: _Run) -> None:
    trace = run.trace
    counted = counted_s(measured_lengths_s(trace), case.weather)  # raises where there is nothing to look at
    with replacing(case.ends_path) as temporary:
        temporary.write_text(json.dumps(run.ends) + "\n")
    trace.save(case.measured_path)
    mean_s, fair_s = counted.mean(), case.plan.prediction.epoch_s
    print(
        f"{case.row}, {case.variant}, {case.weather.name}: {mean_s:.2f} s a mean epoch, "
        f"{fair_s:.2f} s predicted in calm (stolen {trace.stolen_share:.1%})",
        flush=True,
    )


def measured_lengths_s(trace: Trace) -> np.ndarray:
    """float64 [E - 1]: seconds of every epoch but the first, what was decided before it included.

    The second epoch is not timed either, and is taken to last as long as the third.
    """
    return np.array([trace.epoch_s[0], *trace.epoch_s])


def simulated_lengths_s(plan: Plan, weather: RunWeather) -> np.ndarray:
    """float64 [E - 1]: the same by the simulator, in the run's own sleeps or spells.

    Workers that would decide again stay with their plan.
    """
    return player_of(plan).play(_conditions(plan, weather)).epoch_s[1:]


def _conditions(plan: Plan, weather: RunWeather) -> Conditions:
    epochs, epoch_s = plan.job.training.epochs, plan.prediction.epoch_s
    if weather.changes is not None:  # its clock starts with the second epoch
        return spells_of(plan, weather.changes, begin_s=-epoch_s)
    if weather.sleeps is not None:
        return under_sleeps(weather.sleeps, plan.num_workers, epochs, epoch_s)
    return fair(plan.num_workers, epochs)


def counted_s(lengths_s: np.ndarray, weather: RunWeather) -> np.ndarray:
    """Of the seconds of every epoch but the first, those after the warm-up that end within the time looked at."""
    ends_s, first = np.cumsum(lengths_s), WARM_UP_EPOCHS - 1
    counted = lengths_s[first:][ends_s[first:] <= weather.until_s]
    if not len(counted):
        raise AssertionError(f"no epoch after the warm-up ended within {weather.until_s:.1f} s of {weather.name}")
    return counted


def between_epochs(case: Case, lengths_s: np.ndarray) -> float:
    """By how much the run's own clock was slower than its epochs added up: 0.01 is 1% between them."""
    ends = [(epoch, at_s) for epoch, at_s in json.loads(case.ends_path.read_text()) if epoch >= UNTIMED_EPOCHS]
    (first, begin_s), (last, end_s) = ends[0], ends[-1]
    if first == last:
        return 0.0
    return (end_s - begin_s) / float(lengths_s[first:last].sum()) - 1
