"""Workers make halo rows themselves where the search finds that faster, and the numbers stay exact."""

import numpy as np
import pytest

from gnnplan.planner.contracts.received import received_rows
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.techniques.replicas.proposals import everything, paying_rows, proposals
from tests.planner.search.searched import found, placement_of

SLOW = {"bytes_per_s": 1e7}


def best_of(kind="gcn", dependencies="hybrid", on=SLOW, **pins):
    """The best on three workers, on a graph of much uneven degrees."""
    model = ModelSpec(kind=kind, hidden_channels=32)
    return found("skewed", model=model, num_workers=3, on=on, dependencies=dependencies, **pins).best


def as_set(rows):
    """Rows by (level, worker, vertex)."""
    return set(map(tuple, rows.T.tolist()))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_rows_are_made_where_links_are_slow(kind):
    """The epoch is shorter than where all are communicated, and no longer than where all are made."""
    best, communicated, made = (best_of(kind, mode) for mode in ("hybrid", "communicate", "cache"))
    assert best.choice("replicas")
    assert made.choice("replicas")
    assert communicated.choice("replicas") is None
    assert best.epoch_s < 0.9 * communicated.epoch_s
    assert best.epoch_s <= made.epoch_s


def without_launches():
    """Three hosts on links that nobody waits for, whose kernels take no time to launch."""
    placement = placement_of("network", bytes_per_s=1e14)
    profiles = {
        name: each.model_copy(update={"host_overhead_s": 0.0, "step_overhead_s": 0.0})
        for name, each in placement.profiles.items()
    }
    return placement.model_copy(update={"profiles": profiles})


def test_rows_are_received_where_links_are_fast():
    """Where hardly anybody waits for rows, none are made."""
    assert best_of(placement=without_launches()).choice("replicas") is None


def test_rows_are_made_where_that_is_fewer_kernels():
    """On a small graph an epoch is launches; who makes all rows has none that pack, or add up rows of others."""
    best, sent, made = (found(num_workers=2, dependencies=mode).best for mode in ("hybrid", "communicate", "cache"))
    assert best.epoch_s < 0.95 * sent.epoch_s
    assert best.epoch_s <= made.epoch_s
    assert best.choice("replicas")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin"])
def test_with_everything_made_no_rows_travel_in_epochs(kind):
    """Only the gradients of weights do."""
    best = best_of(kind, "cache")
    assert [op.key for op in best.cycle.programs["train"] if op.kind == "exchange"] == []


def test_what_pays_is_some_of_everything():
    """And whatever travels and is not made costs more to make: it has more entries than every made one of its level."""
    best = best_of(dependencies="communicate")
    entries = np.diff(best.setting.matrix.indptr)
    paying, everything_ = as_set(paying_rows(best)), as_set(everything(best))
    assert paying
    assert paying <= everything_
    received = as_set(received_rows(best, constant=False)[0])
    for level, worker in {row[:2] for row in paying}:
        made = [entries[v] for at, of, v in paying if (at, of) == (level, worker)]
        left = [entries[v] for at, of, v in received - paying if (at, of) == (level, worker)]
        assert not left or max(made) <= min(left)


def test_everything_is_what_all_levels_gather():
    """The halo of the last level, then that of own rows and what is made of it."""
    best = best_of(dependencies="communicate")
    part = best.choice("halo_exchange").arrays["part"]
    rows, matrix = everything(best), best.setting.matrix
    for worker in range(3):
        owned = np.flatnonzero(part == worker)
        halo = np.setdiff1d(matrix[owned].indices, owned)
        assert np.array_equal(rows[2, (rows[0] == 1) & (rows[1] == worker)], halo)


def test_little_waiting_is_not_worth_looking():
    """Where nobody waits for rows, nor launches kernels, nothing is proposed, whatever it would cost."""
    best = best_of(dependencies="communicate", placement=without_launches())
    assert list(proposals(best)) == []
