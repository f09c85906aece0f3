"""Neighbour sampling: pure in its key, without repeats, uniform, and equal to a plain Python oracle."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from gnnplan.profiles.kernels.csc import Csc, csc_from_edges
from gnnplan.profiles.kernels.sampling import ALL, NeighbourSampler, hop_key

MASK = 2**64 - 1


def hash64(state, counter):
    """Output `counter` of the splitmix64 stream from `state`, in Python's integers."""
    z = (state + (counter + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def oracle_draw(in_edges, vertex, fan_out, key):
    """Edges that a vertex draws: all of a few, else Floyd's subset."""
    degree = len(in_edges)
    if fan_out == ALL or degree <= fan_out:
        return list(in_edges)
    state, chosen = hash64(key, vertex), []
    for i in range(fan_out):
        last = degree - fan_out + i
        position = ((hash64(state, i) >> 32) * (last + 1)) >> 32
        chosen.append(last if position in chosen else position)
    return [in_edges[position] for position in chosen]


def oracle(edges, seeds, fan_outs, keys):
    """n_id, local edges, e_id and counts of a batch, hop by hop with a dictionary."""
    n_id, local = list(seeds), {}
    for i, seed in enumerate(seeds):
        local.setdefault(seed, i)
    pairs, e_id, num_nodes, num_edges, first = [], [], [len(seeds)], [], 0
    for fan_out, key in zip(fan_outs, keys):
        last, edges_before = len(n_id), len(e_id)
        for i in range(first, last):
            in_edges = [e for e, (_, target) in enumerate(edges) if target == n_id[i]]
            for e in oracle_draw(in_edges, n_id[i], fan_out, key):
                source = edges[e][0]
                if source not in local:
                    local[source] = len(n_id)
                    n_id.append(source)
                pairs.append((local[source], i))
                e_id.append(e)
        num_nodes.append(len(n_id) - last)
        num_edges.append(len(e_id) - edges_before)
        first = last
    return n_id, pairs, e_id, num_nodes, num_edges


def graph_of(edges, num_vertices):
    return csc_from_edges(np.array(edges, np.int64).reshape(-1, 2).T, num_vertices)


def keys_of(num_hops, *, seed=0, epoch=0, batch=0):
    return [hop_key(seed, epoch, batch, hop) for hop in range(num_hops)]


def sample(graph, seeds, fan_outs, *, sampler=None, **key):
    sampler = sampler or NeighbourSampler(graph)
    return sampler.sample(np.array(seeds, np.int64), fan_outs, keys_of(len(fan_outs), **key))


def as_lists(done):
    return done.n_id.tolist(), list(zip(*done.edge_index.tolist())), done.e_id.tolist(), done.num_nodes, done.num_edges


def random_edges(num_vertices, num_edges, seed=0):
    rng = np.random.default_rng(seed)
    # Squared: a few vertices have many in-edges, most have few.
    targets = (rng.random(num_edges) ** 2 * num_vertices).astype(np.int64)
    return list(zip(rng.integers(0, num_vertices, num_edges).tolist(), targets.tolist()))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 9), st.data())
def test_batches_are_the_oracles(num_vertices, data):
    """Any graph (loops, repeated edges), seeds (repeated too), fan-outs and key: every array is the oracle's."""
    vertex = st.integers(0, num_vertices - 1)
    edges = data.draw(st.lists(st.tuples(vertex, vertex), max_size=40))
    fan_outs = data.draw(st.lists(st.sampled_from([ALL, 1, 2, 3]), min_size=1, max_size=3))
    parts = data.draw(st.fixed_dictionaries({name: st.integers(0, 2**63) for name in ("seed", "epoch", "batch")}))
    sampler = NeighbourSampler(graph_of(edges, num_vertices))
    for _ in range(2):  # the second batch finds the scratch memory used
        seeds = data.draw(st.lists(vertex, min_size=1, max_size=6))
        done = sample(None, seeds, fan_outs, sampler=sampler, **parts)
        assert as_lists(done) == oracle(edges, seeds, fan_outs, keys_of(len(fan_outs), **parts))


def test_large_graph_is_the_oracles():
    """A graph of more vertices than the first hash table has slots, sampled wide, is the oracle's too."""
    edges, seeds, fan_outs = random_edges(3000, 60_000), [5, 2999, 17, 0, 1], [7, 6, 5]
    done = sample(graph_of(edges, 3000), seeds, fan_outs, batch=3)
    assert len(done.n_id) > 700
    assert as_lists(done) == oracle(edges, seeds, fan_outs, keys_of(3, batch=3))


def test_tensors_are_what_pyg_takes():
    """All ids are int64, and neighbours given as int64 are sampled as those given as int32."""
    graph = graph_of(random_edges(50, 600), 50)
    wide = Csc(graph.indptr, graph.indices.astype(np.int64), graph.edge_ids)
    done, from_wide = (sample(each, [1, 2], [3, 3]) for each in (graph, wide))
    assert {tensor.dtype for tensor in (done.n_id, done.edge_index, done.e_id)} == {torch.int64}
    assert as_lists(done) == as_lists(from_wide)


def test_what_a_vertex_draws_is_its_own():
    """A vertex draws the same edges alone, beside others, in another order, and from a used sampler."""
    edges = random_edges(100, 3000)
    graph = graph_of(edges, 100)
    sampler = NeighbourSampler(graph)
    alone = sample(graph, [7], [4]).e_id.tolist()
    assert len(alone) == 4
    for seeds in ([7, 3, 9], [9, 3, 7], [3, 7], list(range(99, -1, -1))):
        done = sample(graph, seeds, [4], sampler=sampler)
        assert [e for e in done.e_id.tolist() if edges[e][1] == 7] == alone


