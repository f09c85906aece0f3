"""`torchrun -m benchmarks._in_training_worker FOLDER --grid NAME`: a profiling worker that may time as it once did."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import torch

from gnnplan.profiles import collectives, operators, worker
from gnnplan.profiles.measure import SWEPT_ELEMENTS

REPEATING = "GNNPLAN_BENCHMARK_REPEATING"
"""Set in its environment, calls repeat the last one: operators on one set of operands, collectives right after another,
of which the median counts."""


def main() -> None:
    """As `gnnplan.profiles.worker`, one way or the other."""
    if os.environ.get(REPEATING):
        setattr(operators, "in_turn", lambda calls: calls[0])  # noqa: B010  mypy holds functions to be constant
        setattr(collectives, "_computing", lambda _: _sweeping())  # noqa: B010
        setattr(collectives, "_middle_s", lambda samples: float(np.median(samples)))  # noqa: B010
    worker.main()


def _sweeping() -> Callable[[], object]:
    swept = torch.zeros(SWEPT_ELEMENTS)
    return lambda: swept.add_(1)


if __name__ == "__main__":
    main()
