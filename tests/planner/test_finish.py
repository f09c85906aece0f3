"""The steps every source shares: splits, labels, features, edges, and one-line errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.finish import Parts, finish, random_split
from gnnplan.planner.graph_spec import GraphOptions
from gnnplan.profiles.errors import UserError


def parts(**changes):
    values = {
        "num_nodes": 10,
        "edge_index": np.array([[0, 1, 2], [1, 2, 0]]),
        "x": np.arange(1, 21, dtype=np.float64).reshape(10, 2),
        "y": np.arange(10) % 3,
        **changes,
    }
    return Parts("dir/g.npz", "g", **values)


def masks(*columns):
    return dict(zip(("train_mask", "val_mask", "test_mask"), columns))


def test_types_and_name():
    graph = finish(parts(), GraphOptions())
    assert (graph.edge_index.dtype, graph.x.dtype, graph.y.dtype) == (np.int32, np.float32, np.int64)
    assert (graph.name, graph.num_classes) == ("g", 3)


@given(
    is_labelled=st.lists(st.booleans(), min_size=1, max_size=60).filter(any),
    train=st.floats(0.01, 1),
    rest=st.floats(0, 1),
    seed=st.integers(0, 2**40),
)
def test_random_split_deals_out_the_labelled_vertices(is_labelled, train, rest, seed):
    is_labelled = np.array(is_labelled)
    options = GraphOptions(train_fraction=train, val_fraction=rest * (1 - train), split_seed=seed)
    split = random_split(is_labelled, options)
    np.testing.assert_array_equal(np.sum(split, axis=0), is_labelled)
    assert split[0].any()
    assert abs(split[0].sum() - train * is_labelled.sum()) <= 1
    np.testing.assert_array_equal(split, random_split(is_labelled, options))


def test_auto_takes_the_masks_and_random_does_not():
    train = np.eye(10, dtype=bool)[4]
    given_masks = masks(train, np.eye(10, dtype=bool)[5], np.eye(10, dtype=bool)[6])
    for split in ("auto", "file"):
        np.testing.assert_array_equal(finish(parts(masks=given_masks), GraphOptions(split=split)).train_mask, train)
    assert finish(parts(masks=given_masks), GraphOptions(split="random")).train_mask.sum() == 6
    assert finish(parts(), GraphOptions()).train_mask.sum() == 6


def test_split_index_picks_a_row_and_one_dimensional_masks_serve_all_rows():
    given_masks = masks(np.eye(10, dtype=bool)[:4], np.eye(10, dtype=np.uint8)[4:8], np.eye(10, dtype=bool)[9])
    graph = finish(parts(masks=given_masks), GraphOptions(split_index=2))
    assert [int(np.flatnonzero(m)[0]) for m in (graph.train_mask, graph.val_mask, graph.test_mask)] == [
        2,
        6,
        9,
    ]
    with pytest.raises(UserError, match=r"^dir/g.npz: split_index is 4, it holds 4 split"):
        finish(parts(masks=given_masks), GraphOptions(split_index=4))


def test_unlabelled_vertices_leave_the_masks():
    y = np.array([0, -1, 1, -1, 0, 1, 0, 1, 0, 1], np.int8)
    graph = finish(parts(y=y, masks=masks(np.ones(10, bool))), GraphOptions())
    np.testing.assert_array_equal(graph.train_mask, y >= 0)
    assert not graph.val_mask.any()
    graph = finish(parts(y=y), GraphOptions(split="random", train_fraction=1, val_fraction=0))
    np.testing.assert_array_equal(graph.train_mask, y >= 0)


def test_labels_may_be_floats_with_nan_or_a_column_or_multi_label():
    y = np.array([0, np.nan, 2, 1, 0, 1, 2, 0, 1, 2])
    assert finish(parts(y=y[:, None]), GraphOptions()).y.tolist() == [0, -1, 2, 1, 0, 1, 2, 0, 1, 2]
    many = np.eye(10, 4, dtype=np.uint8)
    graph = finish(parts(y=many), GraphOptions())
    assert (graph.is_multilabel, graph.y.dtype, graph.num_classes) == (True, np.float32, 4)


@pytest.mark.parametrize(
    "types",
    [np.array([0, -1, 2]), np.array([0.0, 1.0, 2.0]), np.array([0, 1]), np.array([[0, 1, 2]]), np.array([0, 1, 2**24])],
    ids=["negative", "no whole numbers", "too few", "a matrix", "too large"],
)
def test_types_of_edges_are_whole_numbers_from_0(types):
    """What is none is left out, as most models ask for none; a merged edge has none."""
    assert finish(parts(edge_values={"edge_type": types}), GraphOptions()).edge_values == {}
    good = {"edge_type": np.array([2, 0, 0], np.uint8)}
    (found,) = finish(parts(edge_values=good), GraphOptions()).edge_values.values()
    assert found.dtype == np.int64
    assert found.tolist() == [2, 0, 0]
    assert finish(parts(edge_values=good), GraphOptions(make_undirected=True)).edge_values == {}


@pytest.mark.parametrize("weights", [np.array([1.0, np.nan, 2.0]), np.ones(2), np.array(["a", "b", "c"])], ids=str)
def test_weights_of_edges_are_sound_or_refused(weights):
    """A model would mostly be trained without them, and say nothing."""
    with pytest.raises(UserError, match="edge_weight must be a finite number for each of the 3 edges"):
        finish(parts(edge_values={"edge_weight": weights}), GraphOptions())
    assert finish(parts(edge_values={"edge_weight": weights}), GraphOptions(make_undirected=True)).edge_values == {}


def test_make_undirected_mirrors_and_merges():
    edges = np.array([[0, 1, 1, 3], [1, 0, 2, 3]])
    graph = finish(parts(edge_index=edges), GraphOptions(make_undirected=True))
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 3]]


@pytest.mark.parametrize("sparse_feature_density", [0.0, 1.0])
@pytest.mark.parametrize("as_csr", [True, False])
def test_normalized_rows_sum_to_one_and_empty_rows_stay(sparse_feature_density, as_csr):
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    x[3] = 0
    options = GraphOptions(normalize_features=True, sparse_feature_density=sparse_feature_density)
    graph = finish(parts(x=sp.csr_matrix(x) if as_csr else x.copy()), options)
    assert graph.has_sparse_features == (sparse_feature_density == 1)
    dense = graph.x.toarray() if graph.has_sparse_features else graph.x
    np.testing.assert_allclose(dense, x / np.maximum(x.sum(1, keepdims=True), 1e-9), rtol=1e-6)


@pytest.mark.parametrize("as_csr", [True, False])
def test_density_decides_how_features_are_held(as_csr):
    x = np.zeros((10, 10))
    x[:, 0] = 1
    held = sp.csr_matrix(x) if as_csr else x
    assert finish(parts(x=held), GraphOptions(sparse_feature_density=0.1)).has_sparse_features
    assert not finish(parts(x=held), GraphOptions(sparse_feature_density=0.09)).has_sparse_features


def test_synthetic_features_and_labels_are_drawn_only_where_asked_and_missing():
    options = GraphOptions(synthetic_feature_width=5, synthetic_num_classes=4, split_seed=3)
    graph = finish(parts(x=None, y=None), options)
    assert (graph.num_features, graph.num_classes) == (5, 4)
    assert graph.fingerprint == finish(parts(x=None, y=None), options).fingerprint
    assert finish(parts(), options).num_features == 2
    with pytest.raises(UserError, match=r"^dir/g.npz: no features; set one_hot_features"):
        finish(parts(x=None), GraphOptions())
    with pytest.raises(UserError, match=r"^dir/g.npz: no labels; set synthetic_num_classes"):
        finish(parts(y=None), GraphOptions())


BAD = {
    "no vertices": ({"num_nodes": 0}, {}, "num_nodes is 0"),
    "negative vertices": ({"num_nodes": -5}, {}, "num_nodes is -5"),
    "too many vertices": ({"num_nodes": 2**40}, {}, "num_nodes is 1099511627776"),
    "float edges": ({"edge_index": np.zeros((2, 3))}, {}, "edge_index must be integer"),
    "three rows of edges": ({"edge_index": np.zeros((3, 2), int)}, {}, "edge_index must be integer"),
    "flat edges": ({"edge_index": np.zeros(4, int)}, {}, "edge_index must be integer"),
    "edge out of range": ({"edge_index": np.array([[0], [10]])}, {}, "vertex 10, outside 0..9"),
    "negative edge": ({"edge_index": np.array([[0], [-1]])}, {}, "vertex -1"),
    "huge id": ({"edge_index": np.array([[0], [2**63]], np.uint64)}, {}, "vertex 9223372036854775808"),
    "text features": ({"x": np.full((10, 2), "a")}, {}, "features must be numbers"),
    "complex features": ({"x": np.ones((10, 2), complex)}, {}, "features must be numbers"),
    "feature rows": ({"x": np.ones((9, 2))}, {}, r"features must have shape \[10, F"),
    "no feature columns": ({"x": np.ones((10, 0))}, {}, "F > 0"),
    "flat features": ({"x": np.ones(10)}, {}, "features must have shape"),
    "NaN features": ({"x": np.full((10, 2), np.nan)}, {}, "NaN or infinity"),
    "float32 overflow": ({"x": np.full((10, 2), 1e300)}, {}, "NaN or infinity"),
    "label rows": ({"y": np.zeros(9, int)}, {}, "y must be numbers"),
    "text labels": ({"y": np.full(10, "a")}, {}, "y must be numbers"),
    "no label columns": ({"y": np.zeros((10, 0))}, {}, "y must be numbers"),
    "fractional labels": ({"y": np.full(10, 0.5)}, {}, "no whole numbers"),
    "infinite labels": ({"y": np.full(10, np.inf)}, {}, "no whole numbers"),
    "label -2": ({"y": np.full(10, -2)}, {}, "label -2"),
    "unlabelled": ({"y": np.full(10, -1)}, {}, "no vertex has a label"),
    "multi-label of 2": ({"y": np.full((10, 3), 2)}, {}, "only 0 and 1"),
    "too many classes": ({"num_classes": 2}, {}, "outside -1..1"),
    "mask length": ({"masks": masks(np.ones(9, bool))}, {}, "train_mask must be bool"),
    "float mask": ({"masks": masks(np.ones(10))}, {}, "train_mask must be bool"),
    "index mask": ({"masks": masks(np.arange(10))}, {}, "only 0 and 1"),
    "empty train mask": ({"masks": masks(np.zeros(10, bool))}, {}, "no training vertex"),
    "no masks": ({}, {"split": "file"}, "no train_mask"),
}


@pytest.mark.parametrize("fault", BAD)
def test_every_fault_is_one_line_that_starts_with_the_file(fault):
    changes, options, message = BAD[fault]
    with pytest.raises(UserError, match=message) as caught:
        finish(parts(**changes), GraphOptions(**options))
    assert str(caught.value).startswith("dir/g.npz: ")
    assert "\n" not in str(caught.value)


def test_one_hot_features_are_held_sparse():
    """A column for every vertex, where the source has none."""
    found = finish(parts(x=None), GraphOptions(one_hot_features=True, sparse_feature_density=1.0)).x
    assert found.toarray().tolist() == np.eye(found.shape[0]).tolist()
    given = finish(parts(), GraphOptions(one_hot_features=True))
    assert given.num_features != given.num_nodes or not isinstance(given.x, sp.csr_matrix)


@pytest.mark.parametrize("values", [{}, {"edge_type": np.array([0.5])}, {"edge_type": np.array([1])}])
def test_inverse_types_need_types(values):
    """Of every edge."""
    with pytest.raises(UserError, match="inverse_edge_types needs an edge_type"):
        finish(parts(edge_values=values), GraphOptions(inverse_edge_types=True))


def test_inverse_types_and_merged_edges_exclude_each_other():
    """In a line that says what to leave out."""
    with pytest.raises(ValueError, match="leave make_undirected or inverse_edge_types out"):
        GraphOptions(inverse_edge_types=True, make_undirected=True)
