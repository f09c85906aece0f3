"""Which rows a layout gathers and who sends them; and that products over what is cut are the whole's."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.labels import TRAVELLING, Label, Labels

LEVELS = 2


@st.composite
def cuts(draw):
    """(matrix with repeated entries and empty rows, owners, labels of two levels, the table they came from)."""
    n, num_workers = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    num_edges = draw(st.integers(0, 4 * n))
    row, column = np.sort(rng.integers(0, n, num_edges)), rng.integers(0, n, num_edges)
    indptr = np.searchsorted(row, np.arange(n + 1))
    matrix = sp.csr_matrix((rng.random(num_edges), column, indptr), shape=(n, n))
    part = rng.integers(0, num_workers, n)
    some = draw(st.sets(st.sampled_from([Label.LATE, Label.KEPT, Label.MADE, Label.DROPPED])))
    table = rng.choice([Label.SENT, *sorted(some)], (LEVELS, num_workers, n))
    labels = Labels()
    for level, worker in np.ndindex(LEVELS, num_workers):
        for label in some:
            labels = labels.marked(level, worker, np.flatnonzero(table[level, worker] == label), label)
    return matrix, part, num_workers, labels, table


@settings(max_examples=80)
@given(cuts())
def test_a_worker_holds_its_own_rows_and_those_it_makes(cut):
    """Its own come first; both ascend."""
    _, part, num_workers, labels, table = cut
    cutter = Cutter(part, num_workers, labels)
    for level in range(LEVELS):
        made = [(table[level, w] == Label.MADE) & (part != w) for w in range(num_workers)]
        for worker, ids in enumerate(cutter.held(level)):
            want = [*np.flatnonzero(part == worker), *np.flatnonzero(made[worker])]
            assert ids.tolist() == want
        assert cutter.makes_none(level) == (not np.any(made))


@settings(max_examples=80)
@given(cuts(), st.integers(0, 99))
def test_products_over_the_cuts_are_the_wholes_without_dropped_edges(cut, seed):
    """For the rows that a worker holds, of the rows that it gathers."""
    matrix, part, num_workers, labels, table = cut
    cutter, x = Cutter(part, num_workers, labels), np.random.default_rng(seed).normal(size=(len(part), 3))
    for level in range(LEVELS - 1):
        columns = cutter.gathered(matrix, level, level + 1)
        pieces = cutter.matrices(matrix, level + 1, columns)
        for worker, (piece, rows, ids) in enumerate(zip(pieces, cutter.held(level + 1), columns, strict=True)):
            dropped = (table[level, worker] == Label.DROPPED) & (part != worker)
            assert ids.tolist() == [v for v in np.unique(matrix[rows].indices) if not dropped[v]]
            want = (matrix.toarray() * ~dropped)[rows] @ x
            assert np.allclose(piece.cut_out() @ x[ids], want)
            assert piece.nnz == sum((~dropped[matrix[v].indices]).sum() for v in rows), "repeated edges stay repeated"


@settings(max_examples=80)
@given(cuts())
def test_every_missing_row_is_sent_once_and_by_its_owner(cut):
    """What all senders send, by receiver, is what every receiver wants, in its order; and as many as the counts say."""
    matrix, part, num_workers, labels, table = cut
    cutter, workers = Cutter(part, num_workers, labels), range(num_workers)
    needed, held = cutter.gathered(matrix, 0, 1), cutter.held(0)
    missing = cutter.missing(needed, 0)
    for ids, have, want in zip(needed, held, missing, strict=True):
        np.testing.assert_array_equal(want, np.setdiff1d(ids, have))
    found = [[] for _ in workers]
    for label in TRAVELLING:
        wanted = cutter.by_owner(missing, 0, label)
        sent, rows, counts = cutter.senders(wanted)
        parts = [np.split(ids, np.cumsum(counts[p])[:-1]) for p, ids in enumerate(sent)]
        for p in workers:
            assert (part[sent[p]] == p).all()
            assert held[p][rows[p]].tolist() == sent[p].tolist()
            assert counts[p].sum() == len(sent[p])
        for q in workers:
            assert np.concatenate([parts[p][q] for p in workers]).tolist() == wanted[q].tolist()
            assert (table[0, q][wanted[q]] == label).all()
            assert counts[q, q] == 0
            found[q] += wanted[q].tolist()
    assert all(sorted(found[q]) == missing[q].tolist() for q in workers)


@settings(max_examples=80)
@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.data())
def test_positions(ids, data):
    """Where vertices stand, in any order and more than once."""
    wanted = data.draw(st.lists(st.sampled_from(ids)))
    found = Cutter.positions(np.array(ids), np.array(wanted, np.int64))
    assert [ids[at] for at in found] == wanted


def test_a_dropped_row_that_is_asked_for_is_sent():
    """Dropped is said of edges: a root may still need the row."""
    labels = Labels().marked(0, 0, np.array([1]), Label.DROPPED)
    cutter = Cutter(np.array([0, 1, 1]), 2, labels)
    wanted = cutter.by_owner([np.array([1, 2]), np.array([], np.int64)], 0, Label.SENT)
    assert [each.tolist() for each in wanted] == [[1, 2], []]


def test_what_is_equal_for_two_levels_is_cut_once():
    """Levels under the same labels share their arrays, so big graphs are not held twice."""
    matrix = sp.random(20, 20, 0.2, "csr", random_state=np.random.default_rng(0))
    labels = Labels()
    for level in (0, 1):
        labels = labels.marked(level, 1, np.array([0, 3, 4]), Label.MADE)
    labels = labels.marked(2, 1, np.array([0, 3]), Label.MADE)
    cutter = Cutter(np.arange(20) % 2, 2, labels)
    assert cutter.held(0) is cutter.held(1)
    assert cutter.held(0) is not cutter.held(2)
    columns = [cutter.gathered(matrix, level, row_level) for level, row_level in ((0, 1), (1, 0), (0, 2))]
    assert columns[0] is columns[1]
    assert columns[0] is not columns[2]
    pieces = [cutter.matrices(matrix, 1, columns[0]), cutter.matrices(matrix, 0, columns[1])]
    assert pieces[0] is pieces[1]
