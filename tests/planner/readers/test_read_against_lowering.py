"""A program that is read costs what the lowering that it replaces said of the same training."""

import numpy as np
import pytest
from reader_cases import Case, placement_of

from gnnplan.planner.network import Network
from gnnplan.planner.readers.cost import sent_bytes
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import CpuQuota

CLOSE = 1e-4  # relative; what is left is that every task's seconds are rounded to nanoseconds
ORDERS = [("multiply_first", False), ("aggregate_first", False), ("aggregate_first", True)]


def is_possible(case):
    """Sparse features are aggregated once; twice not among several workers, where nobody counts the entries."""
    if not case.sparse or case.order == "multiply_first":
        return True
    return case.precompute and (case.kind != "tagcn" or case.num_workers == 1)


CASES = [
    case
    for kind in ("gcn", "sage", "gin", "tagcn")
    for num_workers in (1, 2, 3)
    for order, precompute in ORDERS
    for sparse in (False, True)
    for overlap in (False, True)
    if is_possible(case := Case(kind, num_workers, order, precompute, sparse, overlap, dropout=0.5 * sparse))
]


def seconds_by_worker(schedule):
    """[2, W]: what every worker computes and communicates."""
    found = np.zeros((2, schedule.num_workers))
    for task in schedule.tasks:
        found[int(task.category == "communicate"), task.worker] += task.seconds
    return found


def assert_same(case, placement):
    """Epoch, each worker's seconds, bytes, quotas."""
    cycle, old = case.cycle(), case.old(placement)
    found, wanted = schedule_of(cycle, "train", placement), old.lower()
    np.testing.assert_allclose(seconds_by_worker(found), seconds_by_worker(wanted), rtol=CLOSE)
    np.testing.assert_allclose(play_epochs(found).median_epoch_s, play_epochs(wanted).median_epoch_s, rtol=CLOSE)
    np.testing.assert_array_equal(sent_bytes(cycle, "train"), old.sent_bytes)
    assert found.quotas == wanted.quotas
    return found, wanted


@pytest.mark.parametrize("case", CASES, ids=str)
def test_epoch_seconds_and_bytes_are_the_same(case):
    """On uneven devices and shares; several workers do send something."""
    found, _ = assert_same(case, placement_of(case.num_workers, bytes_per_s=1e9))
    assert any(task.group >= 0 for task in found.tasks) == (case.num_workers > 1)


@pytest.mark.parametrize("bytes_per_s", [1e7, 1e12])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("kind", ["gcn", "sage", "tagcn"])
def test_they_are_the_same_on_slow_and_fast_networks(kind, overlap, bytes_per_s):
    """Where the network sets the epoch, and where computing does."""
    assert_same(Case(kind, 3, "aggregate_first", overlap=overlap), placement_of(3, bytes_per_s=bytes_per_s))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("quota", [None, CpuQuota(share=0.4, period_s=2e-4)])
def test_they_are_the_same_where_exchanges_use_the_processor(quota, overlap, monkeypatch):
    """Under a quota, and on a CPU without one, what exchanges are charged is lacking beside them."""
    charges = [Estimate(2e-4, 0.0, rank == 1) for rank in range(3)]
    monkeypatch.setattr(Network, "all_to_all_processor", lambda *_: charges)
    placement = placement_of(3, device_kind="cpu", cpu_quota=quota, num_threads=2)
    found, wanted = assert_same(Case("sage", 3, "multiply_first", overlap=overlap), placement)
    assert bool(found.quotas) == bool(quota or overlap)
    for schedule in (found, wanted):
        charged = [task for task in schedule.tasks if "exchange" in task.key]
        assert {(task.processor_s, task.unprofiled) for task in charged} == {(1e-4, True)}
        assert [task.charged for task in charged] == [task.worker for task in charged]


def test_attention_sends_the_same_and_costs_nearly_the_same():
    """Tasks of a program start one by one; local and halo rows are put together by the lowering alone."""
    placement = placement_of(3)
    case = Case("gat", 3)
    cycle, old = case.cycle(), case.old(placement)
    found, wanted = (seconds_by_worker(each) for each in (schedule_of(cycle, "train", placement), old.lower()))
    np.testing.assert_array_equal(sent_bytes(cycle, "train"), old.sent_bytes)
    np.testing.assert_allclose(found[1], wanted[1], rtol=CLOSE)
    np.testing.assert_allclose(found[0], wanted[0], rtol=0.05)


def test_features_that_are_kept_travel_in_the_setup():
    """What is aggregated once is exchanged once."""
    (plain, kept) = (Case("gcn", 2, "aggregate_first", precompute).cycle() for precompute in (False, True))
    saved = sent_bytes(plain, "train") - sent_bytes(kept, "train")
    assert saved.min() > 0
    np.testing.assert_array_equal(sent_bytes(kept, "setup"), saved)
