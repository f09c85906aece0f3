"""What a plan is made of, so that parts of one plan can be put in another one's place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.job import Job
from gnnplan.planner.plan import GraphFacts, Plan
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.techniques.registry import technique

_OF_MACHINE = ("profile", "link", "memory_bytes", "region_bytes", "pinned_bytes", "cpu_cores")


@dataclass(frozen=True)
class Chosen:
    """A choice, and what its arrays were cut for.

    Args:
        graph: fingerprint.
        layout: the choice that says who owns what.
    """

    choice: Choice
    graph: str
    num_workers: int
    layout: Choice


@dataclass(frozen=True)
class State:
    """A job, its graph, its workers, and what was chosen, by technique. All techniques that lay out are one entry."""

    job: Job
    graph: GraphFacts
    placement: Placement
    chosen: Mapping[str, Chosen]

    @classmethod
    def load(cls, path: Path) -> tuple[Plan, State]:
        """A plan, and what it is made of; `UserError` where it or its partition cannot be read."""
        plan = load_plan(path)
        arrays = load_partition(plan, path).chosen
        choices = {_slot(chosen.technique): chosen.choice(arrays) for chosen in plan.choices}
        chosen = {
            name: Chosen(choice, plan.graph.fingerprint, plan.num_workers, choices[LAYOUT])
            for name, choice in choices.items()
        }
        return plan, cls(plan.job, plan.graph, plan.placement, chosen)

    @property
    def choices(self) -> list[Choice]:
        """Of all techniques."""
        return [chosen.choice for chosen in self.chosen.values()]

    @property
    def obstacle(self) -> str:
        """Why its choices' arrays are of another state; empty where they are of this one."""
        for name, chosen in self.chosen.items():
            if chosen.choice.arrays and (wrong := self._cut_for(name, chosen)):
                return f"{chosen.choice.technique} was cut for {wrong}"
        return ""

    def _cut_for(self, name: str, chosen: Chosen) -> str:
        if chosen.graph != self.graph.fingerprint:
            return "another graph"
        if chosen.num_workers != len(self.placement.workers):
            return "another number of workers"
        is_other = name != LAYOUT and not same_choice(chosen.layout, self.chosen[LAYOUT].choice)
        return "other shares" if is_other else ""

    def without(self, name: str) -> State:
        """The state without a technique."""
        return replace(self, chosen={key: chosen for key, chosen in self.chosen.items() if key != name})

    def with_chosen(self, name: str, chosen: Chosen) -> State:
        """The state with a technique's choice, or another one."""
        return replace(self, chosen={**self.chosen, name: chosen})


def _slot(name: str) -> str:
    return LAYOUT if LAYOUT in technique(name).claims else name


def same_choice(one: Choice, other: Choice) -> bool:
    """Whether two choices decide the same with the same arrays."""
    if (one.technique, one.decision) != (other.technique, other.decision):
        return False
    return all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())


def with_workers(placement: Placement, other: Placement) -> Placement:
    """The workers of another placement. Those that are in both keep their machines."""
    known = {_key(worker): worker for worker in placement.workers}
    workers = tuple(_on_machine(worker, known.get(_key(worker), worker)) for worker in other.workers)
    return _with_workers(placement, other, workers)


def with_machines(placement: Placement, other: Placement) -> Placement:
    """The same workers, those that are in both on the machines of the other placement, between its devices' links."""
    known = {_key(worker): worker for worker in other.workers}
    workers = tuple(_on_machine(worker, known.get(_key(worker), worker)) for worker in placement.workers)
    moved = _with_workers(placement, other, workers)
    return moved.model_copy(update={"device_link": other.device_link})


def _with_workers(placement: Placement, other: Placement, workers: tuple[WorkerPlace, ...]) -> Placement:
    profiles = {**placement.profiles, **other.profiles}
    used = {worker.profile: profiles[worker.profile] for worker in workers}
    return placement.model_copy(update={"workers": workers, "profiles": used})


def _on_machine(worker: WorkerPlace, machine: WorkerPlace) -> WorkerPlace:
    return worker.model_copy(update={name: getattr(machine, name) for name in _OF_MACHINE})


def _key(worker: WorkerPlace) -> tuple[str, int]:
    return worker.host, worker.device_index


def same_workers(one: Placement, other: Placement) -> bool:
    """Whether the same devices of the same hosts take part, by rank."""
    return [_key(worker) for worker in one.workers] == [_key(worker) for worker in other.workers]


def workers_words(placement: Placement) -> str:
    """Who takes part."""
    counts = Counter(worker.host for worker in placement.workers)
    return ", ".join(f"{count} on {host}" for host, count in counts.items())


def machine_words(placement: Placement, other: Placement) -> str:
    """What the machines of workers in both are, where they differ."""
    known = {_key(worker): worker for worker in other.workers}
    said = []
    for worker in placement.workers:
        machine = known.get(_key(worker), worker)
        own = [name for name in _OF_MACHINE if getattr(worker, name) != getattr(machine, name)]
        said += [f"{worker.host} {_machine_word(worker, name)}" for name in own]
    if placement.device_link != other.device_link:
        said.append(f"links within hosts {placement.device_link.bytes_per_s:g} bytes/s")
    return ", ".join(dict.fromkeys(said))


def _machine_word(worker: WorkerPlace, name: str) -> str:
    if name == "link":
        return f"link {worker.link.bytes_per_s:g} bytes/s and {worker.link.latency_s:g} s"
    return f"{name} {getattr(worker, name)}"
