"""The epochs of a plan as they were played, with what its collectives are and whose ports take longest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.network import Network
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import COLLECTIVES, is_exchange
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.steady import MedianEpoch, median_epoch_of

_ALIKE = 0.99  # of the longest port's seconds: a port that takes as much is no shorter


@dataclass(frozen=True)
class Meeting:
    """A collective.

    Args:
        words: what it is.
        ports_s: float64 [W], seconds of every worker's own port (zeros: nobody's can be told).
    """

    words: str
    ports_s: np.ndarray

    @property
    def setter(self) -> int | None:
        """The worker whose port alone takes longest; None where there is no single one."""
        longest = np.flatnonzero(self.ports_s >= _ALIKE * self.ports_s.max())
        return int(longest[0]) if len(longest) == 1 else None

    def own_share(self, worker: int) -> float:
        """What share of the collective the worker's own port is busy; 1 where no other's takes longer."""
        longest_s = float(self.ports_s.max())
        share = float(self.ports_s[worker]) / longest_s if longest_s else 1.0
        return share if share < _ALIKE else 1.0


@dataclass(frozen=True)
class PlayedProgram:
    """A program of a plan's cycle as the simulator plays it.

    Args:
        share: of the epochs that play it.
        meetings: by task key.
    """

    share: float
    schedule: Schedule
    median: MedianEpoch
    meetings: Mapping[str, Meeting]


def played_programs(plan: Plan) -> list[PlayedProgram]:
    """Every program that epochs play, with the epoch of median length."""
    cycle, counts = plan.cycle.cycle(), Counter(plan.cycle.order)
    found = []
    for name, count in counts.items():
        schedule = schedule_of(cycle, name, plan.placement)
        meetings = _meetings(cycle, name, plan.placement)
        found.append(PlayedProgram(count / len(cycle.order), schedule, median_epoch_of(schedule), meetings))
    return found


def _meetings(cycle: Cycle, name: str, placement: Placement) -> dict[str, Meeting]:
    network = Network(placement)
    ops = [op for op in cycle.programs[name] if op.kind in COLLECTIVES]
    return {op.key: Meeting(_words(op), _ports_s(cycle, op, network)) for op in ops}


def _ports_s(cycle: Cycle, op: Operator, network: Network) -> np.ndarray:
    if not is_exchange(op):
        return np.zeros(cycle.num_workers)
    return network.ports_s(COLLECTIVES[op.kind].num_bytes(cycle, op))


def _words(op: Operator) -> str:
    if is_exchange(op) and "level" in op.attributes:
        rows = "returned gradients" if op.attributes.get("back") else "halo rows"
        return f"exchange of the {rows} of level {op.attributes['level']}"
    return f"{op.kind.replace('_', '-')} {op.key}"
