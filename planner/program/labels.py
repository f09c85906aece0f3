"""Where a halo row comes from: one label for every level, worker and vertex that is not the worker's own.

Labels of several techniques combine by the greater one, so the order in which they are marked does not matter.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from gnnplan.planner.program.parts import Operator


class Label(IntEnum):
    """What a worker does about a row that it needs and does not own.

    `dropped` is said of edges, not of a row: a root or a residual may still ask for the row, and has it sent.
    """

    SENT = 0
    LATE = 1
    KEPT = 2
    SHARED = 3
    MADE = 4
    DROPPED = 5


TRAVELLING = (Label.SENT, Label.LATE, Label.KEPT, Label.SHARED)
KEEPING = (Label.KEPT, Label.SHARED)
"""Rows that stay where they came to, in a worker's own memory or in its host's, until they are refreshed."""
_NOTHING = (np.empty(0, np.int64), np.empty(0, np.uint8))


def brings(operator: Operator, labels: tuple[Label, ...]) -> bool:
    """Whether an operator is an exchange of rows with one of some labels."""
    names = [label.name.lower() for label in labels]
    return operator.kind == "exchange" and operator.attributes.get("label") in names


@dataclass(frozen=True)
class Labels:
    """Labels by (level, worker); a row without a mark is sent.

    Args:
        marks: ascending global vertices, and the label of each.
    """

    marks: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def marked(self, level: int, worker: int, vertices: np.ndarray, label: Label) -> Labels:
        """The labels with some vertices marked, where no greater label stands there."""
        if label is Label.SENT:  # the least of all, and what stands where nothing is marked
            return self
        old_ids, old_codes = self.marks.get((level, worker), _NOTHING)
        ids = _union(old_ids, vertices)
        codes = np.zeros(len(ids), np.uint8)
        codes[np.searchsorted(ids, old_ids)] = old_codes
        at = np.searchsorted(ids, vertices)
        codes[at] = np.maximum(codes[at], label)
        return Labels({**self.marks, (level, worker): (ids, codes)})

    def of(self, level: int, worker: int, vertices: np.ndarray) -> np.ndarray:
        """uint8: the label of every vertex."""
        ids, codes = self.marks.get((level, worker), _NOTHING)
        if not len(ids):
            return np.zeros(len(vertices), np.uint8)
        at = np.minimum(np.searchsorted(ids, vertices), len(ids) - 1)
        return np.where(ids[at] == vertices, codes[at], 0).astype(np.uint8)

    def vertices(self, level: int, worker: int, label: Label) -> np.ndarray:
        """int64: ascending vertices that have a label."""
        ids, codes = self.marks.get((level, worker), _NOTHING)
        return ids[codes == label]

    def signature(self, level: int) -> tuple:
        """Equal for levels whose labels are equal."""
        return tuple((worker, digest) for (at, worker), digest in self._digests.items() if at == level)

    @cached_property
    def _digests(self) -> dict[tuple[int, int], bytes]:
        """Of the marks of every level and worker that has some, in order."""
        return {
            key: hashlib.blake2b(ids.tobytes() + codes.tobytes(), digest_size=16).digest()
            for key, (ids, codes) in sorted(self.marks.items(), key=lambda item: item[0])
            if codes.any()
        }


def _union(ids: np.ndarray, others: np.ndarray) -> np.ndarray:
    """int64: the distinct ones of both, ascending; both mostly ascend already, which sorting gains by."""
    both = np.sort(np.concatenate([ids, others]).astype(np.int64), kind="stable")
    return both[np.diff(both, prepend=-1) > 0]
