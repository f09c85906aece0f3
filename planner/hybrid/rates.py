"""T_v, T_e and T_c of NeutronCloud's equations 5 to 7, from a worker's tasks: predicted ones or measured ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.levels import Levels
from gnnplan.planner.hybrid.lowering import HybridLowering
from gnnplan.planner.hybrid.sizes import ReplicaSizes
from gnnplan.planner.hybrid.steps import step_levels
from gnnplan.planner.network import Network
from gnnplan.planner.steps import Program

_NUM_RECENT = 3  # epochs whose median counts: one that was disturbed is none
_NUM_STEADY = 15  # epochs for which the proportion of T_e to T_v stays: dependencies are sorted by it
_FORGETTING = 0.1  # of the way back to the plan's rate, in an epoch that shows nothing of a link
_SHIFT = 1.3  # times as much or as little as before: no noise, where the whole epoch took far longer or shorter
_SHOWS_ALL = 0.25  # of the rows of an owner: fewer show less of a rate and more of what an exchange takes anyway


@dataclass(frozen=True)
class Pace:
    """Seconds per vertex and dimension, and per entry and dimension (None: there was no such work)."""

    vertex_s: float | None
    edge_s: float | None


def pace_of(
    seconds: Mapping[str, float],
    program: Program,
    levels: Levels,
    num_local: int,
    local_edges: int,
    sizes: ReplicaSizes,
) -> Pace:
    """What one worker's compute tasks of an epoch, by key, took per work done on own rows and replicas alike.

    Dense tasks count where replicas could do them: on rows of every level but the last, the logits'.
    """
    steps = step_levels(program, levels.first)
    vertex_s = edge_s = 0.0
    for step in program.steps:
        taken_s = sum(seconds.get(f"{step.name}/{way}", 0.0) for way in ("forward", "backward"))
        if step.op in ("aggregate", "attend"):
            edge_s += taken_s
        elif step.op != "exchange" and steps.rows[step.name] < steps.count:
            vertex_s += taken_s
    vertex_work = edge_work = 0.0
    for level, size in enumerate(sizes.levels, levels.first):
        num_edges = local_edges + size.near_edges + size.made_edges + size.far_edges
        vertex_work += levels.vertex_widths[level] * (num_local + size.num_replicas)
        edge_work += levels.row_widths[level] * num_edges
    return Pace(vertex_s / vertex_work if vertex_work else None, edge_s / edge_work if edge_work else None)


def predicted_rates(lowering: HybridLowering, levels: Levels) -> tuple[tuple[Rates, ...], float]:
    """(every worker's rates by the profiles, seconds of an exchange of next to nothing), from a lowered epoch.

    What all exchanges take beyond their latency is what the slowest worker's rows take. A row from each owner
    takes its part of that by what the two of them take alone.
    """
    network, size = lowering.network, len(lowering.shapes)
    seconds: list[dict[str, float]] = [{} for _ in range(size)]
    for task in lowering.schedule.tasks:
        seconds[task.worker][task.key] = task.seconds
    floats = sum(
        (levels.row_widths[level] * lowering.replicas.counts(level) for level in range(levels.first, levels.count)),
        np.zeros((size, size), np.int64),
    ).T
    exchanges = [taken_s for key, taken_s in seconds[0].items() if "/exchange/" in key]
    latency_s = network.all_to_all((1 - np.eye(size, dtype=np.int64)) * FLOAT_BYTES).seconds if size > 1 else 0.0
    row_s = _by_pairs(network, floats, len(exchanges)) * floats.astype(bool)
    slowest_s = float((row_s * floats).sum(1).max(initial=0.0))
    if slowest_s:
        row_s *= max(sum(exchanges) - latency_s * len(exchanges), 0.0) / slowest_s
    rates = []
    for rank, shape in enumerate(lowering.shapes):
        sizes = lowering.replicas.workers[rank]
        pace = pace_of(seconds[rank], lowering.program, levels, shape.num_local, shape.local_edges, sizes)
        rates.append(Rates(vertex_s=pace.vertex_s or 0.0, edge_s=pace.edge_s or 0.0, row_s=tuple(row_s[rank].tolist())))
    return tuple(rates), latency_s


def _by_pairs(network: Network, floats: np.ndarray, num_exchanges: int) -> np.ndarray:
    """float64 [W, W]: seconds per float that worker i receives from j, if nothing else travelled."""
    size = len(floats)
    row_s = np.zeros((size, size))
    for receiver, sender in zip(*np.nonzero(floats)):
        num_bytes = floats[receiver, sender] * FLOAT_BYTES / max(1, num_exchanges)
        row_s[receiver, sender] = network.pair_s(int(receiver), int(sender), num_bytes) / num_bytes
    return row_s


def shares_s(arrived_s: np.ndarray, floats: np.ndarray, begun_s: np.ndarray | None = None) -> np.ndarray:
    """float64 [W]: what each owner's rows take of one exchange; all that are on their way share the time by floats.

    Args:
        arrived_s: float64 [W], seconds until each owner's rows were there.
        floats: float64 [W], that each sent.
        begun_s: float64 [W], when they began to come (None: all at once, at 0).
    """
    begun_s = np.zeros(len(floats)) if begun_s is None else begun_s
    shares, moments = np.zeros(len(floats)), np.unique(np.concatenate([begun_s, arrived_s]))
    for start_s, end_s in pairwise(moments):
        on_way = (begun_s <= start_s) & (arrived_s >= end_s) & (floats > 0)
        if on_way.any():
            shares[on_way] += (end_s - start_s) * floats[on_way] / floats[on_way].sum()
    return shares


@dataclass
class RateMonitor:
    """A worker's rates now, from its recent epochs; what they do not show goes back to the plan's rate bit by bit.

    So a link that was slow and is no longer used is tried again.

    Args:
        planned: where it starts.
        all_floats: float64 [W], of an epoch's rows from each owner if all were communicated.
    """

    planned: Rates
    all_floats: np.ndarray
    _paces: dict[str, deque[float]] = field(init=False)
    _proportions: deque[float] = field(init=False)
    _num_proportions: int = field(init=False, default=0)
    _proportion: float | None = field(init=False)
    _rows: list[deque[float]] = field(init=False)
    _saw: dict[str, bool] = field(init=False)
    _saw_row: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self._paces = {name: deque([getattr(self.planned, name)], _NUM_RECENT) for name in ("vertex_s", "edge_s")}
        self._rows = [deque([seconds], _NUM_RECENT) for seconds in self.planned.row_s]
        self._proportions = deque(maxlen=_NUM_STEADY)
        self._proportion = self.planned.edge_s / self.planned.vertex_s if self.planned.vertex_s else None
        self._saw = dict.fromkeys(self._paces, False)
        self._saw_row = [False] * len(self._rows)

    def observe(
        self,
        pace: Pace,
        taken_s: np.ndarray,
        floats: np.ndarray,
        late: np.ndarray | None = None,
        *,
        moved: bool = False,
    ) -> None:
        """Adds an epoch.

        Args:
            taken_s: float64 [W], seconds of the rows from each owner, there and their gradients back.
            floats: float64 [W], of these rows.
            late: bool [W], owners whose rows are still on their way: that they did not come says nothing of a rate.
            moved: the epoch's length is far from the last ones': rates that are, too, count at once.
        """
        for name, seconds in self._paces.items():
            value = getattr(pace, name)
            if value is not None:
                if not self._saw[name]:
                    seconds.clear()  # what was planned
                self._saw[name] = True
                _add(seconds, value, moved=moved)
        if pace.vertex_s and pace.edge_s:
            self._proportions.append(pace.edge_s / pace.vertex_s)
            self._num_proportions += 1
            if self._num_proportions == _NUM_RECENT or self._num_proportions % _NUM_STEADY == 0:
                self._proportion = float(np.median(self._proportions))
        shown = np.minimum(floats / np.maximum(_SHOWS_ALL * self.all_floats, 1.0), 1.0)
        for owner, recent in enumerate(self._rows):
            if late is not None and late[owner]:
                continue
            before_s = float(np.median(recent))
            drifted_s = before_s + _FORGETTING * (self.planned.row_s[owner] - before_s)
            if shown[owner] == 0 or not self._saw_row[owner]:
                recent.clear()
            self._saw_row[owner] = bool(shown[owner])
            seen_s = taken_s[owner] / floats[owner] if floats[owner] else 0.0
            _add(recent, float(shown[owner] * seen_s + (1 - shown[owner]) * drifted_s), moved=moved)

    @property
    def steady(self) -> Rates:
        """The rates with T_e and T_v in their proportion of many epochs, and as much of both."""
        rates = self.rates
        if not self._proportion or not rates.vertex_s or not rates.edge_s:
            return rates
        skew = math.sqrt(self._proportion * rates.vertex_s / rates.edge_s)
        return rates.model_copy(update={"vertex_s": rates.vertex_s / skew, "edge_s": rates.edge_s * skew})

    @property
    def rates(self) -> Rates:
        """Medians over recent epochs."""
        vertex_s, edge_s = (float(np.median(self._paces[name])) for name in ("vertex_s", "edge_s"))
        return Rates(vertex_s=vertex_s, edge_s=edge_s, row_s=tuple(float(np.median(row)) for row in self._rows))


def _add(recent: deque[float], value: float, *, moved: bool) -> None:
    """One more; where `moved` and it is far from the others, none but it."""
    if moved and recent:
        before = float(np.median(recent))
        if max(value, before) > _SHIFT * min(value, before):
            recent.clear()
    recent.append(value)
