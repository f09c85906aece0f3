"""Variants of sampling against what each must be: plain draws where nothing is asked, and what PyG's keywords mean."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.csc import csc_from_edges
from gnnplan.profiles.kernels.sampling import NeighbourSampler, hop_key
from gnnplan.profiles.kernels.sampling_variants import Variant, VariantSampler

N, E = 40, 300
EDGES = np.random.default_rng(0).integers(0, N, (2, E))
GRAPH = csc_from_edges(EDGES, N)
SEEDS = np.array([3, 7, 3, 11, 0])


def keys(number_of_hops, seed=0):
    return [hop_key(seed, 0, 0, hop) for hop in range(number_of_hops)]


def sampled(variant, fan_outs, seeds=SEEDS, seed=0, graph=GRAPH):
    return VariantSampler(graph, variant).sample(seeds, fan_outs, keys(len(fan_outs), seed))


def pairs(sample, tree=None):
    """Edges as pairs of vertices of the graph, of one tree or all."""
    edge_index = sample.edge_index if tree is None else sample.edge_index[:, sample.tree[sample.edge_index[1]] == tree]
    return sample.n_id[edge_index]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    fan_outs=st.lists(st.sampled_from([-1, 1, 2, 5]), min_size=1, max_size=3),
    seeds=st.lists(st.integers(0, N - 1), min_size=1, max_size=8),
    seed=st.integers(0, 2**62),
)
def test_without_a_wish_it_is_the_plain_sample(fan_outs, seeds, seed):
    """Bit by bit, repeated seeds included."""
    ours = sampled(Variant(), fan_outs, np.array(seeds), seed)
    plain = NeighbourSampler(GRAPH).sample(np.array(seeds), fan_outs, keys(len(fan_outs), seed))
    for name in ("n_id", "edge_index", "e_id"):
        assert torch.equal(getattr(ours, name), getattr(plain, name))
    assert (ours.num_nodes, ours.num_edges, ours.tree) == (plain.num_nodes, plain.num_edges, None)


@settings(max_examples=40, deadline=None)
@given(
    replace=st.booleans(),
    weighted=st.booleans(),
    disjoint=st.booleans(),
    subgraph_type=st.sampled_from(["directional", "bidirectional", "induced"]),
    fan_outs=st.lists(st.sampled_from([-1, 1, 3]), min_size=1, max_size=3),
)
def test_edges_are_the_graphs(replace, weighted, disjoint, subgraph_type, fan_outs):
    """Whatever is asked for: ids name edges between the vertices that stand there, within one tree."""
    weights = np.linspace(1, 2, E) if weighted else None
    made = sampled(Variant(replace, weights, disjoint, subgraph_type), fan_outs)
    ends = pairs(made).numpy()
    of_id = EDGES[:, made.e_id.numpy()]
    same = (of_id == ends).all(0)
    assert (same | (of_id[::-1] == ends).all(0)).all() if subgraph_type == "bidirectional" else same.all()
    assert np.array_equal(made.n_id[: len(SEEDS)], SEEDS)
    if disjoint:
        assert torch.equal(made.tree[made.edge_index[0]], made.tree[made.edge_index[1]])
        assert made.tree[: len(SEEDS)].tolist() == [0, 1, 2, 3, 4]


def test_with_replacement_every_vertex_draws_its_fan_out():
    """As PyG: also one with fewer neighbours, and none only where there are none."""
    made = sampled(Variant(replace=True), [20])
    degrees = np.diff(GRAPH.indptr)[SEEDS]
    assert np.bincount(made.edge_index[1].numpy(), minlength=5).tolist() == [20 if d else 0 for d in degrees]
    assert len(made.e_id.unique()) < len(made.e_id)


@pytest.mark.parametrize("replace", [True, False])
def test_weights_are_shares_of_draws(replace):
    """One of four neighbours has seven tenths of the weight: that share of single draws; one of weight 0 none."""
    star = csc_from_edges(np.array([[1, 2, 3, 4], [0, 0, 0, 0]]), 5)
    variant = Variant(replace, np.array([0.7, 0.2, 0.1, 0.0]))
    drawn = [int(sampled(variant, [1], np.array([0]), seed, star).e_id) for seed in range(3000)]
    assert np.bincount(drawn, minlength=4) / 3000 == pytest.approx([0.7, 0.2, 0.1, 0.0], abs=0.03)


def test_without_replacement_weights_draw_nobody_twice():
    """Three of four: the one of weight 0 is the one left out."""
    star = csc_from_edges(np.array([[1, 2, 3, 4], [0, 0, 0, 0]]), 5)
    for seed in range(50):
        made = sampled(Variant(weights=np.array([5.0, 1.0, 1.0, 0.0])), [3], np.array([0]), seed, star)
        assert sorted(made.e_id.tolist()) == [0, 1, 2]


def test_disjoint_trees_are_those_of_single_seeds():
    """With all neighbours: each tree is the batch of its seed alone; with some, equal seeds draw differently."""
    made = sampled(Variant(disjoint=True), [-1, -1])
    for tree, seed in enumerate(SEEDS):
        alone = NeighbourSampler(GRAPH).sample(np.array([seed]), [-1, -1], keys(2))
        assert torch.equal(made.n_id[made.tree == tree].sort()[0], alone.n_id.sort()[0])
        its, own = pairs(made, tree), pairs(alone)
        assert sorted(zip(*its.tolist(), strict=True)) == sorted(zip(*own.tolist(), strict=True))
    few = sampled(Variant(disjoint=True), [3])
    assert few.e_id[few.tree[few.edge_index[1]] == 0].tolist() != few.e_id[few.tree[few.edge_index[1]] == 2].tolist()


@pytest.mark.parametrize("disjoint", [False, True])
def test_induced_edges_are_all_between_the_vertices(disjoint):
    """Of each tree by itself where trees are disjoint."""
    made = sampled(Variant(disjoint=disjoint, subgraph_type="induced"), [3, 2], np.array([3, 7, 11]))
    groups = [made.n_id[made.tree == tree].numpy() for tree in range(3)] if disjoint else [made.n_id.numpy()]
    wanted = sum(int((np.isin(EDGES[0], group) & np.isin(EDGES[1], group)).sum()) for group in groups)
    assert made.edge_index.shape[1] == wanted > 0
    assert (made.num_nodes, made.num_edges) == (None, None)


def test_both_ways_have_every_drawn_edge_and_its_reverse_once():
    """Compared with PyG's own way to make them."""
    drawn = sampled(Variant(), [4, 3])
    made = sampled(Variant(subgraph_type="bidirectional"), [4, 3])
    there = set(zip(*drawn.edge_index.tolist(), strict=True))
    wanted = sorted({(target, source) for source, target in there} | {(t, s) for t, s in there})
    assert sorted((t, s) for s, t in zip(*made.edge_index.tolist(), strict=True)) == wanted
    assert made.edge_index.shape[1] == len(wanted)
