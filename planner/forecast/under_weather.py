"""What the weather adds to a plan: figures of its epochs under it."""

from __future__ import annotations

from collections.abc import Sequence

from gnnplan.planner.forecast.simulate import player
from gnnplan.planner.job import Job
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.weather.model import WeatherFigures
from gnnplan.planner.weather.play import figures, replicas_of


def under_weather(
    job: Job, cycle: Sequence[Schedule], epoch_s: float, partial: PartialReduceDecision | None
) -> WeatherFigures | None:
    """Epochs that follow each other over and over under the job's weather; None where it names none."""
    if job.training.weather is None:
        return None
    num_epochs = job.training.epochs
    conditions_of = replicas_of(job.training.weather, cycle[0].num_workers, num_epochs, epoch_s)
    return figures(player(cycle, epoch_s, partial, num_epochs), conditions_of)
