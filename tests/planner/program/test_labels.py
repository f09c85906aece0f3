"""Labels of several techniques combine by the greater one, in whatever order they are marked."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.program.labels import TRAVELLING, Label, Labels

N = 12
EVERYTHING = np.arange(N)
marks = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.lists(st.integers(0, N - 1), max_size=N), st.sampled_from(list(Label))
)


def marked(each) -> Labels:
    labels = Labels()
    for level, worker, vertices, label in each:
        labels = labels.marked(level, worker, np.array(vertices, np.int64), label)
    return labels


def table(labels: Labels) -> np.ndarray:
    """[levels, W, N] codes."""
    return np.array([[labels.of(level, worker, EVERYTHING) for worker in range(3)] for level in range(3)])


@settings(max_examples=60)
@given(st.lists(marks, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_marking_does_not_matter(each, random):
    """Every vertex has the greatest label that was ever marked on it."""
    want = np.zeros((3, 3, N), np.uint8)
    for level, worker, vertices, label in each:
        want[level, worker, vertices] = np.maximum(want[level, worker, vertices], label)
    assert (table(marked(each)) == want).all()
    shuffled = each[:]
    random.shuffle(shuffled)
    assert (table(marked(shuffled)) == want).all()


@settings(max_examples=60)
@given(st.lists(marks, max_size=8))
def test_vertices_are_those_that_have_a_label(each):
    """Ascending, each once, and none but these."""
    labels = marked(each)
    for level, worker in np.ndindex(3, 3):
        for label in set(Label) - {Label.SENT}:
            want = np.flatnonzero(labels.of(level, worker, EVERYTHING) == label)
            assert labels.vertices(level, worker, label).tolist() == want.tolist()


@settings(max_examples=60)
@given(st.lists(marks, max_size=6), st.lists(marks, max_size=6))
def test_signatures_are_equal_where_labels_are(one, other):
    """So levels whose labels are equal share what is cut for them, however they were marked."""
    for a, b in ((marked(one), marked(other)), (marked(one), marked([*one, *one]))):
        for level, at in np.ndindex(3, 3):
            equal = (table(a)[level] == table(b)[at]).all()
            assert (a.signature(level) == b.signature(at)) == equal


def test_precedence_is_that_of_the_design():
    """dropped > made > kept > late > sent, where shared is kept by a host; and only made and dropped never travel."""
    order = [Label.DROPPED, Label.MADE, Label.SHARED, Label.KEPT, Label.LATE, Label.SENT]
    assert sorted(Label, reverse=True) == order
    assert set(TRAVELLING) == {Label.SENT, Label.LATE, Label.KEPT, Label.SHARED}


def test_marking_leaves_what_was_there_as_it_was():
    """Labels are values: who marks gets new ones."""
    before = Labels().marked(0, 1, np.array([3]), Label.KEPT)
    after = before.marked(0, 1, np.array([3, 4]), Label.MADE)
    assert before.of(0, 1, np.array([3, 4])).tolist() == [Label.KEPT, Label.SENT]
    assert after.of(0, 1, np.array([4, 3])).tolist() == [Label.MADE, Label.MADE]
    assert before.of(2, 2, np.array([], np.int64)).tolist() == []
