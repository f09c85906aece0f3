"""The layer that the tutorial shows is one operator, and trains as it stands."""

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.module_source import module_of
from tests.docs.pages import ROOT, blocks
from tests.planner.models.trained_modules import by_program, by_pyg, forward_of
from tests.planner.program.cases import small_graph

PAGE = "docs/tutorials/own_model.md"


def test_the_tutorials_layer_trains(tmp_path):
    """By two workers as by PyG; the job beside it names the file and the function."""
    files = {block.file: block.text for block in blocks(PAGE, (ROOT / PAGE).read_text()) if block.file}
    (tmp_path / "my_layer.py").write_text(files["my_layer.py"])
    assert 'model = "my_layer.py:build"' in files["layer_job.toml"]
    graph, spec = small_graph(), ModelSpec(kind="module", build=f"{tmp_path}/my_layer.py:build")
    module = module_of(spec, graph.num_features, graph.num_classes, 0)
    assert [op.kind for op in forward_of(module, graph).programs["train"]].count("layer") == 2
    assert by_program(module, graph, 2, "halo_exchange", 3).off(by_pyg(module, graph, 3)) <= 1e-5
