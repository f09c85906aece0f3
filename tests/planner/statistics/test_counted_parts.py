"""Programs of which a step has a part of the graph, counted without a graph: they are as large as those of a graph."""

import numpy as np
import pytest

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import MODELS, Case
from tests.planner.techniques.source_chunks.chunked import Chunked, chosen

COUNTS = Counts(
    num_nodes=900,
    num_edges=9000,
    num_workers=3,
    shares=(1 / 3,) * 3,
    own=(300,) * 3,
    received=(120,) * 3,
    sent=(120,) * 3,
    local_edges=(2400,) * 3,
    remote_edges=(600,) * 3,
    split=((100,) * 3,) * 3,
    even_own=(300,) * 3,
    busiest=(1.0,) * 3,
)


def counted(cycle, name, decision):
    """As statistics have it: the layout's counts, and then those of what works on it."""
    whole = technique("halo_exchange").counted(cycle, COUNTS)
    return technique(name).counted_on(whole, COUNTS, decision)


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_a_step_in_chunks_has_its_part(model):
    """Of halo rows and edges; states are of all of a worker's own rows."""
    cycle = counted(Chunked(model, Chunks(num_chunks=3), 3).cycle(), "source_chunks", Chunks(num_chunks=3))
    assert {cycle.spaces[f"received A@0/chunk{at}"].sizes for at in range(3)} == {(40,) * 3}
    assert {cycle.spaces[f"with halo A@0/chunk{at}"].sizes for at in range(3)} == {(340,) * 3}
    for number in range(3):
        assert cycle.blocks[f"A@0/chunk{number}"].num_edges == (1000,) * 3
        kept = f"A@0/{'mass' if model == 'gat' else 'left'}{number}"
        assert cycle.blocks[kept].num_edges == cycle.spaces[f"edges:{kept}"].sizes == (300,) * 3
        routed = cycle.routes[f"route A@0/chunk{number}"].counts
        assert np.abs(routed * 3 - cycle.routes["route A@0"].counts).max() < 3
    assert cycle.blocks["A@0"].num_edges == (3000,) * 3  # of an evaluation


def test_a_draw_has_its_share_of_the_halo_rows():
    """Edges among own rows are all there."""
    case = Case(MODELS["gcn"], 3)
    of = technique("boundary_sampling").Decision(probability=0.25, num_draws=2)
    choices = [
        chosen("halo_exchange", {"part": case.part.astype(np.int32)}),
        chosen("operator_order"),
        chosen("boundary_sampling", **of.model_dump()),
    ]
    cycle = counted(composed(case, choices), "boundary_sampling", of)
    drawn = [name for name in cycle.spaces if name.startswith("received ") and "/draw" in name]
    assert drawn
    assert {cycle.spaces[name].sizes for name in drawn} == {(30,) * 3}
    edges = {block.num_edges for name, block in cycle.blocks.items() if "/draw" in name}
    assert edges == {(150,) * 3}
