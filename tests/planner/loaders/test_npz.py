"""Graphs in `.npz` files: the shared data sets, round trips, and files nobody vouches for."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError

DATASETS = Path(__file__).parents[4] / "shared" / "datasets"
needs_datasets = pytest.mark.skipif(not DATASETS.is_dir(), reason=f"no data sets at {DATASETS}")


def plain(**changes):
    arrays = {
        "edge_index": np.array([[0, 1, 2], [1, 2, 3]], np.int32),
        "num_nodes": np.int64(5),
        "x": np.arange(10, dtype=np.float32).reshape(5, 2),
        "y": np.array([0, 1, 0, 1, -1], np.int8),
        **changes,
    }
    return {key: value for key, value in arrays.items() if value is not None}


def write(folder, **changes):
    path = folder / "tiny.npz"
    np.savez(path, **plain(**changes))
    return NpzGraph(source="npz", path=path)


def refused(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        load_graph(spec)
    assert str(caught.value).startswith(str(spec.path))
    assert "\n" not in str(caught.value)


@needs_datasets
@pytest.mark.parametrize(
    ("name", "n", "edges", "features", "classes", "train", "options"),
    [
        ("cora", 2708, 10556, 1433, 7, 140, {}),
        ("citeseer", 3327, 9104, 3703, 6, 120, {}),
        ("minesweeper", 10_000, 78_804, 7, 2, 5000, {"split_index": 9}),
        ("github_social", 37_700, 578_006, 16, 2, 22_620, {"synthetic_feature_width": 16}),
        ("fb100_johns_hopkins55", 5180, 373_172, 2406, 2, 2857, {}),
        ("rdf_aifb", 8285, 29_043, 4, 4, 140, {"synthetic_feature_width": 4}),
    ],
)
def test_shared_data_sets_have_their_published_counts(name, n, edges, features, classes, train, options):
    graph = load_graph(NpzGraph(source="npz", path=DATASETS / f"{name}.npz", **options))
    found = (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes, graph.train_mask.sum())
    assert found == (n, edges, features, classes, train)


@needs_datasets
def test_topology_without_features_or_labels_says_what_to_set():
    spec = NpzGraph(source="npz", path=DATASETS / "gowalla_bipartite.npz")
    refused(spec, "no labels; set synthetic_num_classes")
    refused(spec.model_copy(update={"synthetic_num_classes": 3}), "no features; set one_hot_features")


def test_dense_and_csr_features_are_the_same_graph(tmp_path):
    dense = load_graph(write(tmp_path))
    x = sp.csr_matrix(dense.x)
    csr = {"x_data": x.data.astype(np.uint8), "x_indices": x.indices.astype(np.uint16), "x_indptr": x.indptr}
    again = load_graph(write(tmp_path, x=None, x_shape=np.array(x.shape), **csr))
    assert again.fingerprint == dense.fingerprint
    assert load_graph(write(tmp_path, num_nodes=None)).fingerprint == dense.fingerprint


class Thing:
    """Something only a pickle can hold."""


CSR = {
    "x_data": np.ones(2),
    "x_indices": np.array([0, 1]),
    "x_indptr": np.array([0, 1, 2, 2, 2, 2]),
    "x_shape": np.array([5, 2]),
}
BAD = {
    "no edges": ({"edge_index": None}, "no array named edge_index"),
    "object edges": ({"edge_index": np.array([[Thing()], [1]], object)}, "'edge_index'"),
    "object features": ({"x": np.array([[Thing()]] * 5, object)}, "'x'"),
    "negative num_nodes": ({"num_nodes": np.int64(-5)}, "num_nodes is -5"),
    "float num_nodes": ({"num_nodes": np.float64(5)}, "num_nodes must be one integer"),
    "many num_nodes": ({"num_nodes": np.array([5, 5])}, "num_nodes must be one integer"),
    "no num_nodes": ({"num_nodes": None, "x": None, "y": None}, "no array named num_nodes"),
    "id out of range": ({"edge_index": np.array([[0], [5]])}, "vertex 5, outside 0..4"),
    "NaN": ({"x": np.full((5, 2), np.nan, np.float32)}, "NaN"),
    "scalar features": ({"x": np.float32(1)}, "features must have shape"),
    "scalar labels": ({"y": np.int8(1)}, "y must be numbers"),
    "scalar edges": ({"edge_index": np.int32(1)}, "edge_index must be integer"),
    "scalar mask": ({"train_mask": np.bool_(True)}, "train_mask must be bool"),
    "no splits": ({"train_mask": np.zeros((0, 5), bool)}, "split"),
    "half a CSR": ({"x": None, "x_data": np.ones(2)}, "without x_indices, x_indptr, x_shape"),
    "CSR column": ({"x": None, **CSR, "x_indices": np.array([0, 2])}, "column outside 0..1"),
    "CSR pointers": ({"x": None, **CSR, "x_indptr": np.array([0, 2, 1, 2, 2, 2])}, "x_indptr does not fit"),
    "CSR length": ({"x": None, **CSR, "x_data": np.ones(3)}, "x_indptr does not fit"),
    "CSR rows": ({"x": None, **CSR, "x_shape": np.array([6, 2])}, "x_indptr does not fit"),
    "CSR shape": ({"x": None, **CSR, "x_shape": np.array([-5, 2])}, "x_shape must be two integers"),
    "CSR types": ({"x": None, **CSR, "x_indices": np.array([0.0, 1.0])}, "x_indices must be"),
    "CSR infinity": ({"x": None, **CSR, "x_data": np.array([1, np.inf])}, "NaN or infinity"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_malformed_array_is_one_line(tmp_path, fault):
    changes, message = BAD[fault]
    refused(write(tmp_path, **changes), message)


def test_what_is_no_npz_is_one_line(tmp_path):
    path = tmp_path / "g.npz"
    spec = NpzGraph(source="npz", path=path)
    refused(spec, "no such file")
    path.write_bytes(b"")
    refused(spec, "empty")
    path.write_text("not a zip")
    refused(spec, "not an .npz file")
    with path.open("wb") as file:
        np.save(file, np.arange(4))
    refused(spec, "not an .npz file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("edge_index.npy", b"junk")
    refused(spec, "edge_index is no array")
    refused(NpzGraph(source="npz", path=tmp_path), "folder")


def _packed():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **plain())
    return buffer.getvalue()


@settings(max_examples=150, deadline=None)
@given(cut=st.integers(1, len(_packed())), at=st.integers(0, len(_packed()) - 1), byte=st.integers(0, 255))
def test_truncated_or_altered_files_load_or_end_in_one_line(tmp_path_factory, cut, at, byte):
    broken = bytearray(_packed())
    broken[at] = byte
    path = tmp_path_factory.mktemp("npz") / "g.npz"
    for content in (_packed()[:-cut], bytes(broken)):
        path.write_bytes(content)
        fault = fault_of(NpzGraph(source="npz", path=path))
        assert fault is None or (fault.startswith(str(path)) and "\n" not in fault)


def fault_of(spec):
    try:
        load_graph(spec)
    except UserError as error:
        return str(error)
    return None
