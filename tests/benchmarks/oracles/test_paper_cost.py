"""The paper's cost is its formula on table 1's figures."""

import numpy as np
import pytest

from benchmarks._pruning import paper_cost_of
from benchmarks.oracles.paper_cost import ALPHA, paper_cost
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.techniques.pruning.adjust_halos import adjust_halos
from gnnplan.planner.techniques.pruning.pairs import Loads
from gnnplan.planner.techniques.pruning.prune import cost_of, owners_of
from gnnplan.profiles.catalog import catalog_profile
from tests.planner.techniques.pruning.cases import always_fits
from tests.planner.techniques.pruning.problems import candidate_of


def costs_of(*names):
    """Operators of catalog devices."""
    return [OperatorCosts.of(catalog_profile(name)) for name in names]


PAPER_CARDS = ("rtx-3090", "gtx-1660ti", "gtx-1650")
LOADS = Loads(np.array([30, 50]), np.array([[0, 9], [9, 0]]))
NUM_LOCAL, LOCAL_EDGES = np.array([100, 80]), np.array([700, 900])


def test_equal_devices_count_edges_and_vertices():
    """All ratios are 1: alpha |E_all| + (1 - alpha) |V| + |E_outer| (2 (1 - 1/2) + 1/2)."""
    lam = paper_cost(NUM_LOCAL, LOCAL_EDGES, costs_of("t4", "t4"))(LOADS)
    expected = [ALPHA * 730 + (1 - ALPHA) * 100 + 1.5 * 30, ALPHA * 950 + (1 - ALPHA) * 80 + 1.5 * 50]
    assert lam == pytest.approx(expected)


def test_ratios_are_those_of_table_1():
    """RTX 3090 beside A40, from the figures the paper prints."""
    lam = paper_cost(NUM_LOCAL, LOCAL_EDGES, costs_of("rtx-3090", "a40"))(LOADS)
    spmm, matmul, h2d, d2h = 0.10635 / 0.1198, 0.1387 / 0.1421, 1.0, 0.12075
    a40 = catalog_profile("a40").operators
    other = {name: max(p.median_s for p in a40[name].points if p.provenance == "published") for name in (
        "d2h_pageable", "idt")}  # fmt: skip
    outer = (h2d + d2h / max(d2h, other["d2h_pageable"])) * 0.5 + 0.0014 / max(0.0014, other["idt"]) * 0.5
    assert lam[0] == pytest.approx(ALPHA * 730 * spmm + (1 - ALPHA) * 100 * matmul + 30 * outer)


def test_a_cpu_copies_within_itself():
    """It has no H2D; its copies take that place, and a device as fast has the same cost."""
    card = catalog_profile("t4")
    inner = {name: table for name, table in card.operators.items() if name[:3] not in ("h2d", "d2h")}
    cpu = card.model_copy(update={"operators": inner, "device_kind": "cpu"})
    lam = paper_cost(NUM_LOCAL, LOCAL_EDGES, [OperatorCosts.of(cpu)] * 2)(LOADS)
    assert lam == pytest.approx(paper_cost(NUM_LOCAL, LOCAL_EDGES, costs_of("t4", "t4"))(LOADS))


def test_a_candidates_cost_counts_its_own_vertices_and_edges():
    """Those between vertices of one worker; halo rows are the loads'."""
    candidate = candidate_of(devices=("t4", "t4"))
    matrix, part = candidate.setting.matrix.tocoo(), owners_of(candidate)
    own = [int(((part[matrix.row] == w) & (part[matrix.col] == w)).sum()) for w in range(2)]
    expected = ALPHA * np.array(own) + (1 - ALPHA) * np.bincount(part)
    assert paper_cost_of(candidate).fixed == pytest.approx(expected)


def test_halos_can_be_adjusted_by_the_papers_cost():
    """Weak cards beside a strong one: the largest cost comes nearer to the mean."""
    candidate = candidate_of(devices=PAPER_CARDS)
    pairs, cost = cost_of(candidate).pairs, paper_cost_of(candidate)
    before, after = (cost(pairs.loads(kept)) for kept in (pairs.everything, adjust_halos(pairs, cost, always_fits)))
    assert after.max() / after.mean() < before.max() / before.mean()
    assert after.max() < before.max()
