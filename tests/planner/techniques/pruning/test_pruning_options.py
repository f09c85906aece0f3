"""What the search prunes: where it makes an epoch shorter or a plan fit, and only where the job asks for it."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.pruning.technique import Pruned, Pruning
from gnnplan.profiles.errors import NoPlanFitsError
from tests.planner.search.searched import KINDS, found, placement_of
from tests.planner.techniques.pruning.problems import keeping

UNEVEN = {"balance": "equal", "partitioner": "metis", "num_workers": 4, "dependencies": "communicate"}
SLOW = {"bytes_per_s": 1e9}


def pruned_on(cluster="contrary", graph="skewed", *, kind="gcn", on=SLOW, **pin):
    """What the search finds where it may prune; equal shares on uneven devices unless pinned otherwise."""
    model = ModelSpec(kind=kind, hidden_channels=32)
    pin = UNEVEN | {"prune": "rapa"} | pin
    return found(graph, cluster, model=model, fidelity="approximate", on=on, **pin)


def halo_rows(candidate):
    """Rows that travel in an epoch that refreshes."""
    return sum(route.counts.sum() for route in candidate.cycle.routes.values())


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_pruning_shortens_the_epoch_where_devices_are_uneven(kind):
    """Less is sent and gathered; the same without pruning takes longer, and no candidate is below the bound."""
    result = pruned_on(kind=kind)
    best, whole = result.best, pruned_on(kind=kind, prune="none").best
    pruned = best.choice("pruning")
    assert pruned
    assert pruned.decision.num_vertices > 0
    assert whole.choice("pruning") is None
    assert best.epoch_s < whole.epoch_s
    assert halo_rows(best) < halo_rows(whole)
    assert pruned.decision.uneven_after < pruned.decision.uneven_before
    assert best.epoch_s <= min(each.epoch_s for each in result.looked_at) * (1 + 1e-9)
    assert min(each.epoch_s for each in result.looked_at) >= result.bound.seconds


@pytest.mark.long
def test_pruning_can_be_forbidden():
    """A job that would allow it is planned as an exact one; one that says nothing as one that asks for it."""
    forbidden, asked, open_ = (pruned_on(prune=each) for each in ("none", "rapa", None))
    assert not any(each.choice("pruning") for each in forbidden.looked_at)
    assert open_.best.choice("pruning")
    assert open_.best.epoch_s == asked.best.epoch_s


def test_where_pruning_makes_nothing_faster_no_edge_is_dropped():
    """Behind a network that hides nothing of the computation equal devices with equal parts keep what they have."""
    result = pruned_on("host", "sbm", on={"bytes_per_s": 1e12}, prune="rapa")
    without = pruned_on("host", "sbm", on={"bytes_per_s": 1e12}, prune="none")
    assert result.best.epoch_s <= without.best.epoch_s
    chosen = result.best.choice("pruning")
    assert chosen is None or chosen.decision.vertex_share < 0.25


@pytest.mark.long
def test_all_workers_are_weighed_against_fewer():
    """Pruning makes no plan slower than the best one of any workers without it."""
    on = {"balance": None, "num_workers": None}
    assert pruned_on("mixed", **on).best.epoch_s <= pruned_on("mixed", prune="none", **on).best.epoch_s


@pytest.mark.long
def test_what_is_made_once_keeps_its_edges():
    """Where the features are aggregated before training, nothing is pruned of that aggregation; else at every level."""
    once, every = pruned_on(precompute=True).best, pruned_on(precompute=False, feature_cache=False).best
    assert set(once.choice("pruning").arrays["dropped"][0].tolist()) == {1}
    assert set(every.choice("pruning").arrays["dropped"][0].tolist()) == {0, 1}
    first, second = (sum(once.cycle.blocks[name].num_edges) for name in ("A@0", "A@1"))
    assert first == once.setting.matrix.nnz == second + once.choice("pruning").decision.num_edges


@pytest.mark.long
def test_rows_that_are_kept_are_known_to_what_is_pruned():
    """A plan that keeps rows too prunes by what they cost then, and is no slower than with either alone."""
    stale = {"refresh_interval": 4, "overlap": False}
    both, kept = (pruned_on(prune=prune, **stale).best for prune in ("rapa", "none"))
    assert kept.choice("joint_cache")
    assert both.choice("joint_cache")
    assert both.choice("pruning")
    assert both.epoch_s <= min(kept.epoch_s, pruned_on(overlap=False).best.epoch_s)
    dropped, rows = both.choice("pruning").arrays["dropped"], both.choice("joint_cache").arrays["kept"]
    assert dropped.size
    assert rows.size


def test_the_same_candidate_is_pruned_alike():
    """So the search composes it once; other choices beside it are other arrays."""
    whole = pruned_on(prune="none", overlap=False).best
    job = whole.setting.job.model_copy(update={"pin": whole.setting.job.pin.model_copy(update={"prune": "rapa"})})
    setting = _with_job(whole, job)
    candidate = compose_candidate(setting, whole.choices)
    first, again = ([*Pruning().options(setting, candidate)] for _ in range(2))
    assert first[0] is None
    assert first[1].key == again[1].key
    stale = keeping(candidate, 4)
    assert [*Pruning().options(setting, stale)][1].key != first[1].key
    assert [*Pruning().options(setting, None)] == [None]


@pytest.mark.long
def test_a_plan_may_fit_by_pruning_alone():
    """With less memory than any plan needs whose halos are whole; the message names what is missing without it."""
    on = {"overlap": False, "precompute": False, "num_workers": 4}
    lean = pruned_on("host", "wide", prune="none", **on).looked_at
    most = min(max(int(memory.peak_bytes) for memory in each.memory) for each in lean)
    tight = {"bytes_per_s": 1e9, "memory_bytes": most - 1}
    with pytest.raises(NoPlanFitsError):
        pruned_on("host", "wide", prune="none", on=tight, **on)
    best = pruned_on("host", "wide", on=tight, **on).best
    assert best.choice("pruning")
    assert best.fits


def test_a_decision_says_what_was_pruned():
    """Vertices, edges and influence as shares, and how even the workers are."""
    decision = Pruned(
        num_vertices=1234, vertex_share=0.5, num_edges=99, edge_share=0.25, influence_share=0.125,
        uneven_before=1.5, uneven_after=1.1,
    )  # fmt: skip
    words = Pruning().words(decision)
    for part in ("1,234 halo vertices", "50.0%", "12.5%", "25.00%", "1.10", "1.50", "accuracy was not tried"):
        assert part in words
    assert Pruning().brief(decision) == "50% of halo vertices pruned"


def test_other_rows_than_the_decision_counts_are_refused():
    """One vertex less, or a level that there is not."""
    best = pruned_on().best
    chosen, setting = best.choice("pruning"), best.setting
    rows = chosen.arrays["dropped"]
    assert Pruning().fault(chosen, setting) is None
    fewer = Choice("pruning", chosen.decision, {"dropped": rows[:, rows[2] != rows[2, 0]]})
    assert "halo vertices" in Pruning().fault(fewer, setting)
    beyond = Choice("pruning", chosen.decision, {"dropped": rows + np.array([[9], [0], [0]], np.int32)})
    assert "levels" in Pruning().fault(beyond, setting)


def _with_job(candidate, job):
    return replace(candidate.setting, job=job, placement=placement_of("contrary", **SLOW))
