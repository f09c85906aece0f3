"""Speed of the event engine against a bare Python event loop and SimPy, and of a Monte-Carlo run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy
from rich.console import Console
from rich.table import Table

from gnnplan.planner.schedule import Category, Schedule, Task
from gnnplan.planner.simulator.engine import CompiledSchedule, compile_schedule, play, play_many
from gnnplan.planner.simulator.montecarlo import sample_durations

Row = dict[str, Any]


@dataclass(frozen=True)
class Lists:
    """A compiled schedule as Python lists, made once so that the Python loops are timed without it."""

    duration_ns: list[int]
    resource: list[int]
    num_resources: int
    num_predecessors: list[int]
    successors: list[list[int]]

    @classmethod
    def of(cls, compiled: CompiledSchedule) -> Lists:
        tables = compiled.tables
        return cls(
            duration_ns=compiled.duration_ns.tolist(),
            resource=tables.resource.tolist(),
            num_resources=tables.queue_start.size - 1,
            num_predecessors=tables.num_predecessors.tolist(),
            successors=[part.tolist() for part in np.split(tables.successors, tables.successor_start[1:-1])],
        )


def main(quick: bool) -> dict[str, Any]:
    """Measures, prints a table and returns the figures.

    `quick` plays shorter schedules fewer times, but keeps the 1,000 replicas of 10,000 tasks.
    Every row has the median and the interquartile range of its repeats, in seconds.
    """
    num_stages, num_repeats = (100, 5) if quick else (1000, 15)
    compiled = compile_schedule(chain_and_fan(num_stages))
    num_tasks = compiled.duration_ns.size
    lists = Lists.of(compiled)
    makespans = {play(compiled).makespan_ns, play_with_heapq(lists), play_with_simpy(lists)}
    assert len(makespans) == 1, makespans
    rows = [
        _measure("engine, chain and fan", num_tasks, lambda: play(compiled), num_repeats),
        _measure("Python heapq, chain and fan", num_tasks, lambda: play_with_heapq(lists), num_repeats),
        _measure("SimPy, chain and fan", num_tasks, lambda: play_with_simpy(lists), num_repeats),
        _measure_compiling(num_stages, num_repeats),
        *_measure_montecarlo(num_repeats=3 if quick else 5),
    ]
    engine, heapq_loop, simpy_loop = (row["tasks_per_s"] for row in rows[:3])
    _print(rows)
    return {
        "tasks_per_s": engine,
        "speedup_over_heapq": engine / heapq_loop,
        "speedup_over_simpy": engine / simpy_loop,
        "montecarlo_1000x10000_s": rows[-1]["median_s"],
        "rows": rows,
    }


def chain_and_fan(num_stages: int, fan: int = 19, num_resources: int = 8) -> Schedule:
    """Stages of one task, then `fan` tasks after it over all resources, which the next stage awaits."""
    rng = np.random.default_rng(0)
    schedule = Schedule(num_workers=1)

    def add(key: str, resource: int, after: tuple[int, ...]) -> int:
        return schedule.add(Task(key, 0, "compute", float(rng.random()) * 1e-3, resource, after))

    after: tuple[int, ...] = ()
    for stage in range(num_stages):
        head = add(f"s{stage}", 0, after)
        after = tuple(add(f"s{stage}/f{branch}", branch % num_resources, (head,)) for branch in range(fan))
    return schedule


def workers_with_collectives(num_tasks: int, num_workers: int = 4) -> Schedule:
    """Each worker computes, exchanges with all others and computes on beside the exchange."""
    rng = np.random.default_rng(0)
    schedule = Schedule(num_workers)
    after: list[tuple[int, ...]] = [()] * num_workers
    while len(schedule.tasks) < num_tasks:
        step = len(schedule.tasks)

        def add(worker: int, what: str, after: tuple[int, ...], group: int = -1, step: int = step) -> int:
            category: Category = "communicate" if group >= 0 else "compute"
            resource = 2 * worker + (group >= 0)
            seconds = float(rng.random()) * 1e-3
            key = f"{step}/{what}"
            return schedule.add(Task(key, worker, category, seconds, resource, after, group, 0.1 * seconds))

        first = [add(worker, "boundary", after[worker]) for worker in range(num_workers)]
        exchanged = [add(worker, "exchange", (first[worker],), group=step) for worker in range(num_workers)]
        second = [add(worker, "inner", (first[worker],)) for worker in range(num_workers)]
        after = list(zip(exchanged, second))
    del schedule.tasks[num_tasks:]
    return schedule


def play_with_heapq(lists: Lists) -> int:
    """The makespan in ns by the engine's rules, without groups, in bare Python."""
    duration, resource_of, successors = lists.duration_ns, lists.resource, lists.successors
    num_waiting_for = lists.num_predecessors.copy()
    queues: list[list[tuple[int, int]]] = [[] for _ in range(lists.num_resources)]
    is_free = [True] * len(queues)
    running: list[tuple[int, int]] = []
    touched = set()
    now = 0
    for task, count in enumerate(num_waiting_for):
        if count == 0:
            heappush(queues[resource_of[task]], (0, task))
            touched.add(resource_of[task])
    while True:
        for resource in touched:
            if is_free[resource] and queues[resource]:
                _, task = heappop(queues[resource])
                is_free[resource] = False
                heappush(running, (now + duration[task], task))
        if not running:
            return now
        touched.clear()
        now = running[0][0]
        while running and running[0][0] == now:
            _, task = heappop(running)
            is_free[resource_of[task]] = True
            touched.add(resource_of[task])
            for successor in successors[task]:
                num_waiting_for[successor] -= 1
                if num_waiting_for[successor] == 0:
                    heappush(queues[resource_of[successor]], (now, successor))
                    touched.add(resource_of[successor])


