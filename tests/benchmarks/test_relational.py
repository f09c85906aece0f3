"""R-GCN on a real knowledge graph: workers have PyG's losses, in rows and in columns."""

import pytest
from standing_in import stand_in

from benchmarks import _common, relational
from tests import warm

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(
        not (_common.DATASETS / "rdf_aifb.npz").exists(), reason="needs the real graphs beside the repository"
    ),
]


@pytest.mark.long
def test_the_quick_form_has_pygs_losses(monkeypatch, tmp_path):
    """Two workers, from a `HeteroData` of three kinds of vertices."""
    monkeypatch.setattr(_common, "profile_machine", lambda **_: stand_in())
    monkeypatch.setattr(relational, "OUT", tmp_path)
    data = relational.hetero_graph("rdf_aifb")
    assert data.num_nodes == 8285
    assert data.num_edges == 29_043
    assert len(data.edge_types) == 47
    with warm.runs():
        result = relational.main(quick=True)
    assert [row["layout"] for row in result["rows"]] == ["rows", "columns"]
    assert result["worst_loss_rel"] < 1e-5
    assert result["missing"] == []
