"""Capacities are what algorithm 1 gives, and never more bytes than there are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo
from gnnplan.planner.joint_cache.capacity import capacity, joint_capacities

SIZE = st.integers(0, 10**6)


@given(SIZE, SIZE, st.integers(1, 5000), SIZE)
def test_capacity_is_the_most_that_fits(free, reserve, vertex_bytes, num_vertices):
    """One vertex more is either not there or needs bytes that are reserved."""
    rows = capacity(free, reserve, vertex_bytes, num_vertices)
    assert 0 <= rows <= num_vertices
    assert rows == 0 or rows * vertex_bytes <= free - reserve
    assert rows == num_vertices or (rows + 1) * vertex_bytes > free - reserve


def test_both_tiers_by_hand():
    """A star over three workers on two hosts: the hub is in two halos, once in their shared region."""
    # Vertex 0 (worker 0) is read by 1, 2 (worker 1) and 3, 4 (worker 2), and reads none.
    edges = np.array([[0, 0, 0, 0, 1], [1, 2, 3, 4, 3]])
    halo = build_halo(aggregation_matrix(5, edges, "sage"), np.array([0, 1, 1, 2, 2]), 3)
    assert [block.halo.tolist() for block in halo.blocks] == [[], [0], [0, 1]]
    found = joint_capacities(
        halo,
        [0, 1, 1],
        device_free_bytes=[1000, 90, 145],
        host_free_bytes=[1000, 155],
        device_reserve_bytes=40,
        host_reserve_bytes=50,
        vertex_bytes=50,
    )
    assert found.device == (0, 1, 2)  # no halo; one of its one; two of two
    assert found.host == (0, 2)  # vertices 0 and 1, the hub once