def play_with_simpy(lists: Lists) -> int:
    """The makespan in ns as a SimPy user would write it: a process is started once a task is ready."""
    env = simpy.Environment()
    duration, resource_of, successors = lists.duration_ns, lists.resource, lists.successors
    num_waiting_for = lists.num_predecessors.copy()
    resources = [simpy.Resource(env) for _ in range(lists.num_resources)]

    def run(task: int) -> Any:
        with resources[resource_of[task]].request() as request:
            yield request
            yield env.timeout(duration[task])
        for successor in successors[task]:
            num_waiting_for[successor] -= 1
            if num_waiting_for[successor] == 0:
                env.process(run(successor))

    for task, count in enumerate(lists.num_predecessors):
        if count == 0:
            env.process(run(task))
    env.run()
    return int(env.now)


def _measure(name: str, num_tasks: int, run: Callable[[], Any], num_repeats: int) -> Row:
    """Runs once to warm up (and compile), then times each repeat."""
    run()
    seconds = []
    for _ in range(num_repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    low, median, high = (float(value) for value in np.percentile(seconds, [25, 50, 75]))
    return {
        "name": name,
        "num_tasks": num_tasks,
        "num_repeats": num_repeats,
        "median_s": median,
        "spread_s": high - low,
        "tasks_per_s": num_tasks / median,
    }


def _measure_compiling(num_stages: int, num_repeats: int) -> Row:
    schedule = chain_and_fan(num_stages)
    name = "schedule to arrays, chain and fan"
    return _measure(name, len(schedule.tasks), lambda: compile_schedule(schedule), num_repeats)


def _measure_montecarlo(num_repeats: int) -> list[Row]:
    schedule = workers_with_collectives(10_000)
    compiled = compile_schedule(schedule)
    duration_ns = sample_durations(schedule, 1000, seed=0)
    return [
        _measure(
            "sampling 1,000 x 10,000 durations",
            duration_ns.size,
            lambda: sample_durations(schedule, 1000, seed=0),
            num_repeats,
        ),
        _measure(
            "Monte Carlo, 1,000 x 10,000",
            duration_ns.size,
            lambda: play_many(compiled, duration_ns),
            num_repeats,
        ),
    ]


def _print(rows: list[Row]) -> None:
    table = Table(title="Simulator, one core")
    for heading in ("what", "tasks", "median", "spread", "tasks/s"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for row in rows:
        table.add_row(
            row["name"],
            f"{row['num_tasks']:,}",
            f"{row['median_s'] * 1e3:,.2f} ms",
            f"{row['spread_s'] * 1e3:,.2f} ms",
            f"{row['tasks_per_s'] / 1e6:,.2f} M",
        )
    Console().print(table)
