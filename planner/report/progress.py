"""Progress on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gnnplan.planner.metrics import METRICS
from gnnplan.planner.report.output import print_plain
from gnnplan.planner.report.units import seconds

LINE_EVERY_S = 5.0


@dataclass
class Lines:
    """Says where something stands, as lines that come seldom enough to read.

    Args:
        said_s: when the last line came, on the clock.
    """

    console: Console
    said_s: float

    @staticmethod
    def on(console: Console) -> Lines:
        """The first line comes after a few seconds: what is done by then needs none."""
        return Lines(console, time.monotonic())

    def say(self, words: str) -> None:
        """A line, if it is time for one."""
        now_s = time.monotonic()
        if now_s - self.said_s >= LINE_EVERY_S:
            self.said_s = now_s
            print_plain(words, self.console)


@contextmanager
def bar(console: Console, title: str, unit: str) -> Iterator[Callable[..., None]]:
    """Yields `update(done, total, words="")`; the words stand beside the bar, or end the line."""
    if not console.is_terminal:
        lines = Lines.on(console)
        yield lambda done, total, words="": lines.say(f"{title}: {done} of {total} {unit}{words and f', {words}'}")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[words]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None, words="")
        yield lambda done, total, words="": progress.update(task, completed=done, total=total, words=words)


@contextmanager
def steps(console: Console, first: str) -> Iterator[Callable[[str], None]]:
    """Yields what is told the step at hand, in words."""
    if not console.is_terminal:
        yield Lines.on(console).say
        return
    with console.status(first) as status:
        yield status.update


@contextmanager
def epochs_bar(console: Console, predicted_s: float | None = None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields the handler of a run's events (`gnnplan.planner.run.run_plan`).

    Args:
        predicted_s: of an epoch, to stand beside the measured one.
    """
    with bar(console, "training", "epochs") as update:

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "epoch":
                update(event["epoch"] + 1, event["epochs"], epoch_words(event, predicted_s))
            elif words := event_words(event):
                print_plain(words, console)

        yield on_event


def event_words(event: dict[str, Any]) -> str:
    """What is to be read of an event that is no epoch (empty: nothing)."""
    if event["event"] == "checkpoint" and event["fault"]:
        return f"no checkpoint before epoch {event['epoch']}: {event['fault']}; training goes on"
    return event["words"] if event["event"] in ("note", "restart") else ""


def epoch_words(event: dict[str, Any], predicted_s: float | None) -> str:
    """Loss, accuracies, seconds an epoch beside the predicted, and what is left, as far as an event tells."""
    words = [f"loss {event['loss']:.4g}"] if "loss" in event else []
    metric = METRICS[event.get("metric", "accuracy")]
    words += [f"{name} {metric.shown(value, digits=1)}" for name, value in event.get("accuracy", {}).items()]
    if "epoch_s" in event:
        predicted = f" ({seconds(predicted_s)} predicted)" if predicted_s else ""
        words.append(f"{seconds(event['epoch_s'])} an epoch{predicted}")
        words.append(f"{seconds((event['epochs'] - event['epoch'] - 1) * event['epoch_s'])} left")
    return ", ".join(words)
