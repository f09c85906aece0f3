"""Seconds of every operator of a program on one worker, from its machine profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

from gnnplan.profiles.curves import Curve, Estimate
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.sparse import IN_A_CORE
from gnnplan.profiles.kernels.tiles import num_tiles
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.operators import OPERATORS

FLOAT_BYTES = 4
STEP_OVERHEAD = "step_overhead"  # among the operators that a task is made of
_MOST_KNOWN = 100_000  # shapes that are remembered: candidates of a search have most of theirs in common
ZERO = Estimate(0.0, 0.0, False)


def total(parts: Iterable[Estimate]) -> Estimate:
    """Estimates of operators that run one after another; spreads add, the cautious way."""
    seconds = spread_s = 0.0
    unprofiled = False
    operators: tuple[tuple[str, float], ...] = ()
    for part in parts:
        seconds += part.seconds
        spread_s += part.spread_s
        unprofiled |= part.unprofiled
        operators += part.parts
    return Estimate(seconds, spread_s, unprofiled, operators)


def num_in_use(share: float, num_read: int, width: float) -> int:
    """Rows in use of those read: all of as few as lie in a core's cache, where none has to come back."""
    if not width:
        return num_read
    return min(num_read, max(round(num_read * share), ceil(IN_A_CORE / width)))


@dataclass(frozen=True)
class OperatorCosts:
    """Looks up a profile's operators.

    Args:
        share: of the seconds that stand there; the profile's overheads are less by as much already.
    """

    profile: MachineProfile
    curves: dict[str, Curve]
    share: float = 1.0
    _known: dict[tuple[str, tuple[float, ...]], Estimate] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, profile: MachineProfile) -> OperatorCosts:
        """Prepares every table of the profile for lookups; `UserError` where one has other axes."""
        for name, table in profile.operators.items():
            if name in OPERATORS and table.axes != OPERATORS[name].axes:
                raise UserError(
                    f"profile {profile.name}: operator {name!r} has axes {', '.join(table.axes)}, "
                    f"expected {', '.join(OPERATORS[name].axes)}; profile again"
                )
        curves = {name: Curve.from_table(table, leaves_caches=True) for name, table in profile.operators.items()}
        return cls(profile, curves)

    def at(self, share: float) -> OperatorCosts:
        """The same where everything takes a share of the seconds that were timed."""
        if share == self.share:
            return self
        own, rest = self.profile, share / self.share
        overheads = {"host_overhead_s": own.host_overhead_s * rest, "step_overhead_s": own.step_overhead_s * rest}
        return OperatorCosts(own.model_copy(update=overheads), self.curves, share)

    def __call__(self, operator: str, *shape: float) -> Estimate:
        """Seconds of an operator at a shape; nothing to do takes no time."""
        found = self._known.get((operator, shape))
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[operator, shape] = self._looked_up(operator, shape)
        return found

    def _looked_up(self, operator: str, shape: tuple[float, ...]) -> Estimate:
        if min(shape) <= 0:
            return ZERO
        curve = self.curves.get(operator)
        if curve is None:
            raise UserError(f"profile {self.profile.name}: operator {operator!r} was not profiled; profile again")
        estimate = curve.seconds(tuple(float(extent) for extent in shape))
        seconds, spread_s = estimate.seconds * self.share, estimate.spread_s * self.share
        return Estimate(seconds, spread_s, estimate.unprofiled, ((operator, seconds),))

    def has(self, operator: str) -> bool:
        """Whether the profile has timed an operator: older ones lack those of later."""
        return operator in self.curves

    def step_overhead(self) -> Estimate:
        """What a step takes beside its operators."""
        seconds = self.profile.step_overhead_s
        return Estimate(seconds, 0.0, False, ((STEP_OVERHEAD, seconds),))

    def spmm(self, num_rows: int, num_edges: int, width: float, num_read: int, in_use: float = 1.0) -> Estimate:
        """CSR [num_rows, num_read] with `num_edges` entries, times dense rows of `width`.

        Args:
            in_use: the share of the dense rows that is (`gnnplan.planner.program.in_use`).
        """
        return self._product("spmm", num_rows, num_edges, width, num_read, in_use)

    def spmm_features(self, num_rows: int, num_entries: int, width: int) -> Estimate:
        """`spmm` of sparse input features with a weight, some of whose rows are read far more often than others."""
        return self("spmm_features", num_rows, num_entries / num_rows, width) if num_rows else ZERO

    def spmm_transposed(
        self, num_rows: int, num_edges: int, width: float, num_read: int, in_use: float = 1.0
    ) -> Estimate:
        """`spmm` with a transposed block, whose rows are as long as columns were full."""
        return self._product("spmm_transposed", num_rows, num_edges, width, num_read, in_use)

    def _product(
        self, whole: str, num_rows: int, num_edges: int, width: float, num_read: int, in_use: float
    ) -> Estimate:
        """Of the table of tiles where the runtime cuts such a matrix and they were profiled, else of `whole`.

        The rows of a tile stay in a cache however often each is read.
        """
        is_cut = self.profile.device_kind == "cpu" and num_tiles(num_rows, num_read or num_rows, num_edges, width) > 1
        if is_cut and "spmm_tiled" in self.curves:
            return self.gathered("spmm_tiled", num_rows, num_edges, width, num_read)
        return self.gathered(whole, num_rows, num_edges, width, num_read, in_use)

    def gathered(
        self, operator: str, num_rows: int, num_edges: int, width: float, num_read: int, in_use: float = 1.0
    ) -> Estimate:
        """Square matrices are measured; in another one a row takes what it takes in one with as many columns.

        Whether the rows that it gathers come from a cache or from memory depends on how many are read in all: by the
        rows written products with halo blocks were predicted up to 2.8 times too short or too long, by those read to
        1.7. Where some are read more often than others, those in use tell it better, on a CPU; on a GPU it was not
        measured (`python -m benchmarks halo_blocks`).

        Args:
            in_use: the share of the rows read that is.
        """
        if not num_rows:
            return ZERO
        num_read = num_read or num_rows  # of a trial share, whose halo is not known
        size = num_in_use(in_use, num_read, width) if self.profile.device_kind == "cpu" else num_read
        square = self(operator, size, num_edges / num_rows, width)
        if size == num_rows or not square.seconds:
            return square
        fixed_s = min(self.curves[operator].fixed_s * self.share, square.seconds)
        return square.times((fixed_s + (square.seconds - fixed_s) * num_rows / size) / square.seconds)

    def copy(self, num_elements: float) -> Estimate:
        """A float32 copy within the device."""
        return self("idt", num_elements * FLOAT_BYTES)

    def to_region(self, num_rows: int, width: int) -> Estimate:
        """Rows gathered into memory of the host, from a GPU as a copy of pageable memory is."""
        return self._hosted("d2h_pageable", num_rows, width)

    def from_region(self, num_rows: int, width: int) -> Estimate:
        """Rows gathered from memory of the host; to a GPU the gathering is what staging a pageable copy is."""
        return self._hosted("h2d_pageable", num_rows, width)

    def _hosted(self, transfer: str, num_rows: int, width: int) -> Estimate:
        if self.profile.device_kind == "cuda":
            return self(transfer, num_rows * width * FLOAT_BYTES)
        return self("gather_rows", num_rows, width)
