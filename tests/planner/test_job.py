"""A job loads from TOML and JSON, and every mistake in it is one line that names the key."""

import json
from pathlib import Path

import pytest

from gnnplan.planner.graph_spec import EdgeListGraph, NpzGraph, PygGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError

EXAMPLES = Path(__file__).parents[2] / "examples"
TOML = """
schema_version = 1
name = "mine"
[graph]
source = "sbm"
num_nodes = 50
[model]
kind = "gat"
hidden_channels = 12
heads = 3
[training]
epochs = 4
[pin]
num_workers = 2
"""


def write(folder, text, name="job.toml"):
    """A job file with the given text."""
    path = folder / name
    path.write_text(text)
    return path


def fault_of(path):
    """The one line a user sees for a bad job file."""
    with pytest.raises(UserError) as caught:
        Job.load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def test_toml_is_read_with_every_key(tmp_path):
    """What stands in the file stands in the job; the rest has its default."""
    job = Job.load(write(tmp_path, TOML))
    assert (job.name, job.kind, job.fidelity) == ("mine", "job", "exact")
    assert job.graph == SbmGraph(source="sbm", num_nodes=50)
    assert job.model == ModelSpec(kind="gat", hidden_channels=12, heads=3)
    assert job.training == TrainingSpec(epochs=4)
    assert job.pin.num_workers == 2


@pytest.mark.parametrize("prune", ["none", "rapa"])
@pytest.mark.parametrize("interval", [1, 4])
@pytest.mark.parametrize("fidelity", ["exact", "stale(3)", "stale(4)", "stale", "approximate"])
def test_one_rule_for_all_that_is_not_exact(fidelity, interval, prune, tmp_path):
    """Fidelity is the most a plan may do: reused rows need `stale`, dropped edges `approximate`, which allows both."""
    path = write(tmp_path, f"fidelity = '{fidelity}'\n{GRAPH}[pin]\nprune = '{prune}'\nrefresh_interval = {interval}\n")
    needs = "approximate" if prune == "rapa" else "stale(4)" if interval == 4 else "exact"
    levels = ["exact", "stale(3)", "stale(4)", "stale", "approximate"]
    if levels.index(needs) <= levels.index(fidelity):
        assert str(Job.load(path).pin.needs[0]) == needs
    else:
        text = fault_of(path)
        assert f'write the line fidelity = "{needs}" above the first [section]' in text
        assert ("pin.prune" if prune == "rapa" else "pin.refresh_interval 4") in text


def test_json_says_the_same_as_toml(tmp_path):
    """A job saved as JSON is the job that was loaded from TOML."""
    job = Job.load(write(tmp_path, TOML))
    assert Job.load(job.save(tmp_path / "job.json")) == job


@pytest.mark.parametrize("name", ["job.toml", "real_graph.toml"])
def test_shipped_examples_load(name):
    """A user copies the examples, so they must be valid."""
    assert Job.load(EXAMPLES / name).schema_version == 1