def test_every_part_of_the_key_counts():
    """Another seed, epoch, batch or hop draws other edges; the same ones draw the same again."""
    graph = graph_of([(v, 0) for v in range(200)], 200)
    drawn = [
        tuple(sample(graph, [0], [10], **parts).e_id.tolist())
        for parts in ({}, {"seed": 1}, {"epoch": 1}, {"batch": 1}, {"seed": 2, "epoch": 1}, {"seed": 1, "epoch": 2})
    ]
    second_hop = NeighbourSampler(graph).sample(np.array([0]), [10], [hop_key(0, 0, 0, 1)])
    drawn.append(tuple(second_hop.e_id.tolist()))
    assert len(set(drawn)) == len(drawn)
    assert tuple(sample(graph, [0], [10], seed=1).e_id.tolist()) == drawn[1]


@pytest.mark.parametrize("fan_out", [1, 3, 16, ALL])
def test_each_vertex_takes_as_many_as_it_can_and_none_twice(fan_out):
    """A target gets min(fan-out, degree) distinct edges, all of them its own, parallel ones apart."""
    edges = random_edges(40, 900) + [(1, 39)] * 5
    done = sample(graph_of(edges, 40), range(40), [fan_out])
    e_id, degrees = done.e_id.tolist(), np.bincount([target for _, target in edges], minlength=40)
    assert degrees.max() > 16 > degrees.min()
    assert len(set(e_id)) == len(e_id)
    assert all(edges[e][1] == target for e, target in zip(e_id, done.edge_index[1].tolist()))
    expected = degrees if fan_out == ALL else np.minimum(degrees, fan_out)
    assert np.bincount(done.edge_index[1], minlength=40).tolist() == expected.tolist()


def test_edges_and_order_on_a_large_batch():
    """Sampled edges join their own ends; targets of a hop are what was new before it; new vertices follow."""
    edges = random_edges(2000, 30_000)
    done = sample(graph_of(edges, 2000), range(0, 60), [5, 4, 3])
    ends = torch.tensor(edges)[done.e_id].t()
    assert torch.equal(done.n_id[done.edge_index], ends)
    assert len(set(done.n_id.tolist())) == len(done.n_id) == sum(done.num_nodes)
    assert done.n_id[:60].tolist() == list(range(60))
    node_ends, edge_ends = np.cumsum(done.num_nodes), np.cumsum([0, *done.num_edges])
    assert done.edge_index.shape[1] == edge_ends[-1]
    for hop in range(3):
        rows, columns = done.edge_index[:, edge_ends[hop] : edge_ends[hop + 1]]
        first = 0 if hop == 0 else node_ends[hop - 1]
        assert first <= columns.min()
        assert columns.max() < node_ends[hop]
        new = rows[rows >= node_ends[hop]]
        assert list(dict.fromkeys(new.tolist())) == list(range(node_ends[hop], node_ends[hop + 1]))


def test_subsets_are_equally_likely():
    """All 20 subsets of 3 in 6 neighbours come up equally often over 6000 batches (chi-square)."""
    sampler = NeighbourSampler(graph_of([(v, 0) for v in range(1, 7)], 7))
    count = dict.fromkeys(itertools.combinations(range(6), 3), 0)
    for batch in range(6000):
        done = sample(None, [0], [3], sampler=sampler, batch=batch)
        count[tuple(sorted(done.e_id.tolist()))] += 1
    assert chisquare(list(count.values())).pvalue > 1e-4


def test_neighbours_are_uniform_in_every_hop():
    """In a tree of degrees 7, 9 and 5 sampled 3, 4 and 2 wide, every hop takes each edge equally often."""
    degrees, fan_outs, edges, layer, next_vertex = (7, 9, 5), [3, 4, 2], [], [0], 1
    hop_of_edge = []
    for hop, degree in enumerate(degrees):
        leaves = list(range(next_vertex, next_vertex + degree * len(layer)))
        edges += [(leaf, layer[i // degree]) for i, leaf in enumerate(leaves)]
        hop_of_edge += [hop] * len(leaves)
        layer, next_vertex = leaves, next_vertex + len(leaves)
    sampler = NeighbourSampler(graph_of(edges, next_vertex))
    drawn = np.zeros(len(edges))
    for epoch in range(6000):
        drawn[sample(None, [0], fan_outs, sampler=sampler, epoch=epoch).e_id.numpy()] += 1
    targets = np.array([target for _, target in edges])
    num_draws = np.bincount(targets, drawn)[targets]  # of each edge's target
    for hop, (degree, fan_out) in enumerate(zip(degrees, fan_outs)):
        at = np.array(hop_of_edge) == hop
        share = fan_out / degree
        expected = num_draws[at] / degree
        assert expected.min() > 20
        # Draws of one target exclude each other, so its counts vary less than independent ones.
        statistic = ((drawn[at] - expected) ** 2 / (expected * (1 - share))).sum() * (degree - 1) / degree
        freedom = at.sum() - len(np.unique(targets[at]))
        assert 1e-4 < chi2.sf(statistic, freedom) < 1 - 1e-4


def test_graph_without_edges():
    """Seeds without neighbours are a batch of themselves."""
    done = sample(graph_of([], 4), [2, 0], [ALL, 3])
    assert as_lists(done) == ([2, 0], [], [], [2, 0, 0], [0, 0])
    assert done.edge_index.shape == (2, 0)
