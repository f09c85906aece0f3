"""Where in a host's region each kept step's rows lie, and how many bytes that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnnplan.planner.joint_cache.decision import CacheDecision
from gnnplan.planner.steps import Program

_FLOAT_BYTES, _STAMP_BYTES = 4, 8
_ALIGNED_BYTES = 64  # a cache line: what one worker writes shares none with what another does


@dataclass(frozen=True)
class RegionLayout:
    """First the stamps, int64 [steps, workers], then the rows of one step after the other, float32 [m, width].

    Args:
        num_rows: m.
        widths: of every kept step, by name, in the order of the program.
        num_workers: of the host.
    """

    num_rows: int
    widths: dict[str, int]
    num_workers: int

    @classmethod
    def of(cls, program: Program, cache: CacheDecision, host_of: Sequence[int], host: int) -> RegionLayout:
        """The layout of one host's region; no rows and no steps where it has none.

        Args:
            host_of: index of each worker's host.
        """
        num_rows = cache.region.num_rows[host] if cache.region else 0
        return cls(num_rows, shared_widths(program, cache), sum(its == host for its in host_of))

    @property
    def num_bytes(self) -> int:
        """Of the whole region."""
        return self.offset(len(self.widths))

    def offset(self, number: int) -> int:
        """Byte at which the rows of a kept step begin, by its number."""
        stamps = _aligned(_STAMP_BYTES * max(len(self.widths), 1) * self.num_workers)
        widths = [*self.widths.values()][:number]
        return stamps + sum(_aligned(self.num_rows * width * _FLOAT_BYTES) for width in widths)


def shared_widths(program: Program, cache: CacheDecision) -> dict[str, int]:
    """Row width of every step whose halo rows hosts keep, by name."""
    exchanged = (step for step in program.steps if step.op in ("aggregate", "exchange"))
    return {step.name: step.in_width for step in exchanged if cache.shares(step)}


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES
