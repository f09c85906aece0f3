"""What documents ask for beyond all measure is refused, before anything is made of it."""

import copy
import os

import pytest

from benchmarks._fuzz_corpus import EDITS, Corpus
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import read_mapping
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_TOML_BYTES
from gnnplan.profiles.machine import MachineProfile

CONTRACTS = {"job": Job, "cluster": Cluster, "plan": Plan, "profile": MachineProfile, "trace": Trace}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A sound document of every kind."""
    return Corpus(tmp_path_factory.mktemp("corpus"))


def used(document):
    """What a document is good for, as far as it may be refused: a job loads its graph."""
    if isinstance(document, Job):
        load_graph(document.graph)


@pytest.mark.parametrize("edit", EDITS, ids=map(str, range(len(EDITS))))
def test_what_once_went_wrong_is_one_line(corpus, edit):
    """Hosts by the million, devices by 2^62, layers by the thousand, times below zero, paths for names."""
    kind, path, value = edit
    raw = at = copy.deepcopy(corpus.documents[kind])
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    with pytest.raises(UserError) as caught:
        used(CONTRACTS[kind].parse(raw, where="document"))
    assert "\n" not in str(caught.value)


def test_a_cluster_has_a_limit_in_all():
    """Also where each of its hosts and devices is within the limits."""
    raw = {"schema_version": 1, "hosts": [{"name": "a", "count": 100, "devices": [{"catalog": "t4", "count": 100}]}]}
    with pytest.raises(UserError, match="10,000 devices in all, 4,096 at most"):
        Cluster.parse(raw, where="cluster")


@pytest.mark.parametrize("what", ["device", "pipe", "long", "nul"])
def test_documents_are_files_with_an_end(tmp_path, what):
    """Whatever a path leads to."""
    path = tmp_path / "job.toml"
    if what == "device":
        path.symlink_to("/dev/zero")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "long":
        with path.open("wb") as sink:
            sink.truncate(MAX_TOML_BYTES + 1)
    else:
        path = tmp_path / "a\0b.toml"
    with pytest.raises(UserError, match="cannot be read as text"):
        read_mapping(path)
