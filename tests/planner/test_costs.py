"""Operators cost nothing where there is nothing to do, and never less where there is more."""

import pytest

from gnnplan.planner.costs import ZERO, OperatorCosts, total
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.errors import UserError

COST = OperatorCosts.of(catalog_profile("rtx-3090"))


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, 0, 8), (8, 8, 0)])
def test_an_operator_with_an_extent_of_zero_costs_nothing(shape):
    """Nothing to do takes no time and is no unprofiled shape."""
    assert COST("matmul_forward", *shape) == ZERO
    assert COST.spmm(*shape, 8) == COST.spmm_transposed(*shape, 8) == ZERO
    assert COST.copy(0) == ZERO


@pytest.mark.parametrize("operator", ["spmm", "spmm_transposed"])
def test_an_entry_takes_as_long_as_in_a_square_block_with_as_many_columns(operator):
    """Beside what a call takes anyway; the spread and the parts with it."""
    cost = getattr(COST, operator)
    square = COST(operator, 40_000, 20, 256)
    assert cost(40_000, 800_000, 256, 40_000) == square
    fixed_s = COST.curves[operator].fixed_s
    half = cost(20_000, 400_000, 256, 40_000)
    assert half.seconds == pytest.approx((square.seconds - fixed_s) / 2 + fixed_s)
    assert half.spread_s == pytest.approx(square.spread_s * half.seconds / square.seconds)
    assert half.parts == ((operator, pytest.approx(half.seconds)),)
    tall = cost(40_000, 800_000, 256, 512)  # a roofline knows no caches
    assert tall.seconds == pytest.approx(square.seconds, rel=0.05)


def test_on_a_cpu_rows_in_use_tell_how_long_an_entry_takes():
    """In tiles it does not matter how often a row is read, and on a GPU it was not measured."""
    tables = dict(COST.profile.operators)
    tables["spmm_tiled"] = tables["spmm"]
    cost = OperatorCosts.of(COST.profile.model_copy(update={"device_kind": "cpu", "operators": tables}))
    few = (40_000, 800_000, 128, 40_000)
    assert cost.spmm(*few, 0.5).seconds == pytest.approx(cost.spmm(20_000, 400_000, 128, 20_000).seconds * 2, rel=0.01)
    cut = (80_000, 8_000_000, 128, 80_000)
    assert cost.spmm(*cut, 0.5) == cost.spmm(*cut)
    assert COST.spmm(*few, 0.5) == COST.spmm(*few)


def test_totals_add_seconds_and_spreads_and_remember_guesses():
    """One unprofiled part makes the whole unprofiled."""
    parts = [Estimate(1.0, 0.25, False), Estimate(2.0, 0.5, True)]
    assert total(parts) == Estimate(3.0, 0.75, True)
    assert total([]) == ZERO


def test_operator_that_was_not_profiled_is_a_user_error():
    """An old or partial profile is named, with what to do."""
    profile = COST.profile.model_copy(update={"operators": {}})
    with pytest.raises(UserError, match=r"rtx-3090: operator 'loss' was not profiled; profile again"):
        OperatorCosts.of(profile)("loss", 10, 2)


def test_rows_in_memory_of_the_host_are_gathered_or_copied():
    """A CPU gathers them where they are; a GPU's pass its bus, as pageable memory does; none cost nothing."""
    cpu = OperatorCosts.of(catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu"}))
    assert cpu.to_region(100, 8) == cpu.from_region(100, 8) == cpu("gather_rows", 100, 8)
    assert COST.to_region(100, 8) == COST("d2h_pageable", 3200)
    assert COST.from_region(100, 8) == COST("h2d_pageable", 3200)
    assert COST.to_region(0, 8) == COST.from_region(0, 8) == ZERO


def test_a_product_that_is_cut_has_a_table_of_its_own():
    """On a CPU that was profiled with it; where rows fit a cache it is the whole matrix's there too."""
    on_cpu = catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1})
    tables = dict(on_cpu.operators)
    tables["spmm_tiled"] = tables["spmm"]
    cost = OperatorCosts.of(on_cpu.model_copy(update={"operators": tables}))

    def used(of: OperatorCosts, *shape: int) -> list[str]:
        return [name for name, _ in of.spmm_transposed(*shape).parts]

    cut = (80_000, 8_000_000, 128, 80_000)
    assert used(cost, *cut) == [name for name, _ in cost.spmm(*cut).parts] == ["spmm_tiled"]
    assert used(OperatorCosts.of(on_cpu), *cut) == ["spmm_transposed"]
    assert used(cost, 80_000, 8_000_000, 16, 80_000) == used(cost, 4000, 400_000, 128, 4000) == ["spmm_transposed"]
    assert used(COST, *cut) == ["spmm_transposed"]
