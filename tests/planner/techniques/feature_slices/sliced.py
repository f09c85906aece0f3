"""Small trainings under feature slices."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.registry import technique
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import NUM_NODES, Case

SHARES = (3.0, 1.0, 2.0, 1.5, 0.5, 2.5)  # of workers, the first of them: no two have as much


def choice(name: str, **decision) -> Choice:
    return Choice(name, technique(name).Decision(**decision))


def slices(shares, num_groups: int = 1) -> Choice:
    """Feature slices with shares by worker; of several groups the first has more rows than others."""
    drawn = np.random.default_rng(7).random(NUM_NODES) ** 1.5
    part = (drawn * num_groups).astype(np.int32) if num_groups > 1 else np.empty(0, np.int32)
    decision = technique("feature_slices").Decision(shares=shares, num_groups=num_groups)
    return Choice("feature_slices", decision, {"group": part})


def sliced(case: Case, *extra: str, shares: tuple[float, ...] | None = None, num_groups: int = 1) -> Cycle:
    """A case's program in slices, with other techniques.

    Args:
        shares: by worker (None: uneven ones).
        num_groups: of workers.
    """
    orders = {f"l{layer}/filter": order for layer, order in enumerate(case.orders)}
    shares = SHARES[: case.num_workers] if shares is None else shares
    base = [slices(shares, num_groups), choice("operator_order", of=orders)]
    return composed(case, [*base, *map(choice, extra)])
