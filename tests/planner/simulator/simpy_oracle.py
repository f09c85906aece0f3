"""The engine's semantics written a second time, as SimPy processes, to compare end times with."""

from __future__ import annotations

from collections import Counter

import simpy

from gnnplan.planner.schedule import Schedule

END, REQUEST, RELEASE, START, NUM_PHASES = 0, 1, 2, 3, 4


class Oracle:
    """One SimPy process a task, one `PriorityResource` a resource.

    SimPy orders events of one instant by priority. Rounds of phases within an instant are told
    apart by a priority that grows: all tasks that are due end, then ready tasks request their
    resources in index order, then the ended ones release theirs, then work starts; work of no
    duration ends in the next round of the same instant.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.tasks = schedule.tasks
        self.env = simpy.Environment()
        self.round = 0
        self.done = [self.env.event() for _ in self.tasks]
        self.resources = [simpy.PriorityResource(self.env) for _ in range(schedule.num_resources)]
        self.missing = Counter(task.group for task in self.tasks)
        self.complete = {group: self.env.event() for group in self.missing}
        self.end_ns: dict[int, int] = {}
        for index in range(len(self.tasks)):
            self.env.process(self.run_task(index))

    def phase(self, phase: int, index: int = 0, delay: int = 0, round_: int | None = None) -> simpy.Event:
        event = self.env.event()
        event._ok, event._value = True, None
        round_ = self.round if round_ is None else round_
        # SimPy's own priorities are 0 and 1: what they trigger is over before the next phase.
        priority = 2 + (round_ * NUM_PHASES + phase) * len(self.tasks) + index
        self.env.schedule(event, priority, delay)
        return event

    def run_task(self, index: int):
        task = self.tasks[index]
        yield self.env.all_of([self.done[before] for before in task.after])
        ready = self.env.now
        yield self.phase(REQUEST, index)
        resource = self.resources[task.resource]
        request = resource.request(priority=(ready, index))
        yield request
        yield self.phase(START)
        if task.group >= 0:
            self.missing[task.group] -= 1
            if self.missing[task.group] == 0:
                self.complete[task.group].succeed()
            yield self.complete[task.group]
        duration = round(task.seconds * 1e9)
        end_round = 0 if duration else self.round + 1
        yield self.phase(END, delay=duration, round_=end_round)
        self.round = end_round
        self.end_ns[index] = self.env.now
        self.done[index].succeed()
        yield self.phase(RELEASE)
        resource.release(request)


def simpy_end_ns(schedule: Schedule) -> dict[int, int]:
    """End time of each task that ends; the others are in a deadlock."""
    oracle = Oracle(schedule)
    oracle.env.run()
    return oracle.end_ns
