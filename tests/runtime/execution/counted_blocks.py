"""Blocks that a training holds on threads, beside those that liveness counts."""

from __future__ import annotations

from gnnplan.planner.readers.liveness import training_bytes
from tests.planner.readers.test_liveness import Watched
from tests.runtime.execution.threads import play_on_threads


def assert_counted(cycle, inputs, start, monkeypatch):
    """Of every size as many as the program says, for every worker, in three epochs."""
    watched = Watched(monkeypatch)
    filled = [name for name, value in cycle.values.items() if value.role == "cell" and name not in start]

    def count(executor, rank):
        watched.begin([executor.stored[each].nbytes for each in filled if each in executor.stored])
        for epoch in range(3):
            executor.run("train", epoch)
        return watched.end()

    found = play_on_threads(cycle, inputs, start, count)
    for worker in cycle.workers:
        said = training_bytes(cycle, worker).pooled
        assert said == found[worker]
        assert len(said) > 1, "a program that holds next to nothing tests nothing"
