"""Splits of a partition's dependencies: their sizes, what travels and what they need, and each worker's own choice."""

import numpy as np
import pytest

from gnnplan.planner.hybrid.memory import Staging
from gnnplan.planner.job import Job
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.hybrid_trial import HybridTrial
from gnnplan.planner.strategies.trial import Trial
from gnnplan.profiles.machine import Link
from tests.planner.hybrid.shares import AFTER, CASES, SPEC, Shares

LAYERS = (AFTER, AFTER)


def hybrid_of(kind="gcn", layers=LAYERS, **changes):
    """(what is tested, the partition that it is made of)."""
    shares = Shares(kind, layers, **changes)
    part = np.empty(shares.graph.num_nodes, np.int32)
    for rank, block in enumerate(shares.halo.blocks):
        part[block.vertices] = rank
    problem = Problem(shares.graph, Job(graph=SPEC, model=shares.model), shares.placement)
    trial = Trial(problem, part, shares.halo, shares.sparse)
    return HybridTrial(trial, shares.layers, shares.matrix), shares


def sent_bytes(trial, layers):
    lowering = trial.lowering(layers)
    lowering.lower()
    return lowering.sent_bytes.tolist()


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_a_split_has_the_sizes_of_its_rows(kind, layers):
    """Level by level; dense inputs have all features of own rows and replicas."""
    hybrid, shares = hybrid_of(kind, layers)
    masks = shares.masks(0.4)
    made, expected = hybrid.split_into(masks).replicated, shares.replicas(masks)
    assert hybrid.levels == shares.levels
    assert (made.replicas.first, made.replicas.row_counts) == (expected.first, expected.row_counts)
    assert made.cached.shape == (3, sum(int(mask.sum()) for mask in masks))
    for rank, (ours, theirs) in enumerate(zip(made.replicas.workers, expected.workers, strict=True)):
        assert ours.levels == theirs.levels
        num_rows = shares.shapes[rank].num_local + expected.num_replicas(rank, expected.first)
        assert set(ours.input_entries) == {num_rows * SPEC.num_features}


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_what_is_cached_does_not_travel(kind, layers):
    """Everything cached: not a byte of rows; nothing cached: those of the plain exchange."""
    hybrid, _ = hybrid_of(kind, layers)
    assert sent_bytes(hybrid.split_into(hybrid.everything), layers) == [0] * hybrid.num_workers
    plain = sent_bytes(hybrid.trial, layers)
    assert sent_bytes(hybrid.split_into(hybrid.nothing), layers) == plain
    assert min(plain) > 0


def test_where_nothing_may_be_cached_only_the_halo_is_staged():
    """Without a row to make anything from."""
    hybrid, shares = hybrid_of()
    made = hybrid.split_into(hybrid.nothing).replicated
    assert made.staging == tuple(Staging(len(block.halo), 0, 0, 0) for block in shares.halo.blocks)
    assert made.most == made.replicas
    assert made.cached.shape == made.staged.shape == (3, 0)


def test_what_may_be_cached_later_takes_memory_now():
    """The plan is the same; every worker holds what it could make rows from, and has room for the most of them."""
    layers = (AFTER, AFTER, AFTER)
    hybrid, shares = hybrid_of(layers=layers)
    cached = shares.masks(0.2)
    fixed, online = hybrid.split_into(cached), hybrid.split_into(cached, hybrid.everything)
    assert online.replicated.replicas == fixed.replicated.replicas
    assert fixed.replicated.staged.shape == (3, 0)
    sizes = [mask.size for mask in hybrid.everything]
    assert online.replicated.staged.shape == (3, sum(sizes))
    assert [staging.num_dependencies for staging in online.replicated.staging] == sizes
    assert [staging.num_dependencies for staging in fixed.replicated.staging] == [0] * len(sizes)
    for more, less in zip(online.memory(layers), fixed.memory(layers), strict=True):
        assert more.peak_bytes > less.peak_bytes
    assert online.epoch_s(layers) == fixed.epoch_s(layers)


def test_a_workers_choice_costs_what_its_split_does():
    """Over a slow link it gains by caching, within its budget; less room gains no more; it is made once."""
    hybrid, _ = hybrid_of(link=Link(bytes_per_s=1e6))
    rates, _ = hybrid.predicted
    for rank, mask in enumerate(hybrid.nothing):
        rich = hybrid.decide(rank, 1e9)
        assert hybrid.decide(rank, 1e9) is rich
        work = hybrid.work(rank, rich.cached.reshape(mask.shape))
        assert work.saved_s(rates[rank]) == pytest.approx(rich.saved_s)
        assert work.num_bytes == pytest.approx(rich.num_bytes)
        assert 0 < rich.saved_s <= rich.bound_s
        poor = hybrid.decide(rank, rich.num_bytes / 2)
        assert poor.num_bytes <= rich.num_bytes / 2
        assert poor.saved_s <= rich.saved_s * (1 + 1e-9)


def test_a_worker_alone_depends_on_nobody():
    """There is nothing to cache, no link to be slow, and one split."""
    hybrid, _ = hybrid_of(num_workers=1)
    assert [mask.shape for mask in hybrid.everything] == [(len(LAYERS), 0)]
    (rates,), latency_s = hybrid.predicted
    assert (rates.row_s, latency_s) == ((0.0,), 0.0)
    assert min(rates.vertex_s, rates.edge_s) > 0
    all_of, none = (hybrid.split_into(masks).replicated for masks in (hybrid.everything, hybrid.nothing))
    assert all_of.replicas == none.replicas
    assert hybrid.work(0, hybrid.everything[0]).num_bytes == 0
