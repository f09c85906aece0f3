"""Timing again what was disturbed: by a hypervisor that took processor time away, or by other programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gnnplan.profiles.load import TOLERATED_LOAD, LoadWatch, MachineLoad, others_s
from gnnplan.profiles.steal import TOLERATED_SHARE, StealWatch

_MAX_CALLS = 4
_PAUSE_S = 0.5  # then twice as long after every call; what disturbs lasts for seconds to minutes
_T = TypeVar("_T")


@dataclass
class Patience:
    """Calls a probe again while it is disturbed, and keeps what was disturbed least.

    Args:
        largest: of one share per worker, the largest; all workers must make the same calls.
        on_done: told of every probe that is done with.
        num_left: calls that may be made again, of all probes; then what comes is taken.
        total: of one number per worker of this machine, the sum.
    """

    largest: Callable[[float], float]
    on_done: Callable[[], None] = lambda: None
    num_left: int = 60
    total: Callable[[float], float] = lambda own: own
    _others_s: float = 0.0
    _all_s: float = 0.0

    def __call__(self, probe: Callable[[], _T]) -> _T:
        """What the probe returns."""
        taken, least, load = self._call(probe)
        for number in range(_MAX_CALLS - 1):
            if least <= TOLERATED_SHARE or self.num_left == 0:
                break
            self.num_left -= 1
            time.sleep(_PAUSE_S * 2**number)
            again, share, its_load = self._call(probe)
            if share < least:
                taken, least, load = again, share, its_load
        if least > TOLERATED_SHARE:
            self.num_left //= 2  # waiting was in vain: what disturbs may well stay
        self._others_s += load[0]
        self._all_s += load[1]
        self.on_done()
        return taken

    @property
    def others_share(self) -> float:
        """Of the processor time while what was kept was timed, what other programs used."""
        return min(max(self._others_s / self._all_s, 0.0), 1.0) if self._all_s else 0.0

    def _call(self, probe: Callable[[], _T]) -> tuple[_T, float, tuple[float, float]]:
        """What it returns, the share by which it was disturbed, and processor seconds: others' and all."""
        steal, watch = StealWatch.begin(), LoadWatch.begin()
        taken = probe()
        load = watch.end()
        theirs_s, all_s = self._theirs_s(load), load.elapsed_s * load.num_cores
        # A tick a core may be counted too many.
        sure = max(theirs_s - load.num_cores * load.tick_s, 0.0) / all_s * TOLERATED_SHARE / TOLERATED_LOAD
        return taken, self.largest(max(steal.share(), sure)), (theirs_s, all_s)

    def _theirs_s(self, load: MachineLoad) -> float:
        return others_s(load, self.total(load.own_s))
