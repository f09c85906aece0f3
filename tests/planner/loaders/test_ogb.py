"""OGB folders in both forms, written here in small."""

import gzip

import numpy as np
import pytest

from gnnplan.planner.graph_spec import OgbGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError

EDGES = [[0, 1], [1, 2], [3, 0]]
X = [[0.5, 1.0], [0.25, -1], [3, 4], [5, 6]]
Y = [[0], [2], [1], [0]]


def pack(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = rows if isinstance(rows, str) else "".join(",".join(map(str, row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()))


def write_split(folder, name="time", ids=((0, 1), (2,), (3,))):
    for file, chosen in zip(("train", "valid", "test"), ids):
        pack(folder / "split" / name / f"{file}.csv.gz", [[i] for i in chosen])


def write_csv(folder):
    pack(folder / "raw" / "edge.csv.gz", EDGES)
    pack(folder / "raw" / "num-node-list.csv.gz", [[4]])
    pack(folder / "raw" / "node-feat.csv.gz", X)
    pack(folder / "raw" / "node-label.csv.gz", Y)


def write_binary(folder):
    (folder / "raw").mkdir(parents=True)
    edge_index = np.array(EDGES).T
    np.savez(folder / "raw" / "data.npz", edge_index=edge_index, num_nodes_list=[4], node_feat=np.array(X))
    np.savez(folder / "raw" / "node-label.npz", node_label=np.array(Y))


@pytest.fixture(params=[write_csv, write_binary])
def folder(request, tmp_path):
    root = tmp_path / "ogbn_tiny"
    request.param(root)
    write_split(root)
    return root


def spec_of(folder, **changes):
    return OgbGraph(source="ogb", path=folder, **changes)


def refused(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        load_graph(spec)
    assert str(caught.value).startswith(str(spec.path))
    assert "\n" not in str(caught.value)


def test_both_forms_give_the_same_graph(folder):
    graph = load_graph(spec_of(folder))
    assert graph.edge_index.T.tolist() == EDGES
    assert graph.x.tolist() == X
    assert graph.y.tolist() == [0, 2, 1, 0]
    assert (graph.num_nodes, graph.num_classes, graph.name) == (4, 3, "ogbn_tiny")
    found = [np.flatnonzero(m).tolist() for m in (graph.train_mask, graph.val_mask, graph.test_mask)]
    assert found == [[0, 1], [2], [3]]


def test_several_schemes_are_counted_in_alphabetical_order(folder):
    write_split(folder, "alpha", ((3,), (2,), (1,)))
    assert np.flatnonzero(load_graph(spec_of(folder)).train_mask).tolist() == [3]
    assert np.flatnonzero(load_graph(spec_of(folder, split_index=1)).train_mask).tolist() == [0, 1]
    refused(spec_of(folder, split_index=2), "holds 2 split")


def test_nan_labels_are_unlabelled_and_features_may_be_missing(tmp_path):
    write_csv(tmp_path)
    write_split(tmp_path)
    pack(tmp_path / "raw" / "node-label.csv.gz", [[0], ["nan"], [1], [1]])
    (tmp_path / "raw" / "node-feat.csv.gz").unlink()
    refused(spec_of(tmp_path), "no features")
    graph = load_graph(spec_of(tmp_path, synthetic_feature_width=4))
    assert graph.y.tolist() == [0, -1, 1, 1]
    assert np.flatnonzero(graph.train_mask).tolist() == [0]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("raw/edge.csv.gz", "0,1\n1,b\n", "edge.csv.gz, line 2: whole numbers"),
        ("raw/edge.csv.gz", "0,1,2\n", "edge.csv.gz, line 1: 2 columns"),
        ("raw/edge.csv.gz", "0,9\n", "vertex 9, outside 0..3"),
        ("raw/num-node-list.csv.gz", "2\n2\n", "one graph is needed, found 2"),
        ("raw/num-node-list.csv.gz", "-4\n", "num_nodes is -4"),
        ("raw/node-feat.csv.gz", "1,2\n3\n", "node-feat.csv.gz, line 2: 2 columns"),
        ("raw/node-feat.csv.gz", "1,2\n3,nan\n5,6\n7,8\n", "NaN"),
        ("raw/node-label.csv.gz", "0\n1\n", "y must be numbers"),
        ("split/time/train.csv.gz", "4\n", "train.csv.gz: vertex 4 is outside 0..3"),
        ("split/time/test.csv.gz", "", "test.csv.gz: no line holds data"),
    ],
)
def test_malformed_tables_are_one_line(tmp_path, file, content, message):
    write_csv(tmp_path)
    write_split(tmp_path)
    pack(tmp_path / file, content)
    refused(spec_of(tmp_path), message)


def test_missing_and_damaged_files_are_one_line(folder):
    refused(spec_of(folder / "nowhere"), "no such folder")
    (folder / "split" / "time" / "valid.csv.gz").write_text("0\n")
    refused(spec_of(folder), "valid.csv.gz: cannot be read as a gzip file")
    (folder / "split" / "time" / "valid.csv.gz").unlink()
    refused(spec_of(folder), "valid.csv.gz: no such file")
    load_graph(spec_of(folder, split="random"))
    for name in ("edge.csv.gz", "data.npz"):
        (folder / "raw" / name).write_bytes(b"")
    refused(spec_of(folder), "the file is empty")


def test_binary_without_a_key_names_it(tmp_path):
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "data.npz", edge_index=np.array(EDGES).T)
    refused(spec_of(tmp_path), "data.npz: no array named num_nodes_list")
