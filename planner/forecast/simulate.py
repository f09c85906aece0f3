"""A plan's epochs under any weather: its job's, a fitted model, or an emulated cluster's weather file."""

from __future__ import annotations

from collections.abc import Sequence

from gnnplan.planner.emulation.weather import Weather
from gnnplan.planner.lowering import lower_cycle
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.plan import Plan
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.weather.conditions import Conditions, under_spells
from gnnplan.planner.weather.epochs import WholeEpochs
from gnnplan.planner.weather.model import ModelledWeather, WeatherFigures
from gnnplan.planner.weather.partial_epochs import PartialEpochs, Waiting, aligned_sections
from gnnplan.planner.weather.play import NUM_REPLICAS, Player, figures, replicas_of


def simulate_weather(
    plan: Plan,
    weather: ModelledWeather | Weather,
    *,
    num_replicas: int = NUM_REPLICAS,
    begin_s: float = 0.0,
) -> WeatherFigures:
    """Mean, 95th percentile and delay of the plan's epochs, from what stands in the plan alone.

    Args:
        num_replicas: of a drawn weather; a weather file is played once.
        begin_s: when training begins after the weather file's start.
    """
    player, epochs = player_of(plan), plan.job.training.epochs
    if isinstance(weather, Weather):
        return figures(player, lambda _: spells_of(plan, weather, begin_s), 1)
    return figures(player, replicas_of(weather, plan.num_workers, epochs, plan.prediction.epoch_s), num_replicas)


def player_of(plan: Plan) -> Player:
    """Plays runs of a plan, from what stands in it alone; what workers would decide while they run is left out."""
    return player(lower_cycle(plan), plan.prediction.epoch_s, plan.partial, plan.job.training.epochs)


def player(cycle: Sequence[Schedule], epoch_s: float, partial: PartialReduceDecision | None, num_epochs: int) -> Player:
    """Plays runs of `num_epochs` that follow each other over and over, and are predicted to take `epoch_s` each."""
    if partial is None:
        return WholeEpochs(cycle)
    return PartialEpochs(aligned_sections(cycle[0], epoch_s), Waiting.of(partial, len(cycle)), num_epochs)


def spells_of(plan: Plan, weather: Weather, begin_s: float) -> Conditions:
    """What a plan's workers run under by a weather file, when training begins `begin_s` after it.

    Processors that no quota limited when they were profiled are not limited by it either.
    """
    place = plan.placement
    hosts = [worker.host for worker in place.workers]
    weather.check_hosts(hosts)
    limited = [place.profile_of(rank).cpu_quota is not None for rank in range(plan.num_workers)]
    return under_spells(weather, hosts, plan.job.training.epochs, begin_s, limited=limited)
