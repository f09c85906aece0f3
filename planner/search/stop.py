"""When a search ends: at its time, or near enough to the least that any plan could take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from gnnplan.planner.considered import EndedBy
from gnnplan.planner.search_spec import SearchSpec


@dataclass
class Stop:
    """Says whether a search is over, and keeps what ended it.

    Args:
        spec: what the job asks for.
        share: of its seconds, where several searches have them together.
        ended_by: what kept a candidate from being made ("": nothing did).
    """

    spec: SearchSpec
    share: float = 1.0
    ended_by: EndedBy = ""
    _begun_s: float = field(default_factory=time.monotonic)

    def is_over(self, epoch_s: float, least_s: float) -> bool:
        """Whether nothing more is looked at.

        Args:
            epoch_s: of the best plan that fits and keeps the limits; infinite where none does, with which no search
                ends.
            least_s: that any plan could take, of those that are left.
        """
        if not math.isfinite(epoch_s):
            return False
        if self.spec.gap and epoch_s <= least_s * (1 + self.spec.gap):
            self.ended_by = self.ended_by or "gap"
        elif self._is_late:
            self.ended_by = "time"
        else:
            return False
        return True

    @property
    def _is_late(self) -> bool:
        longest_s = self.spec.longest_s
        return longest_s is not None and time.monotonic() - self._begun_s >= self.share * longest_s
