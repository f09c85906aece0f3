"""A graph names its first fault in one line, and its fingerprint tells any two graphs apart."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.graph import Graph
from gnnplan.profiles.errors import UserError

N = 6


def small(**changes):
    """A valid graph of six vertices, changed as asked."""
    x = np.arange(N * 3, dtype=np.float32).reshape(N, 3) % 5
    masks = [np.arange(N) % 3 == k for k in range(3)]
    edges = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    graph = Graph(N, edges, x, np.arange(N) % 2, *masks, num_classes=2, name="small")
    return replace(graph, **changes)


def with_value(array, index, value):
    """A copy of `array` with one entry changed."""
    changed = array.copy()
    changed[index] = value
    return changed


X = small().x
FAULTS = {
    "no vertices": {"num_nodes": 0},
    "shape [2, E]": {"edge_index": np.zeros((3, 4), np.int64)},
    "shape [2, E], found (8,)": {"edge_index": np.zeros(8, np.int64)},
    "vertex 6, outside 0..5": {"edge_index": np.array([[0, 6], [1, 1]])},
    "vertex -1, outside 0..5": {"edge_index": np.array([[0, 1], [-1, 1]])},
    "x must have shape [6, F > 0], found (5, 3)": {"x": X[:5]},
    "x must have shape [6, F > 0], found (6, 0)": {"x": X[:, :0]},
    "x must have shape [6, F > 0], found (6,)": {"x": X[:, 0]},
    "features hold NaN or infinity": {"x": with_value(X, (2, 1), np.nan)},
    "features hold NaN or infinity; clean": {"x": sp.csr_matrix(with_value(X, (2, 1), np.inf))},
    "y has 5 rows for 6 vertices": {"y": np.zeros(5, np.int64)},
    "train_mask must be bool [6], found int64": {"train_mask": np.ones(N, np.int64)},
    "val_mask must be bool [6], found bool (5,)": {"val_mask": np.zeros(5, bool)},
    "test_mask must be bool [6], found bool (6, 1)": {"test_mask": np.zeros((N, 1), bool)},
    "no training vertex": {"train_mask": np.zeros(N, bool)},
    "a vertex of the split has labels of NaN or infinity": {"y": np.full((N, 2), np.nan, np.float32)},
    "class outside -1..1": {"y": np.full(N, 2)},
    "a vertex of the split has no label": {"y": np.full(N, -1)},
}


@pytest.mark.parametrize("message", FAULTS)
def test_every_fault_is_named_in_one_line(message):
    """Each broken array gives a UserError that starts with the graph's name and says what is wrong."""
    with pytest.raises(UserError) as caught:
        small(**FAULTS[message]).validate()
    text = str(caught.value)
    assert text.startswith("small: ")
    assert message in text
    assert "\n" not in text


def test_a_class_below_minus_one_is_a_fault():
    """-1 means unlabelled; anything lower is damage, not a label."""
    with pytest.raises(UserError, match="outside -1"):
        small(y=with_value(small().y, 0, -2)).validate()


VALID = [
    {},
    {"edge_index": np.zeros((2, 0), np.int64)},
    {"x": sp.csr_matrix(X)},
    {"y": np.eye(2, dtype=np.float32)[np.arange(N) % 2]},
    {"y": with_value(small().y, 5, -1), "test_mask": np.zeros(N, bool)},
]


@pytest.mark.parametrize("changes", VALID, ids=["plain", "no edges", "sparse", "multi-label", "unlabelled"])
def test_valid_graphs_pass_and_are_returned(changes):
    """Validation returns the same graph, so that calls chain."""
    graph = small(**changes)
    assert graph.validate() is graph


def test_sizes_and_kinds_are_read_off_the_arrays():
    """The derived properties follow the arrays they are derived from."""
    graph = small(x=sp.csr_matrix(X), y=np.zeros((N, 2), np.float32))
    assert (graph.num_edges, graph.num_features) == (4, 3)
    assert graph.is_multilabel
    assert graph.has_sparse_features
    assert not small().is_multilabel
    assert not small().has_sparse_features


CHANGES = {
    "edge_index": {"edge_index": np.array([[0, 1, 2, 3], [1, 2, 3, 1]])},
    "edge direction": {"edge_index": small().edge_index[::-1]},
    "x": {"x": with_value(X, (5, 2), 99)},
    "y": {"y": with_value(small().y, 5, 0)},
    "train_mask": {"train_mask": with_value(small().train_mask, 5, True)},
    "val_mask": {"val_mask": with_value(small().val_mask, 5, True)},
    "test_mask": {"test_mask": with_value(small().test_mask, 4, True)},
    "num_classes": {"num_classes": 3},
    "num_nodes": {"num_nodes": 7},
    "sparse x": {"x": sp.csr_matrix(X)},
}


@pytest.mark.parametrize("what", CHANGES)
def test_fingerprint_changes_with_every_array(what):
    """Whatever training depends on is in the fingerprint."""
    assert small(**CHANGES[what]).fingerprint != small().fingerprint


def test_all_changed_graphs_have_different_fingerprints():
    """No two of the changes are confused with one another."""
    prints = {small(**changes).fingerprint for changes in CHANGES.values()}
    assert len(prints) == len(CHANGES)


def test_fingerprint_of_sparse_features_sees_values_columns_and_rows():
    """Each of the three CSR arrays counts on its own."""
    x = sp.csr_matrix(([1.0, 2.0], ([0, 3], [1, 2])), shape=(N, 3), dtype=np.float32)
    others = [
        sp.csr_matrix(([1.0, 5.0], ([0, 3], [1, 2])), shape=(N, 3), dtype=np.float32),
        sp.csr_matrix(([1.0, 2.0], ([0, 3], [1, 1])), shape=(N, 3), dtype=np.float32),
        sp.csr_matrix(([1.0, 2.0], ([0, 4], [1, 2])), shape=(N, 3), dtype=np.float32),
    ]
    assert len({small(x=matrix).fingerprint for matrix in [x, *others]}) == 4


@given(st.integers(0, 2**32 - 1))
def test_fingerprint_is_stable(seed):
    """Equal arrays give equal fingerprints whatever their name and memory layout."""
    edges = np.random.default_rng(seed).integers(0, N, (2, 9))
    graph = small(edge_index=edges)
    copy = small(edge_index=np.asfortranarray(edges), x=np.asfortranarray(X), name="another name")
    assert graph.fingerprint == copy.fingerprint
    assert len(graph.fingerprint) == 16


def test_fingerprint_does_not_change_between_versions_unnoticed():
    """Plans on disk hold fingerprints: another value for the same graph would refuse all of them."""
    masks = [np.array([k == v for v in range(3)]) for k in range(3)]
    edges = np.array([[0, 1], [1, 2]], np.int32)
    x = np.eye(3, 2, dtype=np.float32)
    graph = Graph(3, edges, x, np.array([0, 1, 0], np.int64), *masks, num_classes=2, name="")
    assert graph.fingerprint == "b8ed99f2cf465a84"
