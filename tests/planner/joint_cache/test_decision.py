"""Which halo rows travel follows from the decision and the epoch's number alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.job import ModelSpec
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.steps import LayerDecision, build_program


def steps_of(order, **model):
    """(fixed step, step of embeddings) of a two-layer GCN that aggregates at both."""
    layers = (LayerDecision(op_order=order),) * 2
    program = build_program(ModelSpec(**model), layers, num_features=4, num_classes=2, sparse_input=False)
    return [step for step in program.steps if step.op == "aggregate"]


FIXED, EMBEDDING = steps_of("aggregate_first")
WHOLE = {"num_rows": (2, 3), "fresh_counts": ((0, 0), (0, 0))}
PART = {"num_rows": (2, 3), "fresh_counts": ((0, 1), (0, 0))}


def test_input_features_are_fixed_without_dropout_on_them():
    """Aggregated features are fixed; what weights went into is not, nor what input dropout changes."""
    assert (FIXED.fixed, EMBEDDING.fixed) == (True, False)
    assert not any(step.fixed for step in steps_of("multiply_first"))
    assert not any(step.fixed for step in steps_of("aggregate_first", input_dropout=0.1))


@pytest.mark.parametrize("refresh", [True, False])
def test_nothing_kept_is_the_plain_exchange(refresh):
    """With capacity zero all rows travel in every epoch."""
    for cache in (NO_CACHE, CacheDecision(refresh_interval=4, num_rows=(0, 0), fresh_counts=((0, 2), (3, 0)))):
        assert not cache.is_stale
        for step in (FIXED, EMBEDDING):
            assert cache.travel(step, refresh=refresh) == "all"


@pytest.mark.parametrize(("cache", "reused"), [(WHOLE, "none"), (PART, "fresh")])
def test_embeddings_travel_when_refreshed_and_features_never_again(cache, reused):
    """At r = 1 embeddings always travel; above, only rows that are not kept do between refreshes."""
    exact, stale = (CacheDecision(refresh_interval=r, **cache) for r in (1, 4))
    for decision in (exact, stale):
        assert {decision.travel(FIXED, refresh=refresh) for refresh in (True, False)} == {reused}
        assert decision.travel(EMBEDDING, refresh=True) == "all"
    assert exact.travel(EMBEDDING, refresh=False) == "all"
    assert stale.travel(EMBEDDING, refresh=False) == reused
    assert (exact.is_stale, stale.is_stale) == (False, True)


def test_features_are_exchanged_where_they_are_not_to_be_kept():
    """Then a cache of embeddings leaves them alone."""
    cache = CacheDecision(refresh_interval=4, keeps_features=False, **WHOLE)
    assert cache.travel(FIXED, refresh=False) == "all"
    assert cache.travel(EMBEDDING, refresh=False) == "none"


@given(st.integers(1, 9), st.integers(0, 100))
def test_no_embedding_is_older_than_the_interval(interval, epoch):
    """Any r epochs in a row hold exactly one refresh, and the first epoch is one."""
    cache = CacheDecision(refresh_interval=interval)
    assert sum(cache.refreshes(e) for e in range(epoch, epoch + interval)) == 1
    assert cache.refreshes(0)
