"""Cycles that were made on the way to others: a technique changes nothing before its first hook."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from gnnplan.planner.program.cycle import Cycle

_MOST = 24  # what a search comes back to is among the last few; each has tables of its own


class Recent:
    """The last ones, by what they were made of."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[object, Cycle]] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], Cycle], known_by_id: object = None) -> Cycle:
        """What was made under a key, or else is made now.

        Args:
            known_by_id: what a key has by identity; kept, so that nothing else is taken for it.
        """
        if key not in self._kept:
            self._kept[key] = known_by_id, make()
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]