GRAPH = 'schema_version = 1\n[graph]\nsource = "sbm"\n'
MISTAKES = {
    "no version": ("[graph]\nsource = 'sbm'\n", "schema_version is missing"),
    "other version": ("schema_version = 2\n[graph]\nsource = 'sbm'\n", "schema_version is 2"),
    "version as text": ("schema_version = '1'\n[graph]\nsource = 'sbm'\n", "schema_version is '1'"),
    "other kind": (f"kind = 'cluster'\n{GRAPH}", "'cluster' file, a 'job' file is needed"),
    "no graph": ("schema_version = 1\n", "graph: this key is missing"),
    "no source": ("schema_version = 1\n[graph]\nnum_nodes = 3\n", "'source'"),
    "unknown source": ("schema_version = 1\n[graph]\nsource = 'web'\n", "'source'"),
    "unknown key": (f"frobnicate = 1\n{GRAPH}", "frobnicate: unknown key"),
    "unknown graph key": (f"{GRAPH}num_vertices = 3\n", "graph.sbm.num_vertices: unknown key"),
    "npz without path": ("schema_version = 1\n[graph]\nsource = 'npz'\n", "graph.npz.path: this key is missing"),
    "no vertices": (f"{GRAPH}num_nodes = 0\n", "graph.sbm.num_nodes"),
    "NaN": (f"{GRAPH}average_degree = nan\n", "graph.sbm.average_degree"),
    "infinity": (f"{GRAPH}feature_signal = inf\n", "graph.sbm.feature_signal"),
    "share above 1": (f"{GRAPH}homophily = 1.5\n", "graph.sbm.homophily"),
    "no training share": (f"{GRAPH}train_fraction = 0.0\n", "train_fraction must be above 0"),
    "shares above 1": (f"{GRAPH}train_fraction = 0.8\nval_fraction = 0.3\n", "val_fraction at most 1"),
    "unknown split": (f"{GRAPH}split = 'half'\n", "graph.sbm.split"),
    "unknown model": (f"{GRAPH}[model]\nkind = 'gnn'\n", "model.kind"),
    "no layers": (f"{GRAPH}[model]\nnum_layers = 0\n", "model.num_layers"),
    "layers as text": (f"{GRAPH}[model]\nnum_layers = 'two'\n", "model.num_layers"),
    "dropout of all": (f"{GRAPH}[model]\ndropout = 1.0\n", "model.dropout"),
    "negative input dropout": (f"{GRAPH}[model]\ninput_dropout = -0.1\n", "model.input_dropout"),
    "heads": (f"{GRAPH}[model]\nkind = 'gat'\nhidden_channels = 10\nheads = 4\n", "multiple of heads 4"),
    "rate": (f"{GRAPH}[training]\nlearning_rate = 0\n", "training.learning_rate"),
    "decay": (f"{GRAPH}[training]\nweight_decay = -1\n", "training.weight_decay"),
    "optimizer": (f"{GRAPH}[training]\noptimizer = 'lion'\n", "training.optimizer"),
    "fidelity": (f"fidelity = 'bitwise'\n{GRAPH}", "fidelity"),
    "pinned order": (f"{GRAPH}[pin]\nop_order = 'sideways'\n", "pin.op_order"),
    "pinned workers": (f"{GRAPH}[pin]\nnum_workers = 0\n", "pin.num_workers"),
    "pruning where exact": (f"{GRAPH}[pin]\nprune = 'rapa'\n", 'write the line fidelity = "approximate"'),
    "reuse where exact": (f"{GRAPH}[pin]\nrefresh_interval = 4\n", 'write the line fidelity = "stale(4)"'),
    "fidelity without a number": (f"fidelity = 'stale(0)'\n{GRAPH}", "write exact, stale(r) with r epochs"),
    "unknown pruning": (f"{GRAPH}[pin]\nprune = 'hedge'\n", "pin.prune"),
    "a pin of before": (f"{GRAPH}[pin]\nadjust = 'online'\n", "pin.adjust: unknown key"),
    "unknown shares": (f"{GRAPH}[pin]\nbalance = 'concentrated'\n", "pin.balance"),
    "impatient": (f"{GRAPH}[pin.partial_reduce]\nalpha = -0.1\n", "pin.partial_reduce.alpha"),
    "unknown weather": (f"{GRAPH}[training.weather]\nkind = 'hail'\n", "training.weather"),
    "weather of mini-batches": (
        f"{GRAPH}[mini_batch]\nfan_outs = [2, 2]\n[training.weather]\nkind = 'sleep'\n",
        "mini-batches have neither pin.partial_reduce nor training.weather",
    ),
    "section as value": (f"model = 3\n{GRAPH}", "model"),
    "not TOML": ("schema_version = = 1\n", "not valid TOML"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_names_its_key_in_one_line(mistake, tmp_path):
    """The line starts with the file and holds the key and the fault."""
    text, wanted = MISTAKES[mistake]
    assert wanted in fault_of(write(tmp_path, text))


FILES = {
    "cut short": ("{", "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "a list": ("[1]", "a table of keys is needed, found list"),
    "NaN": (json.dumps({"schema_version": 1, "graph": {"source": "sbm", "homophily": float("nan")}}), "homophily"),
    "endless number": ('{"schema_version": 1, "graph": ' + "9" * 5000 + "}", "not valid JSON"),
    "endlessly nested": ("[" * 100_000, "not valid JSON"),
}


@pytest.mark.parametrize("damage", FILES)
def test_damaged_json_is_one_line(damage, tmp_path):
    """No decoder's exception reaches the user."""
    text, wanted = FILES[damage]
    assert wanted in fault_of(write(tmp_path, text, "job.json"))


def test_endless_number_in_toml_is_one_line(tmp_path):
    """Python refuses integers of more than 4300 digits; so does the reader, in words."""
    assert "not valid TOML" in fault_of(write(tmp_path, "schema_version = " + "9" * 5000))


def test_what_is_no_text_file_is_one_line(tmp_path):
    """Missing files, folders and binary files are told apart."""
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "no such file" in fault_of(tmp_path / "missing.toml")
    assert "cannot be read as text" in fault_of(tmp_path)
    assert "cannot be read as text" in fault_of(tmp_path / "binary.toml")


def test_several_faults_are_counted(tmp_path):
    """The first fault is shown, the others are counted."""
    text = f"{GRAPH}[model]\nkind = 'gnn'\nnum_layers = 0\nfoo = 1\n"
    assert fault_of(write(tmp_path, text)).endswith("; and 2 more")


@pytest.mark.parametrize(
    ("graph", "keys"),
    [
        ("source = 'npz'\npath = 'data/g.npz'", ["path"]),
        ("source = 'ogb'\npath = 'data/ogb'", ["path"]),
        ("source = 'pyg'\nroot = 'data/cora'", ["root"]),
        ("source = 'edge_list'\npath = 'a.txt'\nfeatures = 'b.npy'\nlabels = 'c.npy'", ["path", "features", "labels"]),
    ],
)
def test_relative_paths_are_taken_from_the_jobs_folder(graph, keys, tmp_path, monkeypatch):
    """A job means the same from whatever folder it is run."""
    (tmp_path / "jobs").mkdir()
    path = write(tmp_path / "jobs", f"schema_version = 1\n[graph]\n{graph}\n")
    monkeypatch.chdir(tmp_path)
    job = Job.load(Path("jobs") / path.name)
    for key in keys:
        moved = getattr(job.graph, key)
        assert moved.is_absolute()
        assert moved.is_relative_to((tmp_path / "jobs").resolve())


def test_absolute_and_absent_paths_stay(tmp_path):
    """An absolute path is not moved, and no path is made up where none was given."""
    text = f"schema_version = 1\n[graph]\nsource = 'edge_list'\npath = '{tmp_path}/g.txt'\n"
    job = Job.load(write(tmp_path, text))
    assert isinstance(job.graph, EdgeListGraph)
    assert job.graph.path == tmp_path / "g.txt"
    assert job.graph.features is None


def test_source_picks_the_kind_of_graph():
    """`source` alone decides which keys a graph may have."""
    made = [Job.parse({"schema_version": 1, "graph": graph}, where="here").graph for graph in (
        {"source": "npz", "path": "g.npz"},
        {"source": "pyg", "root": "cora", "dataset": "Planetoid"},
    )]  # fmt: skip
    assert [type(graph) for graph in made] == [NpzGraph, PygGraph]


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn"])
def test_heads_matter_to_gat_alone(kind):
    """Models without heads take any hidden width."""
    assert ModelSpec(kind=kind, hidden_channels=10, heads=4).hidden_channels == 10


def test_fingerprint_follows_the_content(tmp_path):
    """Equal jobs have equal fingerprints, whatever file they came from; another value another one."""
    job = Job.load(write(tmp_path, TOML))
    again = Job.load(write(tmp_path, TOML.replace("epochs = 4", "epochs=4 # four"), "again.toml"))
    other = Job.load(write(tmp_path, TOML.replace("epochs = 4", "epochs = 5"), "other.toml"))
    assert job.fingerprint() == again.fingerprint() != other.fingerprint()


def test_a_module_names_its_file_and_function(tmp_path):
    """From the job's folder, in short form too; it says by itself how many layers it has."""
    job = Job.parse({"graph": "sbm", "model": "nets/mine.py:build"}, where="job").with_paths_from(tmp_path)
    assert (job.model.kind, job.model.build_file, job.model.build_function) == (
        "module",
        tmp_path / "nets" / "mine.py",
        "build",
    )
    assert Job.parse(job.model_dump(mode="json"), where="job") == job
    for model, words in (
        ({"kind": "module", "build": "mine.py:build", "heads": 2}, "leave out heads"),
        ({"kind": "module", "build": "mine.txt:build"}, "name a file and a function in it: my_model.py:build"),
        ({"kind": "gcn", "build": "mine.py:build"}, "build is for kind 'module'"),
    ):
        with pytest.raises(UserError, match=words):
            Job.parse({"graph": "sbm", "model": model}, where="job")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mini_batch": {"fan_outs": [5, 5]}}, "neither mini-batches nor pin.partial_reduce"),
        ({"pin": {"partial_reduce": {}}, "fidelity": "stale"}, "neither mini-batches nor pin.partial_reduce"),
        ({"training": {"momentum": 0.9}}, "momentum is of optimizer 'sgd'"),
        ({"training": {"schedule": "cosine"}, "model": "gcn", "mini_batch": {"fan_outs": [5, 5]}}, "training.schedule"),
    ],
)
def test_what_modules_and_schedules_do_not_go_with(changes, words):
    """Each is refused in a line."""
    with pytest.raises(UserError, match=words):
        Job.parse({"graph": "sbm", "model": "mine.py:build", **changes}, where="job")


def test_a_decoupled_model_has_no_other_form(tmp_path):
    """Asked for by its own name it is no other model than the one asked for."""
    path = tmp_path / "job.toml"
    path.write_text(
        'schema_version = 1\nfidelity = "decoupled"\n[graph]\nsource = "sbm"\n[model]\nkind = "appnp"\n[training]\n'
    )
    with pytest.raises(UserError, match="appnp has no other form; leave decoupled out of fidelity"):
        Job.load(path)
