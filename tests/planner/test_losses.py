"""Losses by name, or of one's own, on labels of every kind: what every plan computes is what one PyG process does."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from gnnplan.planner import api
from gnnplan.planner.finish import Parts, finish
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.losses import loss_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.module_reference import train_module
from tests.planner.models.test_planned_modules import Dropped
from tests.planner.models.trained_modules import made
from tests.planner.planned_training import LAYOUTS, graph_of, planned

EPOCHS = 4
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


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "losses.py"
    path.write_text(FOCAL)
    return path


CASES = [("bce", "sets"), ("mse", "targets"), ("l1", "targets"), ("focal", "classes"), ("huber", "targets")]


@pytest.mark.long
@pytest.mark.parametrize(("num_workers", "pins"), LAYOUTS, ids=str)
@pytest.mark.parametrize(("name", "labels"), CASES)
def test_losses_are_those_of_one_process(name, labels, num_workers, pins, own, tmp_path):
    """The mean over the training rows of the whole graph, in every epoch, so gradients are right too."""
    graph, loss = graph_of(labels), f"{own}:{name}" if name in FOCAL else name
    training = TrainingSpec(epochs=EPOCHS, optimizer="sgd", learning_rate=0.05, seed=1, loss=loss)
    module = made(Dropped, graph)
    _, want = train_module(module, graph, training, torch.float64)
    plan = planned(module, graph, training, num_workers, pins, tmp_path)
    executor = plan.executor()
    losses = [float(executor.run(plan.cycle.order[0], epoch)[plan.loss][0]) for epoch in range(EPOCHS)]
    assert losses == pytest.approx(want, rel=1e-6)
    assert abs(losses[-1] - losses[0]) > 1e-3 * losses[0]


@pytest.mark.long
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
    executor = planned(made(Dropped, graph), graph, training, 2, {"halo_exchange": True}, tmp_path).executor()
    with pytest.raises(UserError, match=words):
        executor.run("train", 0)


def test_plans_run_no_code_and_know_the_file(own, tmp_path):
    """Planning and simulating leave the file alone; one that has changed since is refused where it would run."""
    own.write_text(FOCAL + "\nraise RuntimeError('imported')\n")
    graph, training = graph_of("classes"), TrainingSpec(epochs=1, loss=f"{own}:focal")
    executor = planned(made(Dropped, graph), graph, training, 2, {}, tmp_path).executor()
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


def test_arguments_keep_their_types():
    """Numbers stay numbers and lists lists, through a file too; whole ones are not taken for truths."""
    given = {"step_size": 1, "gamma": 1}
    spec = TrainingSpec(schedule="step", schedule_arguments=given, optimizer_arguments={"betas": [0, 0.5]})
    again = TrainingSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert {type(each) for each in again.schedule_arguments.values()} == {float}
    assert again.optimizer_arguments == {"betas": (0.0, 0.5)}


@pytest.mark.parametrize(
    ("schedule", "given", "words"),
    [
        ("step", {"step_size": 0.5}, "a whole number of epochs"),
        ("step", {"step_size": 2.5}, "a whole number of epochs"),
        ("multistep", {"milestones": [2.5]}, "a list of epochs"),
        ("plateau", {"factor": 1.0}, "less than 1"),
    ],
)
def test_arguments_that_torch_takes_otherwise_are_refused(schedule, given, words):
    """As torch refuses them, or counts other epochs by them."""
    with pytest.raises(ValidationError, match=words):
        TrainingSpec(schedule=schedule, schedule_arguments=given)


def test_a_rank_that_every_edge_has_is_no_metric():
    """Among 50 pairs each edge has one of the first 51 ranks."""
    job = {"graph": {"source": "sbm", "link": {"num_ranked": 50}}, "training": {"metric": "hits@100"}}
    with pytest.raises(UserError, match="among 50 pairs hits@100 is 100% of any model"):
        Job.parse({"schema_version": 1, **job}, where="job")
