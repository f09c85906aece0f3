"""What an epoch costs each worker as its halo shrinks: the lambda of CaPGNN's equation 15, in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.cost import computing_s, exchanges_bytes
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.techniques.pruning.pairs import HaloPairs, Loads
from gnnplan.planner.techniques.pruning.sizes import HaloSizes

RESERVED_BYTES = 100_000_000  # the paper's beta
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # of a halo, at which programs are priced


@dataclass(frozen=True)
class SecondsCost:
    """Predicted seconds of a candidate: lambda = T_comp + T_comm (equations 13 to 15).

    Both terms are seconds, so neither needs a weight: the paper's alpha weighs SpMM against MM where both are unitless.
    T_comp is every task of the worker, T_comm what its port takes for its rows; where exchanges are overlapped they are
    added all the same. Forward and backward turn a port's two directions about, so their mean counts: each halo vertex
    pruned then frees its worker as much as its owner. Both terms are means over the cycle, so rows that are kept count
    as often as they travel, and a smaller halo keeps the same share of its rows.

    The candidate's own programs are priced at some sizes of the halos, with lines in between. Of every worker the
    vertices of least influence are taken to go first, which makes its entries follow from its rows.
    """

    candidate: Candidate
    pairs: HaloPairs
    sizes: HaloSizes

    def __call__(self, loads: Loads) -> np.ndarray:
        """Seconds [W]."""
        return self.compute_s(loads) + self.communicate_s(loads)

    def compute_s(self, loads: Loads) -> np.ndarray:
        """Seconds [W] of every worker's own tasks in an epoch, exchanges and reduction left out."""
        received, sent = loads.send_counts.sum(0), loads.send_counts.sum(1)
        by_received, by_sent = self._curves
        return np.array([by_received[w].at(received[w]) + by_sent[w].at(sent[w]) for w in range(len(received))])

    def communicate_s(self, loads: Loads) -> np.ndarray:
        """Seconds [W] in which every worker's port alone moves the rows of an epoch."""
        seconds = np.zeros(len(loads.send_counts))
        left = loads.send_counts / np.maximum(self._whole.send_counts, 1)
        for often, sent_bytes in self._exchanges:
            both_ways = sent_bytes * left
            seconds += often * self._network.ports_s((both_ways + both_ways.T) / 2)
        return seconds

    def fits(self, worker: int, loads: Loads) -> bool:
        """Whether the worker's peak memory, activations included, leaves `RESERVED_BYTES` free."""
        if self.candidate.missing_bytes[worker] + RESERVED_BYTES <= 0:
            return True
        needed = self._needed_bytes[worker].at(loads.send_counts[:, worker].sum())
        return needed + RESERVED_BYTES <= self.candidate.setting.memory_bytes(worker)

    @cached_property
    def _whole(self) -> Loads:
        return self.pairs.loads(self.pairs.everything)

    @cached_property
    def _network(self) -> Network:
        return Network(self.candidate.setting.placement)

    @cached_property
    def _exchanges(self) -> list[tuple[float, np.ndarray]]:
        """How often in an epoch so many bytes travel, float64 [W, W]; those that travel alike are one.

        Rows and the gradients that come back for them do.
        """
        found: dict[bytes, tuple[float, np.ndarray]] = {}
        for name, share in self.candidate.shares.items():
            for num_bytes in exchanges_bytes(self.candidate.cycle, name).values():
                key = min(num_bytes.tobytes(), np.ascontiguousarray(num_bytes.T).tobytes())
                often, first = found.get(key, (0.0, num_bytes))
                found[key] = often + share, first
        return list(found.values())

    @cached_property
    def _points(self) -> list[tuple[np.ndarray, Loads]]:
        """Choices that keep more and more of every halo, and their loads."""
        chosen = (self.pairs.most_influential(share) for share in _SHARES)
        return [(kept, self.pairs.loads(kept)) for kept in chosen]

    @cached_property
    def _curves(self) -> tuple[list[Curve], list[Curve]]:
        """Of every worker, seconds by the rows that it receives, and by those that it sends what these add."""
        none = ~self.pairs.everything
        whole_s = self._without_s(none, none)
        received_s = [self._without_s(~kept, none) for kept, _ in self._points]
        sent_s = [self._without_s(none, ~kept) - whole_s for kept, _ in self._points]
        return self._drawn(received_s, 0), self._drawn(sent_s, 1)

    def _drawn(self, seconds: list[np.ndarray], axis: int) -> list[Curve]:
        rows = np.array([loads.send_counts.sum(axis) for _, loads in self._points])
        return [Curve(*each) for each in zip(rows.T, np.array(seconds).T, strict=True)]

    def _without_s(self, received: np.ndarray, sent: np.ndarray) -> np.ndarray:
        return self.busy_s(self.sizes.without(received=received, sent=sent))

    def busy_s(self, cycle: Cycle) -> np.ndarray:
        """Seconds [W] of all workers' own tasks in the candidate's cycle with other sizes."""
        place, costs = self.candidate.setting.placement, self.candidate.setting.costs
        return sum(
            (share * computing_s(cycle, name, place, costs) for name, share in self.candidate.shares.items()),
            start=np.zeros(cycle.num_workers),
        )

    @cached_property
    def _needed_bytes(self) -> list[Curve]:
        """Of every worker, its peak memory by the rows that it receives."""
        return self._drawn([np.array(list(self._peaks(kept))) for kept, _ in self._points], 0)

    def _peaks(self, kept: np.ndarray) -> Iterator[int]:
        cycle, place = self.sizes.without(received=~kept, sent=~kept), self.candidate.setting.placement
        return (estimate_memory(cycle, worker, place.profile_of(worker)).peak_bytes for worker in cycle.workers)


@dataclass(frozen=True)
class Curve:
    """Lines between points, ascending in `rows`."""

    rows: np.ndarray
    values: np.ndarray

    def at(self, rows: int) -> float:
        """The value at a number of rows; beyond the points that of the nearest."""
        return float(np.interp(rows, self.rows, self.values))
