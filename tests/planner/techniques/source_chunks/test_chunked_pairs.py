"""Chunks beside every technique that they combine with."""

import numpy as np
import pytest

from gnnplan.planner.composition.refusals import fidelity_of, refusals
from gnnplan.planner.fidelity import ANY, Fidelity
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.sharing import Contents, share_equal_arrays
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import NUM_NODES
from tests.planner.techniques.source_chunks.chunked import ORDERS, Chunked, chosen

CLOSE, NUM_WORKERS = 1e-7, 3
SPLIT = Chunks(num_chunks=3, seed=1)
ROWS = {
    "replicas": "made",
    "feature_cache": "kept",
    "host_region": "shared",
    "joint_cache": "kept",
    "pruning": "dropped",
}
EXACT = ("sparse_features", "replicas", "feature_cache", "host_region", "first_aggregation", "overlap")
ON_CONSTANTS = ("feature_cache", "first_aggregation")  # which GAT has none of


def beside(name, model, **decision):
    """A technique on a random share of all rows, of features alone where it is about them."""
    if name not in ROWS:
        return chosen(name, **decision)
    levels = 1 if name == "feature_cache" else 2 if model == "gat" else 3
    mask = np.random.default_rng(len(name)).random((levels, NUM_WORKERS, NUM_NODES)) < 0.4
    return chosen(name, {ROWS[name]: np.argwhere(mask).T.astype(np.int32)}, **decision)


def pair(name, model, **decision):
    order = "aggregated" if name in ON_CONSTANTS else "multiplied"
    return Chunked(model, SPLIT, NUM_WORKERS, orders=ORDERS[order], beside=(beside(name, model, **decision),))


def acts(chunked):
    """Whether each of the two changes the programs beside the other."""
    both = chunked.choices()
    whole = composed(chunked.case, both)
    for name in ("source_chunks", chunked.beside[0].technique):
        without = composed(chunked.case, [each for each in both if each.technique != name])
        if (whole.programs, whole.values, whole.blocks) == (without.programs, without.values, without.blocks):
            return False
    return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "model"),
    [(name, model) for name in EXACT for model in ("gcn", "gat") if model == "gcn" or name not in ON_CONSTANTS],
)
def test_what_is_exact_changes_no_number(name, model):
    """Three workers with both are the oracle, which has neither workers nor the other technique."""
    chunked = pair(name, model)
    assert acts(chunked)
    assert chunked.off() < CLOSE


@pytest.mark.long
@pytest.mark.parametrize("model", ["gcn", "gat"])
@pytest.mark.parametrize(("name", "decision"), [("joint_cache", {"interval": 2}), ("pruning", {})])
def test_what_is_not_exact_acts(name, decision, model):
    """Numbers move, and not far: rows are dropped or old beside the chunks."""
    chunked = pair(name, model, **decision)
    assert acts(chunked)
    assert 1e-6 < chunked.off() < 1


def test_uneven_shares_are_those_of_the_cases():
    """Worker 0 owns nearly twice what the last one does, in all tests here."""
    part = Chunked("gcn", SPLIT, NUM_WORKERS).case.part
    assert np.bincount(part).max() > 1.8 * np.bincount(part).min()


def test_kept_rows_are_as_many_passes_old():
    """An interval counts epochs of a program, of which a pass has B."""
    choices = pair("joint_cache", "gcn", interval=2).choices()
    cache = choices[-1]
    assert fidelity_of(cache, choices) == Fidelity("stale", 6)
    assert not refusals(choices, Fidelity("stale", 6))
    assert refusals(choices, Fidelity("stale", 5)) == (
        "joint_cache is stale(6), where at most stale(5) is allowed; leave it out, or allow stale(6)",
    )
    assert len(Chunked("gcn", SPLIT, NUM_WORKERS, beside=(cache,)).cycle().order) == 6


@pytest.mark.parametrize("name", ["partial_reduce", "feature_slices"])
def test_what_is_refused_says_why(name):
    """Who lags behind would go on with rows of a pass ago; slices of columns have no halo rows."""
    choices = [each for each in pair("overlap", "gcn").choices() if each.technique != "overlap"]
    if name == "feature_slices":
        choices = [each for each in choices if each.technique != "halo_exchange"]
    (reason,) = refusals([*choices, chosen(name)], ANY)
    assert {"partial_reduce": "both claim step rule", "feature_slices": "needs halo rows"}[name] in reason


def test_kept_rows_of_several_divisions_are_older():
    """They come again with the whole cycle: 3 chunks by 2 divisions by 2 passes."""
    split = Chunks(num_chunks=3, seed=1, num_shuffles=2)
    choices = Chunked("gcn", split, NUM_WORKERS, beside=(beside("joint_cache", "gcn", interval=2),)).choices()
    assert fidelity_of(choices[-1], choices) == Fidelity("stale", 12)


def test_features_of_every_chunk_are_sent_once():
    """Attention that sums them first gathers another part of them in each step; all parts are received in the setup."""
    once = (chosen("first_aggregation"),)
    chunked = Chunked("one head", SPLIT, NUM_WORKERS, orders=ORDERS["aggregated"], beside=once)
    cycle = chunked.cycle()
    exchanges = [op for op in cycle.programs["setup"] if op.kind == "exchange"]
    assert len(exchanges) == len({op.key for op in exchanges}) == SPLIT.num_chunks
    CycleDocument.of(share_equal_arrays(cycle, Contents()))
    assert chunked.off(cycle) < CLOSE
