"""A plan's epochs under any weather: its job's, a fitted model, or an emulated cluster's weather file."""

from __future__ import annotations

from gnnplan.planner.emulation.weather import Weather
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.plan import Plan
from gnnplan.planner.weather.conditions import Conditions, under_spells
from gnnplan.planner.weather.model import ModelledWeather, WeatherFigures
from gnnplan.planner.weather.play import NUM_REPLICAS, Waiting, aligned_sections, figures, replicas_of
from gnnplan.profiles.errors import UserError


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

    Raises `UserError` for plans that keep halo rows over a refresh interval, whose epochs are of two kinds.
    """
    if plan.layered.cache.is_stale:
        raise UserError(f"{plan.job.name}: weather is simulated without a refresh interval; leave the pin out")
    sections = aligned_sections(lower_plan(plan), plan.prediction.epoch_s)
    waiting = Waiting.of(plan.layered.partial) if plan.layered.partial else None
    epochs = plan.job.training.epochs
    if isinstance(weather, Weather):
        return figures(sections, lambda _: spells_of(plan, weather, begin_s), waiting, 1)
    conditions_of = replicas_of(weather, plan.num_workers, epochs, plan.prediction.epoch_s)
    return figures(sections, conditions_of, waiting, num_replicas)


def spells_of(plan: Plan, weather: Weather, begin_s: float) -> Conditions:
    """What a plan's workers run under by a weather file, when training begins `begin_s` after it.

    Processors that no quota limited when they were profiled are not limited by it either.
    """
    place = plan.placement
    hosts = [worker.host for worker in place.workers]
    weather.check_hosts(hosts)
    limited = [place.profile_of(rank).cpu_quota is not None for rank in range(plan.num_workers)]
    return under_spells(weather, hosts, plan.job.training.epochs, begin_s, limited=limited)
