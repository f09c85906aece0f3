"""Pilots train as runs do: their curves are those of the reference, and families come to the same accuracy."""

import pytest
import torch

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.pilot.contract import trained_fingerprint
from gnnplan.planner.pilot.run import families_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import NotFiniteError, UserError
from gnnplan.profiles.kernels.metrics import sums_of
from gnnplan.runtime.pilot.train import curve_of
from gnnplan.runtime.reference import graph_tensors, pyg_forward, train_reference

SPEC = SbmGraph(source="sbm", num_nodes=400, average_degree=8, num_features=16, num_classes=4, homophily=0.9)
GRAPH = generate_sbm(SPEC)
JOB = Job(
    graph=SPEC,
    model=ModelSpec(kind="sage", hidden_channels=16),
    training=TrainingSpec(learning_rate=0.02),
    mini_batch=MiniBatchSpec(fan_outs=(5, 5), batch_size=60),
)
FULL, BATCHES = families_of(JOB)
CPU = torch.device("cpu")


def test_full_batches_have_the_curve_of_the_reference():
    """Epoch by epoch, to the vertex."""
    curve = curve_of(FULL, GRAPH, CPU, 6)
    x, edge_index, y = graph_tensors(GRAPH)
    expected = []
    for epochs in range(1, 7):
        net, _ = train_reference(GRAPH, FULL.model, FULL.training, epochs=epochs)
        right, total = sums_of("accuracy", pyg_forward(net, x, edge_index)[GRAPH.val_mask], y[GRAPH.val_mask]).tolist()
        expected.append(right / total)
    assert curve.accuracies == pytest.approx(expected, abs=1e-12)
    assert len(set(expected)) > 2
    assert curve.steps_per_epoch == 1


def test_mini_batches_learn_in_fewer_epochs():
    """Several steps an epoch; the same training again has the same curve."""
    batches = curve_of(BATCHES, GRAPH, CPU, 8)
    assert batches.steps_per_epoch == -(-int(GRAPH.train_mask.sum()) // 60)
    assert batches == curve_of(BATCHES, GRAPH, CPU, 8)
    full = curve_of(FULL, GRAPH, CPU, 8)
    assert batches.accuracies[1] > full.accuracies[1]
    assert batches.best > 0.6
    assert (batches.family, full.family) == ("mini_batch", "full_batch")
    assert batches.trained == trained_fingerprint(BATCHES, GRAPH.fingerprint)


def test_it_ends_where_the_accuracy_is_reached():
    """And tells every epoch."""
    told = []
    curve = curve_of(BATCHES, GRAPH, CPU, 50, 0.5, lambda *event: told.append(event))
    assert len(curve.accuracies) == curve.epochs_to(0.5) == len(told) < 50
    assert told[-1] == (len(told) - 1, curve.accuracies[-1])


def test_dropout_drops():
    """Another curve, of the same training again the same."""
    model = JOB.model.model_copy(update={"dropout": 0.5})
    dropped = curve_of(FULL.model_copy(update={"model": model}), GRAPH, CPU, 10)
    assert dropped.accuracies != curve_of(FULL, GRAPH, CPU, 10).accuracies
    assert dropped == curve_of(FULL.model_copy(update={"model": model}), GRAPH, CPU, 10)


def test_a_training_that_diverges_says_so():
    """In one line."""
    wild = FULL.model_copy(update={"training": TrainingSpec(learning_rate=1e6, optimizer="sgd")})
    with pytest.raises(NotFiniteError, match="lower learning_rate"):
        curve_of(wild, GRAPH, CPU, 40)


def test_what_has_no_second_family_is_refused():
    """Before anything is trained."""
    with pytest.raises(UserError, match="input_dropout"):
        families_of(FULL.model_copy(update={"model": ModelSpec(input_dropout=0.2)}))
