"""The loader beside PyG's: what is counted, and examples that do not run."""

import pytest
import torch_geometric.typing as pyg_typing

from benchmarks import loader_parity
from gnnplan.profiles.errors import RunFailedError, UserError


@pytest.fixture
def examples(tmp_path, monkeypatch):
    """Writes a file of examples in place of the real one, which the suite runs anyway."""

    def write(text):
        (tmp_path / "test_some.py").write_text(text)
        monkeypatch.setattr(loader_parity, "EXAMPLES", str(tmp_path / "test_some.py"))

    return write


@pytest.mark.long
def test_keywords_and_examples_are_counted(examples, monkeypatch):
    """Refused ones by themselves; without a sampler for PyG the speed is none, and why is said."""

    def missing(quick):
        raise UserError("PyG's NeighborLoader cannot sample here")

    examples("def test_one(): pass\ndef test_others_are_refused_by_name(): pass\n")
    monkeypatch.setattr(loader_parity.loader, "main", missing)
    result = loader_parity.main(quick=True)
    assert (result["examples_run"], result["refused_by_name"]) == (1, 1)
    assert result["keywords"] > 30 > 7 > result["unsupported"] > 0
    assert (result["speedup_over_pyg"], result["pyg_backend"]) == (None, "PyG's NeighborLoader cannot sample here")


@pytest.mark.long
def test_an_example_that_fails_ends_the_benchmark(examples):
    """No count of the others then."""
    examples("def test_one(): pass\ndef test_two(): raise ValueError\n")
    with pytest.raises(RunFailedError, match=r"an example does not run: .*1 failed"):
        loader_parity.main(quick=True)


@pytest.mark.long
@pytest.mark.skipif(pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE, reason="PyG can sample here")
def test_without_a_sampler_for_pyg_no_speed_is_said(examples):
    """None, and no made-up figure."""
    examples("def test_one(): pass\n")
    assert loader_parity.main(quick=True)["speedup_over_pyg"] is None


@pytest.mark.long
def test_the_speed_that_was_measured_elsewhere_has_its_day(examples, monkeypatch):
    """PyG's sampler is seldom there, so the full form says what was kept, and when."""

    def missing(quick):
        raise UserError("PyG's NeighborLoader cannot sample here")

    examples("def test_one(): pass\n")
    figures = {"speedup_over_pyg": 12.0, "speedup_by_fan_outs": {}, "pyg_backend": "torch-sparse", "date": "2026-01-01"}
    monkeypatch.setattr(loader_parity.loader, "main", missing)
    monkeypatch.setattr(loader_parity, "kept", lambda name: figures if name == "loader" else {})
    result = loader_parity.main(quick=False)
    assert (result["speedup_over_pyg"], result["speed_date"]) == (12.0, "2026-01-01")
