"""Every row once a host, one writer each, and nobody misses or is sent one too many."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.techniques.host_region.hosts import host_rows, positions

NUM_NODES = 20


@st.composite
def readers(draw):
    """(ranks of a host's workers, what each reads, who owns these): of up to five workers, on any of which rows are."""
    num_workers = draw(st.integers(1, 5))
    ranks = sorted(draw(st.sets(st.integers(0, num_workers - 1), min_size=1)))
    owner = np.array(draw(st.lists(st.integers(0, num_workers - 1), min_size=NUM_NODES, max_size=NUM_NODES)))
    wanted = []
    for rank in ranks:
        chosen = np.array(sorted(draw(st.sets(st.integers(0, NUM_NODES - 1)))), np.int64)
        chosen = chosen[owner[chosen] != rank]
        wanted.append(chosen[np.argsort(owner[chosen], kind="stable")])
    return ranks, wanted, [owner[each] for each in wanted], owner


@settings(deadline=None)
@given(readers())
def test_a_region_has_what_is_read_once(case):
    """Each vertex that some worker of the host reads, and no other."""
    ranks, wanted, owners, owner = case
    rows = host_rows(ranks, wanted, owners)
    assert sorted(rows.vertices.tolist()) == sorted({v for each in wanted for v in each.tolist()})
    np.testing.assert_array_equal(rows.owner, owner[rows.vertices])


@settings(deadline=None)
@given(readers())
def test_the_owner_writes_where_it_is_here_and_else_a_reader(case):
    """So a row travels to the host once, or not at all."""
    ranks, wanted, owners, _ = case
    rows = host_rows(ranks, wanted, owners)
    for vertex, owner, writer in zip(rows.vertices, rows.owner, rows.writer, strict=True):
        if owner in ranks:
            assert writer == owner
        else:
            assert vertex in wanted[ranks.index(writer)]


@settings(deadline=None)
@given(readers())
def test_a_writers_rows_lie_together_its_own_first(case):
    """In the order of ranks; what it receives is grouped by owner, as an exchange brings it."""
    ranks, wanted, owners, _ = case
    rows = host_rows(ranks, wanted, owners)
    places = np.concatenate([rows.places_of(rank) for rank in ranks])
    np.testing.assert_array_equal(places, np.arange(len(rows.vertices)))
    for rank in ranks:
        received, of = rows.received_by(rank)
        together = np.concatenate([rows.owned_by(rank), received])
        np.testing.assert_array_equal(rows.vertices[rows.places_of(rank)], together)
        assert (np.diff(of) >= 0).all()


def test_readers_write_in_turn():
    """Two workers read the same four rows of another host: each receives two of them for both."""
    both = np.arange(4)
    rows = host_rows([0, 1], [both, both], [np.full(4, 2)] * 2)
    assert rows.vertices.tolist() == [0, 2, 1, 3]
    assert rows.writer.tolist() == [0, 0, 1, 1]


@settings(deadline=None)
@given(st.permutations(range(9)), st.lists(st.integers(0, 8)))
def test_positions_are_where_they_stand(ids, wanted):
    """In any order."""
    found = positions(np.array(ids), np.array(wanted, np.int64))
    assert [ids[at] for at in found] == wanted
