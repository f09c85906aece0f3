"""Chunks that take turns hide their transposes behind sums, as the simulator plays them."""

import pytest

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.readers.cost import costs_of
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.simulator.steady import play_epochs
from tests.planner.readers.reader_cases import placement_of
from tests.planner.techniques.destination_chunks.test_chunk_bytes import cycle_of

# Large enough that launching kernels is not what takes the time.
GRAPH = generate_sbm(SbmGraph(source="sbm", num_nodes=40_000, average_degree=30, num_features=16, num_classes=40))
TEN_GBIT = 1.25e9


@pytest.mark.parametrize(("kind", "most"), [("gcn", 0.92), ("gat", 0.95)])
def test_two_chunks_are_faster_where_links_are_slow(kind, most):
    """Beside one chunk, with overlap both; and without overlap chunks gain nothing."""
    placement = placement_of(2, ("t4",), bytes_per_s=TEN_GBIT)

    def epoch_s(num_chunks, *extra):
        techniques = ("first_aggregation", *extra)
        cycle = cycle_of(kind, 2, num_chunks, *techniques, layout="columns", recompute="nothing", graph=GRAPH)
        return play_epochs(schedule_of(cycle, "train", placement, costs_of(placement))).median_epoch_s

    assert epoch_s(2, "overlap") < most * epoch_s(1, "overlap")
    assert epoch_s(2) >= epoch_s(1)
