"""Boundary sampling by counts alone: of each draw a share p of the halo rows, and of the edges from them."""

from __future__ import annotations

import re

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.resized import with_part

_OF_DRAW = re.compile(r"/draw\d+(?=$|[/ \[])")
"""As `sample_halos` names what belongs to a draw."""


def with_counts_of_draws(cycle: Cycle, counts: Counts, probability: float) -> Cycle:
    """The program with the counts of its draws, where the layout has given each those of the whole graph."""
    return with_part(cycle, lambda name: bool(_OF_DRAW.search(name)), probability, counts.own)
