"""Text edge lists: comments, gzip, companions, and the line of every fault."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.graph_spec import EdgeListGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError

DRAWN = {"synthetic_feature_width": 3, "synthetic_num_classes": 2}


def spec_of(path, **changes):
    return EdgeListGraph(source="edge_list", path=path, **{**DRAWN, **changes})


def refused(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        load_graph(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_comments_blank_lines_tabs_and_gzip(tmp_path, suffix):
    text = b"# SNAP header\r\n0\t1\r\n\n 2  0 # why not\n# 9 9\n1 2"
    path = tmp_path / f"web{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    graph = load_graph(spec_of(path))
    assert graph.edge_index.T.tolist() == [[0, 1], [2, 0], [1, 2]]
    assert (graph.num_nodes, graph.name) == (3, "web")
    assert load_graph(spec_of(path, num_nodes=7)).num_nodes == 7


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_commas_of_csv(tmp_path, suffix):
    """By the file's name, as a job in short takes it."""
    path = tmp_path / f"web{suffix}"
    path.write_bytes(gzip.compress(b"0,1\n2, 0\n") if suffix.endswith("gz") else b"0,1\n2, 0\n")
    graph = load_graph(spec_of(path))
    assert (graph.edge_index.T.tolist(), graph.name) == ([[0, 1], [2, 0]], "web")
    path = tmp_path / "b.csv"
    path.write_text("0,1\n2;0\n")
    refused(spec_of(path), "line 2")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=50))
def test_what_was_written_is_read(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("edges") / "e.txt"
    np.savetxt(path, pairs, fmt="%d")
    assert load_graph(spec_of(path)).edge_index.T.tolist() == [list(pair) for pair in pairs]


def test_features_and_labels_from_npy(tmp_path):
    path = tmp_path / "e.txt"
    path.write_text("0 1\n1 2\n")
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "y.npy", np.array([0, 1, -1]))
    spec = spec_of(path, features=tmp_path / "x.npy", labels=tmp_path / "y.npy")
    graph = load_graph(spec)
    assert graph.y.tolist() == [0, 1, -1]
    assert graph.num_features == 3
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    assert refused(spec, "not an .npy file, or damaged").startswith(str(tmp_path / "x.npy"))
    (tmp_path / "x.npy").write_bytes(b"PK")
    refused(spec, r"x.npy: not an .npy file")
    np.save(tmp_path / "x.npy", np.eye(4))
    refused(spec, r"features must have shape \[3, F")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n# c\n\n2 x\n", "line 4: whole numbers are needed, found '2 x'"),
        ("0 1\n1.5 2\n", "line 2: whole numbers"),
        ("0 1\n1\n", "line 2: 2 columns are needed, found '1'"),
        ("0 1 5\n", "line 1: 2 columns are needed"),
        ("0,1\n", "line 1: 2 columns are needed"),
        ("0 1\n0 99999999999999999999\n", "line 2: whole numbers"),
        ("0 1\n0 \xff\n", "line 2: whole numbers"),
        ("0 1\n0 \0\n", "line 2"),
        ("0 1\n-1 0\n", "vertex -1"),
        ("0 3000000000\n", "num_nodes is 3000000001"),
        ("# nothing\n\n", "no line holds data"),
        ("", "the file is empty"),
    ],
)
def test_a_line_that_does_not_parse_is_named(tmp_path, text, message):
    path = tmp_path / "e.txt"
    path.write_bytes(text.encode("latin-1"))
    assert refused(spec_of(path), message).startswith(str(path))


def test_ids_past_num_nodes(tmp_path):
    path = tmp_path / "e.txt"
    path.write_text("0 4\n")
    refused(spec_of(path, num_nodes=4), "vertex 4, outside 0..3")


def test_gzip_faults(tmp_path):
    path = tmp_path / "e.txt.gz"
    refused(spec_of(path), "no such file")
    path.write_text("0 1\n")
    refused(spec_of(path), "cannot be read as a gzip file")
    path.write_bytes(gzip.compress(b"0 1\n" * 1000)[:-12])
    refused(spec_of(path), "not a gzip file, or damaged")
    whole = bytearray(gzip.compress(b"0 1\n" * 1000))
    whole[20] ^= 255
    path.write_bytes(whole)
    refused(spec_of(path), "gzip")
