"""What one more row costs each worker: to make, to sum up, or to receive; read from a candidate's programs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.readers.scaled import on_share
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule


@dataclass(frozen=True)
class Marginal:
    """Seconds of an epoch, float64 [levels, W] each (NeutronCloud's T_v, T_e and T_c, equations 5 and 7).

    Args:
        row_s: of one more row of a level, without its sum over neighbours.
        edge_s: of one more entry that rows of a level are summed up over.
        received_s: of one more row of a level that is received, and its gradient sent back.
    """

    row_s: np.ndarray
    edge_s: np.ndarray
    received_s: np.ndarray

    @classmethod
    def of(cls, candidate: Candidate) -> Marginal:
        """What twice as many rows and edges would take more, each."""
        shape = (candidate.setting.num_levels, candidate.cycle.num_workers)
        found = cls(*(np.zeros(shape) for _ in range(3)))
        twice = on_share(candidate.cycle, 2.0)
        for name, share in candidate.shares.items():
            found._add_computed(candidate, twice, name, share)
            found._add_received(candidate, name, share)
        return found

    def _add_computed(self, candidate: Candidate, twice: Cycle, name: str, share: float) -> None:
        cycle, setting = candidate.cycle, candidate.setting
        more_s = _computed_s(schedule_of(twice, name, setting.placement, setting.costs))
        for key, seconds in _computed_s(candidate.schedules[name]).items():
            more_s[key] = np.maximum(more_s[key] - seconds, 0.0)
        for op in cycle.programs[name]:
            level = _level(cycle, op)
            if op.key in more_s and level is not None and level < len(self.row_s):
                into = self.edge_s if "block" in op.attributes else self.row_s
                into[level] += share * more_s[op.key] / np.maximum(_amount(cycle, op), 1)

    def _add_received(self, candidate: Candidate, name: str, share: float) -> None:
        """Every worker's own port; rows that go back are gradients of rows that came."""
        cycle, network = candidate.cycle, Network(candidate.setting.placement)
        bytes_of = exchanges_bytes(cycle, name)
        for op in cycle.programs[name]:
            if op.key in bytes_of and "level" in op.attributes:
                counts = cycle.routes[op.attributes["route"]].counts.sum(0)
                port_s = network.ports_s(2 * bytes_of[op.key]) - network.ports_s(bytes_of[op.key])
                self.received_s[op.attributes["level"]] += share * port_s / np.maximum(counts, 1)


def _computed_s(schedule: Schedule) -> dict[str, np.ndarray]:
    """By key float64 [W]: seconds of the tasks that are not collectives."""
    found: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(schedule.num_workers))
    for task in schedule.tasks:
        if task.category != "communicate":
            found[task.key][task.worker] += task.seconds
    return found


def _level(cycle: Cycle, op: Operator) -> int | None:
    """Of what an operator works on: a block's rows, else the rows furthest from the features."""
    if "block" in op.attributes:
        return cycle.spaces[cycle.blocks[op.attributes["block"]].row].level
    spaces = (cycle.spaces[cycle.values[name].space] for name in (*op.reads, *op.writes))
    return max((space.level for space in spaces if space.level is not None), default=None)


def _amount(cycle: Cycle, op: Operator) -> np.ndarray:
    """int64 [W]: entries of an operator's block, else its most rows of vertices."""
    if "block" in op.attributes:
        return np.array(cycle.blocks[op.attributes["block"]].num_edges)
    spaces = (cycle.spaces[cycle.values[name].space] for name in (*op.reads, *op.writes))
    return np.max([space.sizes for space in spaces if space.is_of_vertices], axis=0)
