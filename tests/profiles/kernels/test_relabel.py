"""Local ids: a dictionary's numbers for any order of vertices, in small and large tables, batch after batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.relabel import LocalIds


def number_all(ids, seeds, groups):
    """Vertices found and the local ids of every group, as a sampler asks for them hop by hop."""
    found = np.empty(len(seeds) + sum(map(len, groups)), np.int64)
    found[: len(seeds)] = seeds
    ids.begin(np.array(seeds, np.int64))
    num_found, numbered = len(seeds), []
    for group in groups:
        vertices = np.array(group, np.int32)
        ids.reserve(found[:num_found], len(vertices))
        num_found = ids.number(vertices, found, num_found)
        numbered.append(vertices.tolist())
    return found[:num_found].tolist(), numbered


def oracle(seeds, groups):
    """The same by a dictionary; a repeated seed is known by its first place."""
    found, local = list(seeds), {}
    for i, seed in enumerate(seeds):
        local.setdefault(seed, i)
    numbered = []
    for group in groups:
        for vertex in group:
            if vertex not in local:
                local[vertex] = len(found)
                found.append(vertex)
        numbered.append([local[vertex] for vertex in group])
    return found, numbered


@pytest.mark.parametrize("num_vertices", [1, 7, 1024, 1025, 2**31 - 1])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_numbers_are_those_of_a_dictionary(num_vertices, data):
    """Any seeds and groups are numbered by first discovery; a second batch knows nothing of the first."""
    some = st.lists(st.integers(0, num_vertices - 1), min_size=1, max_size=20)
    ids = LocalIds(num_vertices)
    for _ in range(2):
        seeds, groups = data.draw(some), data.draw(st.lists(some, max_size=3))
        assert number_all(ids, seeds, groups) == oracle(seeds, groups)


@pytest.mark.parametrize("num_vertices", [5000, 10**6, 2**31 - 1])
def test_table_grows_with_what_it_holds(num_vertices):
    """Thousands of vertices in steps, far more than the first table has slots, keep their numbers."""
    rng = np.random.default_rng(0)
    ids = LocalIds(num_vertices)
    groups = [rng.integers(0, num_vertices, size).tolist() for size in (10, 400, 6000)]
    assert number_all(ids, [3, 1, 4], groups) == oracle([3, 1, 4], groups)
    assert number_all(ids, [5], [[3, 5]]) == oracle([5], [[3, 5]])


def test_vertices_that_differ_by_the_table_size_are_told_apart():
    """Vertices far apart that could share a slot each get a number of their own."""
    vertices = list(range(0, 2**31 - 1, 2**21))
    assert number_all(LocalIds(2**31 - 1), [0], [vertices])[1] == [list(range(len(vertices)))]
