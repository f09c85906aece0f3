"""Small trainings in destination chunks."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.registry import technique
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import Case
from tests.planner.techniques.feature_slices.sliced import SHARES, choice, slices

LAYOUTS = ("rows", "columns", "grid")


def chunked(case: Case, layout: str, num_chunks: int, *extra: str, **decision) -> Cycle:
    """A case's program in chunks under a layout, with other techniques."""
    orders = {f"l{layer}/filter": order for layer, order in enumerate(case.orders)}
    if layout != "rows":
        num_groups = 1 if layout == "columns" or case.num_workers % 2 else 2
        laid_out = slices(SHARES[: case.num_workers], num_groups)
    else:
        decided = technique("halo_exchange").Decision()
        laid_out = Choice("halo_exchange", decided, {"part": case.part.astype(np.int32)})
    chunks = choice("destination_chunks", num_chunks=num_chunks, **decision)
    return composed(case, [laid_out, choice("operator_order", of=orders), chunks, *map(choice, extra)])
