"""Norms are priced by their tables. What no profile times is priced by passes over its rows, and said to be a guess."""

import pytest

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator, Space, Value
from gnnplan.planner.readers.cost import COLLECTIVES, COSTS
from gnnplan.planner.readers.cost_module import COPIES, NORMS
from gnnplan.profiles.catalog import catalog_profile

PROFILE = catalog_profile("t4")
T4 = OperatorCosts.of(PROFILE)
OLDER = OperatorCosts.of(
    PROFILE.model_copy(
        update={"operators": {name: table for name, table in PROFILE.operators.items() if "norm" not in name}}
    )
)
ROWS, WIDTH = 20_000, 64
SPACES = {"own": Space("own", (ROWS,), (ROWS,), 0), **{f"r{n}": Space(f"r{n}", (n,)) for n in (1, 2, 3)}}
VALUES = {
    name: Value(name, space, WIDTH)
    for name, space in (("x", "own"), ("y", "own"), ("moments", "r3"), ("statistics", "r2"), ("base", "own"))
}
CYCLE = Cycle(1, values=VALUES, spaces=SPACES)


def seconds(kind, reads, writes=("y",), of=T4, **attributes):
    return COSTS[kind](CYCLE, Operator("op", kind, reads, writes, attributes), 0, of)


def test_every_kind_has_a_price():
    """Once: an operator's own, or that of a collective."""
    concrete = {name for name, kind in KINDS.items() if not kind.is_abstract}
    assert COSTS.keys() | COLLECTIVES.keys() >= concrete


@pytest.mark.parametrize("kind", [*COPIES, "elementwise", "elementwise_grad"])
def test_it_is_a_guess(kind):
    """Of seconds that grow with the rows."""
    estimate = seconds(kind, ("x", "x", "x"))
    assert estimate.unprofiled
    assert 0.3 < estimate.seconds / T4.copy(ROWS * WIDTH).seconds < 5


@pytest.mark.parametrize("kind", NORMS)
def test_norms_have_tables(kind):
    """Of as many elements as there are in the rows, though moments are few."""
    moments = ("y",) if kind != "moments" else ("moments",)
    estimate = seconds(kind, ("x", "x") if kind != "moments_grad" else ("moments", "x"), moments)
    assert not estimate.unprofiled
    assert estimate.seconds == T4(NORMS[kind][0], ROWS * WIDTH).seconds


@pytest.mark.parametrize("kind", ["layer_norm", "layer_norm_grad", "batch_norm", "batch_norm_grad"])
def test_of_an_older_profile_norms_are_guessed(kind):
    """It knows copies."""
    estimate = seconds(kind, ("x", "x"), of=OLDER)
    assert estimate.unprofiled
    assert estimate.seconds == OLDER.copy(NORMS[kind][1] * ROWS * WIDTH).seconds


def test_statistics_are_small():
    """They are of columns, not of rows."""
    assert seconds("statistics", ("moments",), ("statistics",)).seconds < seconds("moments", ("x",)).seconds


def test_copies_are_profiled():
    """Columns put side by side, and taken out again."""
    for kind in ("concat", "columns"):
        estimate = seconds(kind, ("x",), widths=(WIDTH,), start=0, stop=WIDTH)
        assert not estimate.unprofiled
        assert estimate.seconds == T4.copy(ROWS * WIDTH).seconds


def test_weights_are_copied_into_their_stack():
    """Each of their numbers once."""
    assert seconds("stack", ("x", "x"), ("y",)).seconds == T4.copy(ROWS * WIDTH).seconds
