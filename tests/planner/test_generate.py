"""Generated graphs have the structure their specs name, and nothing but the seed decides them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError


def sbm(**changes):
    return SbmGraph(source="sbm", **{"num_nodes": 4000, "num_features": 32, **changes})


def rmat(**changes):
    return RmatGraph(source="rmat", **{"num_nodes": 3000, "num_edges": 30_000, "num_features": 8, **changes})


def has_no_loops_nor_repeats(graph):
    source, target = graph.edge_index.astype(np.int64)
    keys = source * graph.num_nodes + target
    return (np.diff(keys) > 0).all() and (source != target).all()


def test_sbm_meets_degree_homophily_and_symmetry():
    graph = generate_sbm(sbm(num_nodes=20_000, homophily=0.6))
    assert graph.num_edges / graph.num_nodes == pytest.approx(20, rel=0.01)
    source, target = graph.edge_index
    assert (graph.y[source] == graph.y[target]).mean() == pytest.approx(0.6, abs=0.02)
    assert has_no_loops_nor_repeats(graph)
    forward, backward = set(zip(*graph.edge_index.tolist())), set(zip(*graph.edge_index[::-1].tolist()))
    assert forward == backward
    assert graph.edge_index.dtype == np.int32


@pytest.mark.parametrize(("homophily", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_sbm_extreme_homophily_is_exact(homophily, expected):
    graph = generate_sbm(sbm(homophily=homophily))
    assert (graph.y[graph.edge_index[0]] == graph.y[graph.edge_index[1]]).mean() == expected


def test_sbm_degrees_are_skewed_and_a_larger_exponent_evens_them():
    def largest(exponent):
        return np.bincount(generate_sbm(sbm(degree_exponent=exponent)).edge_index[0]).max()

    assert largest(2.1) > 2 * largest(5.0) > 2 * 20


@pytest.mark.parametrize("signal", [0.0, 3.0])
def test_sbm_class_means_lie_feature_signal_apart(signal):
    graph = generate_sbm(sbm(num_nodes=40_000, num_classes=4, num_features=8, feature_signal=signal))
    means = np.stack([graph.x[graph.y == label].mean(axis=0) for label in range(4)])
    for i in range(4):
        for j in range(i):
            assert np.linalg.norm(means[i] - means[j]) == pytest.approx(signal, abs=0.1)
    assert (graph.x - means[graph.y]).std() == pytest.approx(1, abs=0.01)


def test_sbm_with_fewer_features_than_classes_or_one_class():
    assert generate_sbm(sbm(num_classes=9, num_features=2)).num_classes == 9
    assert generate_sbm(sbm(num_classes=1)).num_edges > 0


@pytest.mark.parametrize("num_nodes", [3000, 4096])
def test_rmat_has_the_edges_asked_for_and_is_skewed(num_nodes):
    graph = generate_rmat(rmat(num_nodes=num_nodes))
    assert graph.num_edges == 30_000
    assert has_no_loops_nor_repeats(graph)
    assert np.bincount(graph.edge_index[0]).max() > 10 * 30_000 / num_nodes


def test_rmat_of_equal_quadrants_is_not_skewed():
    graph = generate_rmat(rmat(num_nodes=4096, a=0.25, b=0.25, c=0.25))
    assert np.bincount(graph.edge_index[1]).max() < 30


def test_rmat_quadrant_b_and_c_are_source_and_target_skew():
    graph = generate_rmat(rmat(num_nodes=4096, a=0.5, b=0.4, c=0.05))
    out_degree = np.bincount(graph.edge_index[0], minlength=4096)
    in_degree = np.bincount(graph.edge_index[1], minlength=4096)
    assert out_degree.max() > 3 * in_degree.max()  # b sends the source up and the target right


def test_rmat_options_apply():
    graph = generate_rmat(rmat(make_undirected=True, train_fraction=0.5, val_fraction=0.25))
    assert set(zip(*graph.edge_index.tolist())) == set(zip(*graph.edge_index[::-1].tolist()))
    assert graph.train_mask.sum() == 1500
    assert graph.val_mask.sum() == 750


def test_rmat_probabilities_above_one_are_a_user_error():
    with pytest.raises(UserError, match=r"a \+ b \+ c is 1.2"):
        generate_rmat(rmat(a=0.8, b=0.2, c=0.2))


@pytest.mark.parametrize("spec", [sbm, rmat])
def test_the_seed_decides_everything(spec):
    first, again, other = (load_graph(spec(seed=seed)) for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 40), degree=st.floats(0.1, 60), classes=st.integers(1, 6), seed=st.integers(0, 2**40))
def test_tiny_graphs_are_valid_even_where_they_cannot_hold_the_edges(n, degree, classes, seed):
    common = {"num_nodes": n, "num_classes": classes, "num_features": 3, "seed": seed}
    spec = SbmGraph(source="sbm", average_degree=degree, homophily=0.5, **common)
    graph = load_graph(spec)
    assert graph.num_edges <= n * (n - 1)
    graph = load_graph(RmatGraph(source="rmat", num_edges=max(1, int(n * degree)), **common))
    assert graph.num_edges <= min(n * (n - 1), max(1, int(n * degree)))
    assert graph.train_mask.sum() + graph.val_mask.sum() + graph.test_mask.sum() == n
