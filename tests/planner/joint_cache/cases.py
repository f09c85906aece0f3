"""Random halos with places to keep their rows, and a program whose steps keep them."""

import numpy as np
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import LayerDecision, build_program


@st.composite
def cases(draw):
    """(halo of a random graph over up to four workers, their hosts, capacities of devices, of regions)."""
    n, num_workers = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    matrix = aggregation_matrix(n, rng.integers(0, n, (2, 3 * n)), "gcn")
    halo = build_halo(matrix, rng.integers(0, num_workers, n), num_workers)
    num_hosts = draw(st.integers(1, num_workers))
    hosts = sorted([*range(num_hosts), *(draw(st.integers(0, num_hosts - 1)) for _ in range(num_workers - num_hosts))])
    device, region = (draw(st.lists(st.integers(0, 12), min_size=k, max_size=k)) for k in (num_workers, num_hosts))
    return halo, hosts, device, region


def program_of():
    """A GCN that aggregates its features in every epoch, and then products."""
    layers = (LayerDecision(op_order="aggregate_first"), LayerDecision(op_order="multiply_first"))
    return build_program(ModelSpec(hidden_channels=8), layers, num_features=5, num_classes=3, sparse_input=False)
