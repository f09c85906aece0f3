"""Graphs made for the benchmark of source chunks."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import _chunks_graphs
from benchmarks._chunks_graphs import SETS, WIDTH, _one_hot, _sets, narrowed, path_of, write
from benchmarks._common import DATASETS
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.loaders import load_graph


def test_few_numbers_keep_what_rows_have_in_common():
    """Inner products of rows are those of a matrix of that rank, up to one factor."""
    rng = np.random.default_rng(0)
    words = sp.csr_matrix(rng.integers(0, 3, (40, 5)) @ rng.integers(0, 3, (5, 30)))
    rows = narrowed(words, 5)
    assert rows.shape == (40, 5)
    assert np.mean(rows**2) == pytest.approx(1, rel=1e-5)
    products, found = (words @ words.T).toarray(), rows @ rows.T
    np.testing.assert_allclose(found / found.max(), products / products.max(), atol=1e-5)
    assert np.all(np.diff(np.linalg.norm(rows, axis=0)) <= 0)


def test_missing_attributes_have_no_column_and_rare_values_no_label(monkeypatch):
    """Zero is no value; a label that few vertices have is left out."""
    attributes = np.array([[0, 7], [3, 7], [3, 0], [5, 7]], np.uint16)
    np.testing.assert_array_equal(_one_hot(attributes).toarray(), [[0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 1, 1]])
    monkeypatch.setattr(_chunks_graphs, "_LEAST_SHARE", 0.5)
    np.testing.assert_array_equal(_sets(attributes), [[0, 1], [1, 1], [1, 0], [0, 1]])


@pytest.mark.long
@pytest.mark.skipif(not (DATASETS / f"{SETS}.npz").exists(), reason="needs the real graphs beside the repository")
def test_the_graph_of_sets_loads(monkeypatch, tmp_path):
    """Every vertex has a set of labels, and as many numbers as all graphs of the benchmark."""
    monkeypatch.setattr(_chunks_graphs, "_FOLDER", tmp_path)
    write(SETS)
    graph = load_graph(NpzGraph(source="npz", path=path_of(SETS)))
    assert graph.holds_sets
    assert graph.num_features == WIDTH
    assert 20 < graph.num_classes < 60
    before = path_of(SETS).stat()
    write(SETS)
    assert path_of(SETS).stat() == before
