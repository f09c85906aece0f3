"""Halo rows of a part, from degrees and from cuts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.statistics.contract import Cut, Statistics
from gnnplan.planner.statistics.degrees import degrees_of
from gnnplan.planner.statistics.halo import Halos
from gnnplan.planner.statistics.measure import cut_of, measure, without_loops


@pytest.fixture(scope="module")
def graph():
    return generate_sbm(SbmGraph(source="sbm", num_nodes=3000, average_degree=8.0, num_features=8, num_classes=4))


def sizes(**more) -> Statistics:
    return Statistics(num_nodes=10_000, num_edges=80_000, num_features=4, num_classes=2, **more)


@pytest.mark.parametrize("num_parts", [2, 5, 40])
def test_a_random_partition_has_the_expected_halo(graph, num_parts):
    """Halo rows and remote edges of random parts are those of the formula, within what chance moves them."""
    halos, matrix = Halos(measure(graph, parts=())), without_loops(graph)
    random = np.random.default_rng(1)
    cuts = [cut_of(matrix, random.integers(0, num_parts, graph.num_nodes), num_parts) for _ in range(5)]
    rows = np.mean([cut.halo_rows for cut in cuts]) * graph.num_nodes / num_parts
    assert halos.rows(1 / num_parts) == pytest.approx(rows, rel=0.02)
    assert halos.remote_edges(1 / num_parts) == pytest.approx(np.mean([c.remote_edges for c in cuts]), rel=0.02)


def test_a_cut_that_was_measured_is_met(graph):
    """At a number of parts that was measured the estimate is the measurement."""
    measured = measure(graph, parts=(2, 4, 8))
    halos = Halos(measured)
    for cut in measured.cuts:
        share = 1 / cut.num_parts
        assert halos.rows(share) * cut.num_parts == pytest.approx(cut.halo_rows * graph.num_nodes)
        assert halos.remote_edges(share) == pytest.approx(cut.remote_edges)
        assert halos.largest(share, "largest_halo") == pytest.approx(cut.largest_halo)


@given(
    st.floats(0.0005, 1),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 40)), max_size=4),
)
def test_no_part_has_more_than_a_random_one(share, cuts):
    """Halos are between none and those of a random part, which has no more than the vertices that it lacks."""
    made = tuple(Cut(num_parts=2 ** (i + 1), remote_edges=e, halo_rows=r) for i, (e, r) in enumerate(cuts))
    halos = Halos(sizes(cuts=made))
    assert 0 <= halos.rows(share) <= halos.random_rows(share) * (1 + 1e-9) <= (1 - share) * 10_000 * (1 + 1e-9) + 1e-9
    assert 0 <= halos.remote_edges(share) <= 1 - share + 1e-9


def test_the_whole_graph_has_no_halo():
    """One worker that has all vertices lacks none."""
    assert Halos(sizes()).rows(1.0) == 0


@pytest.mark.parametrize("exponent", [2.1, 2.5, 3.5])
def test_a_power_law_has_the_graphs_edges(exponent):
    """Degrees that nobody measured add up to the edges, but for those that no vertex can have."""
    degrees, counts = degrees_of(sizes(degree_exponent=exponent))
    assert counts.sum() == pytest.approx(10_000)
    assert 0.8 * 80_000 < degrees @ counts <= 80_000 * 1.001


def test_degrees_are_measured(graph):
    """Bins hold all vertices and all edges, and say what each degree alone would."""
    measured, matrix = measure(graph, parts=()), without_loops(graph)
    degrees = np.bincount(matrix.indices, minlength=graph.num_nodes)
    assert sum(each.num_nodes for each in measured.degrees) == graph.num_nodes
    exact = float((0.75 * (1 - 0.75**degrees)).sum())
    assert Halos(measured).random_rows(0.25) == pytest.approx(exact, rel=0.005)


def test_what_contradicts_itself_is_refused():
    """Degrees that are not the graph's, and cuts out of order."""
    with pytest.raises(ValueError, match="degrees are of 3 vertices"):
        sizes(degrees=({"degree": 8, "num_nodes": 3},))
    with pytest.raises(ValueError, match="rising"):
        sizes(cuts=tuple(Cut(num_parts=n, remote_edges=0.1, halo_rows=1) for n in (4, 2)))
