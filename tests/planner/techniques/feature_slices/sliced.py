"""Small trainings under feature slices."""

from __future__ import annotations

from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.registry import technique
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import Case

SHARES = (3.0, 1.0, 2.0, 1.5)  # of workers, the first of them: no two have as much


def choice(name: str, **decision) -> Choice:
    return Choice(name, technique(name).Decision(**decision))


def sliced(case: Case, *extra: str, shares: tuple[float, ...] | None = None) -> Cycle:
    """A case's program in slices, with other techniques.

    Args:
        shares: by worker (None: uneven ones).
    """
    orders = {f"l{layer}/filter": order for layer, order in enumerate(case.orders)}
    shares = SHARES[: case.num_workers] if shares is None else shares
    base = [choice("feature_slices", shares=shares), choice("operator_order", of=orders)]
    return composed(case, [*base, *map(choice, extra)])
