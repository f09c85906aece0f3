"""Charges: alone they are exact for one, shared they never exceed what a set costs together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.dependencies import Rates
from tests.planner.hybrid.workers import RATES, workers

COMPUTING_ONLY = {"row_s": (0.0, 0.0, 0.0)}


@settings(max_examples=100, deadline=None)
@given(workers(), RATES)
def test_the_charge_alone_is_what_one_costs(worker, rates):
    """Time and bytes of its closure, replica by replica."""
    closure = build_closure(worker.near, worker.levels, worker.dependencies, rates)
    benefit_s = worker.dependencies.communicated_s(rates) - worker.dependencies.alone.seconds(rates)
    for dependency in range(len(worker.dependencies)):
        held = Held.of(closure, np.array([dependency]))
        assert held.saved_s == pytest.approx(benefit_s[dependency], abs=1e-15)
        assert held.num_bytes == worker.dependencies.alone.num_bytes[dependency]


@settings(max_examples=100, deadline=None)
@given(workers(), RATES, st.data())
def test_a_set_costs_between_its_shared_and_its_lone_charges(worker, rates, data):
    """Overlaps only make it cheaper than the sum of its parts, and never cheaper than equal shares."""
    size = len(worker.dependencies)
    chosen = np.array(data.draw(st.lists(st.integers(0, size - 1), unique=True)) if size else [], np.int64)
    computing = rates.model_copy(update=COMPUTING_ONLY)
    held = Held.of(build_closure(worker.near, worker.levels, worker.dependencies, computing), chosen)
    shared, alone = worker.dependencies.shared, worker.dependencies.alone
    slack = 1 + 1e-9
    assert shared.seconds(rates)[chosen].sum() <= -held.saved_s * slack + 1e-15
    assert -held.saved_s <= alone.seconds(rates)[chosen].sum() * slack + 1e-15
    assert shared.num_bytes[chosen].sum() <= held.num_bytes * slack
    assert held.num_bytes <= alone.num_bytes[chosen].sum()


@settings(max_examples=50, deadline=None)
@given(workers())
def test_all_together_pay_the_shared_charges(worker):
    """Where everything is cached every replica is paid in full, once."""
    computing = Rates(vertex_s=1.0, edge_s=1.0, **COMPUTING_ONLY)
    closure = build_closure(worker.near, worker.levels, worker.dependencies, computing)
    held = Held.of(closure, np.arange(len(worker.dependencies)))
    assert worker.dependencies.shared.seconds(computing).sum() == pytest.approx(-held.saved_s)
    assert worker.dependencies.shared.num_bytes.sum() == pytest.approx(held.num_bytes)


@settings(max_examples=50, deadline=None)
@given(workers())
def test_there_is_one_for_each_halo_vertex_and_level_that_travels(worker):
    """In the halo's order, level by level."""
    widths, halo = worker.levels.row_widths[worker.levels.first :], worker.block.halo
    assert worker.dependencies.row_width.tolist() == [width for width in widths for _ in halo]
    assert worker.dependencies.owner.tolist() == worker.block.halo_owner.tolist() * len(widths)
