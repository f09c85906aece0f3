"""Full-batch training of one worker: one global mean, scores counted directly, tasks under their keys."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, SbmGraph, TrainingSpec
from gnnplan.planner.shard import cut_shard
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.runtime.full_batch import FullBatchTrainer, MaskedLoss
from gnnplan.runtime.model import WorkerModel
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.reference import train_reference

CPU = torch.device("cpu")
N = 60


def graph_of(multilabel):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, N)
    x = (np.eye(4)[y] @ rng.standard_normal((4, 10)) + 0.5 * rng.standard_normal((N, 10))).astype(np.float32)
    labels = (rng.random((N, 4)) < 0.4).astype(np.float32) if multilabel else y
    which = rng.integers(0, 3, N)
    return Graph(N, rng.integers(0, N, (2, 200)), x, labels, which == 0, which == 1, which == 2, 4, "test").validate()


def trainer_of(graph, **training):
    spec = ModelSpec(num_layers=2, hidden_channels=8)
    job = Job(schema_version=1, graph=SbmGraph(source="sbm"), model=spec, training=TrainingSpec(seed=1, **training))
    layers = (LayerDecision(op_order="multiply_first"),) * 2
    program = build_program(spec, layers, num_features=10, num_classes=4, sparse_input=False)
    halo = build_halo(aggregation_matrix(N, graph.edge_index, "gcn"), np.zeros(N, np.int64), 1)
    shard = cut_shard(graph, halo, 0, sparse_features=False)
    return FullBatchTrainer(WorkerModel(job, program, shard, CPU), shard)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("multilabel", [False, True])
def test_losses_are_the_references_and_fall(multilabel, optimizer):
    """Fifteen epochs give the losses of PyG alone, weight decay included, and the last is below the first."""
    graph = graph_of(multilabel)
    trainer = trainer_of(graph, optimizer=optimizer, learning_rate=0.05, weight_decay=0.01)
    losses = [trainer.train_epoch(epoch, traced=False).loss for epoch in range(15)]
    job = trainer.model.job
    _, expected = train_reference(graph, job.model, job.training, epochs=15)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("multilabel", [False, True])
def test_loss_is_divided_by_the_training_vertices_of_the_whole_graph(multilabel):
    """A worker that holds half of the graph's training vertices reports half of its own mean."""
    graph = graph_of(multilabel)
    trainer = trainer_of(graph)
    logits = trainer.logits()
    mask = trainer.masks["train"]
    y = torch.from_numpy(graph.y)
    mean = (F.binary_cross_entropy_with_logits if multilabel else F.cross_entropy)(logits[mask], y[mask])
    assert trainer.denominator == int(mask.sum()) * (4 if multilabel else 1)
    trainer.denominator *= 2
    assert trainer.train_epoch(0, traced=False).loss == pytest.approx(float(mean) / 2, rel=1e-5)


def test_accuracy_is_the_share_right():
    """Per mask, the share of vertices whose largest logit is their class."""
    graph = graph_of(False)
    trainer = trainer_of(graph, learning_rate=0.05)
    for epoch in range(40):
        trainer.train_epoch(epoch, traced=False)
    predicted = trainer.logits().argmax(1).numpy()
    for name, score in trainer.evaluate().items():
        mask = getattr(graph, f"{name}_mask")
        right = sum(int(predicted[v] == graph.y[v]) for v in np.flatnonzero(mask))
        assert score == pytest.approx(right / mask.sum())
    assert trainer.evaluate()["train"] > 0.6


def test_label_sets_are_scored_by_micro_f1():
    """2 TP / (2 TP + FP + FN), counted label by label where the logit is positive."""
    graph = graph_of(True)
    trainer = trainer_of(graph, learning_rate=0.05)
    for epoch in range(30):
        trainer.train_epoch(epoch, traced=False)
    logits, scores = trainer.logits().numpy(), trainer.evaluate()
    assert set(scores) == {"train", "val", "test"}
    for name, score in scores.items():
        right = wrong = 0
        for v in np.flatnonzero(getattr(graph, f"{name}_mask")):
            for predicted, actual in zip(logits[v] > 0, graph.y[v] > 0, strict=True):
                right += int(predicted and actual)
                wrong += int(predicted != actual)
        assert right > 0
        assert score == pytest.approx(2 * right / (2 * right + wrong))


def test_empty_mask_has_no_score():
    """A graph without validation vertices gets no `val` score, not NaN."""
    graph = graph_of(False)
    trainer = trainer_of(replace(graph, val_mask=np.zeros(N, bool)))
    assert set(trainer.evaluate()) == {"train", "test"}


def test_unlabelled_vertices_are_never_looked_at():
    """Vertices outside all masks may have the label -1; losses stay those of the reference."""
    graph = graph_of(False)
    y = np.where(graph.test_mask, -1, graph.y)
    trainer = trainer_of(replace(graph, y=y, test_mask=np.zeros(N, bool)))
    whole = trainer_of(graph)
    assert trainer.train_epoch(0, traced=False).loss == whole.train_epoch(0, traced=False).loss


def test_traced_epoch_lists_its_tasks_in_order():
    """Forward, loss, backward in reverse, optimizer, each once, one after the other within the epoch."""
    trainer = trainer_of(graph_of(False))
    record = trainer.train_epoch(0, traced=True)
    steps = ["l0/multiply", "l0/aggregate", "l0/activate", "l1/multiply", "l1/aggregate", "l1/activate"]
    expected = ["zero_grad", *(f"{s}/forward" for s in steps), "loss", *(f"{s}/backward" for s in steps[::-1])]
    assert [span[0] for span in record.spans] == [*expected, "optimizer"]
    times = [record.start_s, *(time for span in record.spans for time in span[2:]), record.end_s]
    assert times == sorted(times)
    assert record.sent_bytes == 0


def test_evaluating_changes_nothing():
    """Evaluation between epochs leaves the losses as they would have been."""
    graph = graph_of(False)
    plain, watched = trainer_of(graph), trainer_of(graph)
    for epoch in range(4):
        expected = plain.train_epoch(epoch, traced=False).loss
        watched.evaluate()
        assert watched.train_epoch(epoch, traced=True).loss == expected


def test_masked_loss_has_its_own_gradient():
    """The gradient at the logits is autograd's of the summed loss over the denominator."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(8, 3, generator=generator).requires_grad_()
    rows, y = torch.tensor([1, 4, 6]), torch.tensor([0, 2, 1])
    loss = MaskedLoss.apply(Recorder(CPU), logits, rows, y, 12)
    expected = F.cross_entropy(logits[rows], y, reduction="sum") / 12
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in (loss, expected)))


def test_weather_sleeps_half_before_each_pass(monkeypatch):
    """In the epochs it is for, before anything of the pass has begun; losses stay what they were."""
    plain, asleep = trainer_of(graph_of(False)), trainer_of(graph_of(False))
    asleep.sleeps_s = np.array([0.0, 3.0, 0.0])
    slept = []
    monkeypatch.setattr("time.sleep", lambda seconds: slept.append((seconds, [s[0] for s in asleep.recorder.spans])))
    for epoch in range(3):
        expected = plain.train_epoch(epoch, traced=False).loss
        assert asleep.train_epoch(epoch, traced=True).loss == expected
    assert [seconds for seconds, _ in slept] == [1.5, 1.5]
    assert [tasks[-1] for _, tasks in slept] == ["zero_grad", "loss"]
