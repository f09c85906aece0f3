"""The paper's cost is its formula on table 1's figures."""

import numpy as np
import pytest

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.rapa.adjust_halos import adjust_halos
from gnnplan.planner.rapa.pairs import HaloPairs, Loads
from gnnplan.planner.rapa.paper import ALPHA, paper_cost
from gnnplan.planner.shapes import WorkerShape
from gnnplan.profiles.catalog import catalog_profile
from tests.planner.rapa.cases import always_fits
from tests.planner.rapa.problems import GRAPH, problem_of, trial_of


def shape_of(num_local, local_edges):
    """A share without what the formula does not look at."""
    return WorkerShape(
        num_local=num_local,
        num_halo=0,
        num_sent=0,
        local_edges=local_edges,
        remote_edges=0,
        num_train=0,
        hop_entries=(0, 0),
    )


def costs_of(*names):
    """Operators of catalog devices."""
    return [OperatorCosts.of(catalog_profile(name)) for name in names]


PAPER_CARDS = ("rtx-3090", "gtx-1660ti", "gtx-1650")
LOADS = Loads(np.array([30, 50]), np.array([[0, 9], [9, 0]]))
SHAPES = [shape_of(100, 700), shape_of(80, 900)]


def test_equal_devices_count_edges_and_vertices():
    """All ratios are 1: alpha |E_all| + (1 - alpha) |V| + |E_outer| (2 (1 - 1/2) + 1/2)."""
    lam = paper_cost(SHAPES, costs_of("t4", "t4"))(LOADS)
    expected = [ALPHA * 730 + (1 - ALPHA) * 100 + 1.5 * 30, ALPHA * 950 + (1 - ALPHA) * 80 + 1.5 * 50]
    assert lam == pytest.approx(expected)


def test_ratios_are_those_of_table_1():
    """RTX 3090 beside A40, from the figures the paper prints."""
    lam = paper_cost(SHAPES, costs_of("rtx-3090", "a40"))(LOADS)
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
    lam = paper_cost(SHAPES, [OperatorCosts.of(cpu)] * 2)(LOADS)
    assert lam == pytest.approx(paper_cost(SHAPES, costs_of("t4", "t4"))(LOADS))


def test_halos_can_be_adjusted_by_the_papers_cost():
    """Weak cards beside a strong one: the largest cost comes nearer to the mean."""
    trial = trial_of(problem_of(devices=PAPER_CARDS))
    pairs, cost = HaloPairs.of(GRAPH, trial.halo), paper_cost(trial.shapes, costs_of(*PAPER_CARDS))
    before, after = (cost(pairs.loads(kept)) for kept in (pairs.everything, adjust_halos(pairs, cost, always_fits)))
    assert after.max() / after.mean() < before.max() / before.mean()
    assert after.max() < before.max()
