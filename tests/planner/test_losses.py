"""Losses by name, or of one's own, on labels of every kind: what every plan computes is what one PyG process does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.finish import Parts, finish
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.job import Job, MemoryGraph, ModelSpec, PinnedDecisions, SbmGraph, TrainingSpec
from gnnplan.planner.losses import loss_of
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.plan import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import cycle_of
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.module_reference import train_module
from gnnplan.runtime.reference import dense_features
from tests.planner.models.test_planned_modules import Dropped
from tests.planner.models.trained_modules import made

EPOCHS, NODES = 4, 120
FOCAL = """
import torch
from torch.nn import functional as F

def focal(logits, labels):
    each = F.cross_entropy(logits, labels, reduction="none")
    return (1 - torch.exp(-each)) ** 2 * each

def huber(logits, labels):
    return F.huber_loss(logits, labels, reduction="none", delta=0.3).sum(1)

def mean(logits, labels):
    return F.cross_entropy(logits, labels)

def centred(logits, labels):
    return F.cross_entropy(logits - logits.mean(0), labels, reduction="none")

def broken(logits, labels):
    return logits.no_such_thing()
"""


def graph_of(labels):
    """Of classes, label sets, or targets of three columns."""
    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=NODES, average_degree=6, num_features=12, num_classes=3))
    rng = np.random.default_rng(0)
    if labels == "sets":
        return replace(graph, y=(rng.random((NODES, 3)) < 0.4).astype(np.float32))
    if labels == "targets":
        return replace(graph, y=rng.standard_normal((NODES, 3)).astype(np.float32))
    return graph


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "losses.py"
    path.write_text(FOCAL)
    return path


def executed(module, graph, training, num_workers, pins, folder):
    """A plan's cycle in the sequential executor, in float64."""
    cluster = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=num_workers),)),))
    pin = PinnedDecisions(num_workers=num_workers, techniques=pins)
    job = Job(graph=MemoryGraph(), model=ModelSpec(kind="module").holding(module), training=training, pin=pin)
    plan = api.plan(job, cluster, folder / "plan.json", graph=graph)
    cycle = cycle_of(plan, graph, load_partition(plan, folder / "plan.json"))
    x, y, ids = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.y), cycle.arrays.ids
    labels = [y[each] if y.dim() == 2 else y[each][:, None] for each in ids[cycle.values["y"].space]]
    inputs = {"x": [x[each] for each in ids["v@0"]], "y": labels}
    return SequentialExecutor(cycle, inputs, matrices_of(module.double(), cycle))


CASES = [("bce", "sets"), ("mse", "targets"), ("l1", "targets"), ("focal", "classes"), ("huber", "targets")]
PINS = [(1, {}), (3, {"halo_exchange": True}), (2, {"feature_slices": True}), (4, {"halo_exchange": True})]


@pytest.mark.parametrize(("num_workers", "pins"), PINS, ids=str)
@pytest.mark.parametrize(("name", "labels"), CASES)
def test_losses_are_those_of_one_process(name, labels, num_workers, pins, own, tmp_path):
    """The mean over the training rows of the whole graph, in every epoch, so gradients are right too."""
    graph, loss = graph_of(labels), f"{own}:{name}" if name in FOCAL else name
    training = TrainingSpec(epochs=EPOCHS, optimizer="sgd", learning_rate=0.05, seed=1, loss=loss)
    module = made(Dropped, graph)
    _, want = train_module(module, graph, training, torch.float64)
    executor = executed(module, graph, training, num_workers, pins, tmp_path)
    (found,) = executor.cycle.results & {"loss", "total_loss"}
    losses = [float(executor.run(executor.cycle.order[0], epoch)[found][0]) for epoch in range(EPOCHS)]
    assert losses == pytest.approx(want, rel=1e-6)
    assert abs(losses[-1] - losses[0]) > 1e-3 * losses[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mean", "it must return one loss a row, .* returned Tensor"),
        ("centred", "depends on the other rows"),
        ("broken", r"losses\.py:19: broken failed: .*no_such_thing"),
        ("absent", "there is no function 'absent'; training.loss names"),
    ],
)
def test_what_no_loss_of_rows_is(name, words, own, tmp_path):
    """It is refused where it would first be used, in a line that says which function and why."""
    graph, training = graph_of("classes"), TrainingSpec(epochs=1, loss=f"{own}:{name}")
    executor = executed(made(Dropped, graph), graph, training, 2, {"halo_exchange": True}, tmp_path)
    with pytest.raises(UserError, match=words):
        executor.run("train", 0)


def test_plans_run_no_code_and_know_the_file(own, tmp_path):
    """Planning and simulating leave the file alone; one that has changed since is refused where it would run."""
    own.write_text(FOCAL + "\nraise RuntimeError('imported')\n")
    graph, training = graph_of("classes"), TrainingSpec(epochs=1, loss=f"{own}:focal")
    executor = executed(made(Dropped, graph), graph, training, 2, {}, tmp_path)
    api.simulate(tmp_path / "plan.json")
    with pytest.raises(UserError, match=r"losses\.py:\d+: it cannot be imported: imported"):
        executor.run(executor.cycle.order[0], 0)
    own.write_text(FOCAL)
    with pytest.raises(UserError, match="has changed since the plan was made"):
        executor.run(executor.cycle.order[0], 0)


@pytest.mark.parametrize(
    ("loss", "labels", "words"),
    [
        ("cross_entropy", "sets", "is of classes"),
        ("bce", "classes", "label_kind"),
        ("mse", "classes", 'write label_kind = "targets"'),
        ("bce", "targets", "only 0 and 1"),
        ("auto", "targets", 'write loss = "mse"'),
    ],
)
def test_losses_know_their_labels(loss, labels, words):
    """Else it is said what to write."""
    with pytest.raises(UserError, match=words):
        loss_of(loss, graph_of(labels))


def test_the_usual_losses_leave_programs_as_they_were():
    """Classes and label sets need no word in a job, and one that says it has the same plan."""
    assert loss_of("auto", graph_of("classes")) == "cross_entropy"
    assert loss_of("auto", graph_of("sets")) == "bce"


@pytest.mark.parametrize("name", ["hinge", "my.txt:loss", "my.py:", "my.py:a b"])
def test_other_names_are_refused(name):
    """With all that there are."""
    with pytest.raises(ValidationError, match="it is auto, cross_entropy, bce, mse, l1, or a function"):
        TrainingSpec(loss=name)


def test_targets_of_a_source():
    """Numbers of one column stay one; vertices without a number are in no split."""
    y = np.arange(10, dtype=np.float64)
    y[3] = np.nan
    edges = np.array([[0, 1], [1, 2]])
    options = SbmGraph(source="sbm", label_kind="targets", train_fraction=0.5)
    graph = finish(Parts("here", "g", 10, edges, np.ones((10, 2)), y), options)
    assert (graph.y.shape, graph.y.dtype, graph.num_classes) == ((10, 1), np.float32, 1)
    masks = graph.train_mask.astype(int) + graph.val_mask + graph.test_mask
    assert masks.tolist() == [1, 1, 1, 0, *[1] * 6]
