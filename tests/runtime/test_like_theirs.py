"""A training with a loss, a metric, an optimizer and a stop of its own, on two real workers; then its inference."""

import numpy as np
import pytest
import torch

import gnnplan
from gnnplan.planner import api
from gnnplan.planner.checkpoints import checkpoints_in
from gnnplan.planner.finish import Parts, finish
from gnnplan.planner.graph_spec import MemoryGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.models.module_source import module_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.reference import dense_features
from tests import warm
from tests.runtime.checkpoint.jobs import GRAPH, same_bits, two_workers, weights
from tests.runtime.checkpoint.test_resumed_modules import MODULE

pytestmark = pytest.mark.distributed
EPOCHS, PATIENCE = 40, 3


def graph_of_targets():
    """Noise beside what can be learned, so that validation becomes worse before the end."""
    graph, rng = load_graph(GRAPH), np.random.default_rng(0)
    y = np.stack([graph.y, -graph.y], 1) + 3.0 * rng.standard_normal((graph.num_nodes, 2))
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    parts = Parts("here", "targets", graph.num_nodes, graph.edge_index, graph.x, y, masks)
    return finish(parts, SbmGraph(source="sbm", label_kind="targets"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The plan, its graph, the trace, the run's folder, and what was told."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "net.py").write_text(MODULE)
    graph, told = graph_of_targets(), []
    job = Job(
        graph=MemoryGraph(label_kind="targets"),
        model={"kind": "module", "build": str(folder / "net.py:build")},
        training=TrainingSpec(
            epochs=EPOCHS,
            learning_rate=0.05,
            seed=2,
            loss="mse",
            metric="mae",
            optimizer="rmsprop",
            optimizer_arguments={"centered": True},
            schedule="plateau",
            schedule_arguments={"patience": 0, "factor": 0.5},
            warmup_epochs=2,
            clip_norm=1.0,
            early_stopping={"patience": PATIENCE},
        ),
        pin=PinnedDecisions(dependencies="communicate", num_workers=2, balance="speed"),
    )
    plan = api.plan(job, two_workers(folder), folder / "plan.json", graph=graph)
    with warm.runs():
        trace = api.run(plan, folder / "run", graph=graph, timeout_s=60, checkpoint_every=4, on_event=told.append)
        yield plan, graph, trace, folder / "run", told


def outputs(plan, graph, folder):
    """Of the module with the weights that were written, which fit it strictly."""
    module = module_of(plan.job.model, graph.num_features, graph.num_classes, seed=9)
    module.load_state_dict(weights(folder), strict=True)
    with torch.no_grad():
        edges = torch.from_numpy(graph.edge_index).long()
        return module.eval()(torch.from_numpy(dense_features(graph)), edges).numpy()


@pytest.mark.long
def test_it_stops_and_says_so(run):
    """By the validation metric, which is told on the way; the trace has the epochs that were."""
    _, _, trace, folder, told = run
    assert PATIENCE < len(trace.losses) < EPOCHS
    (words,) = [event["words"] for event in told if event["event"] == "note"]
    best = len(trace.losses) - 1 - PATIENCE
    assert words.startswith(f"stopped after epoch {len(trace.losses) - 1}: the model is that of epoch {best}, with MAE")
    assert {event["metric"] for event in told if event["event"] == "epoch"} == {"mae"}
    counts = {int(each) for name, each in weights(folder).items() if name.endswith("num_batches_tracked")}
    assert counts == {best + 1}  # as the best weights' own statistics


def test_the_model_is_the_best_one(run):
    """It has the module's keys, and one process finds the errors that the trace says."""
    plan, graph, trace, folder, _ = run
    assert trace.metric == "mae"
    error = abs(outputs(plan, graph, folder) - graph.y)
    for name in ("train", "val", "test"):
        mask = getattr(graph, f"{name}_mask")
        assert trace.accuracy[name] == pytest.approx(float(error[mask].mean()), rel=1e-5)


@pytest.mark.long
def test_it_goes_on_bit_for_bit(run, tmp_path):
    """With the factor of the learning rate, the best weights, and how long they have been the best."""
    plan, graph, trace, folder, _ = run
    import shutil

    shutil.copytree(folder, tmp_path / "again")
    assert 0 < checkpoints_in(folder)[0][0].epoch < len(trace.losses)
    again = api.run(plan, tmp_path / "again", graph=graph, timeout_s=60, resume=True)
    assert again.losses == trace.losses
    assert same_bits(folder, tmp_path / "again")


@pytest.mark.long
def test_inference_is_the_modules(run):
    """Of the run's model, in the order of the graph's vertices; nothing else stays."""
    plan, graph, _, folder, _ = run
    made = gnnplan.infer(plan, folder, folder.parent / "out.npy", graph=graph)
    found = np.load(made.path, allow_pickle=False)
    assert (found.dtype, found.shape) == (np.float32, (graph.num_nodes, 2))
    assert made.seconds > 0
    np.testing.assert_allclose(found, outputs(plan, graph, folder), rtol=1e-4, atol=1e-5)
    assert not (folder.parent / "out.infer").exists()


@pytest.mark.long
def test_checkpoints_are_weights_too(run):
    """Of another epoch than the model's; what is none is refused before anything is started."""
    plan, graph, _, folder, _ = run
    made = gnnplan.infer(plan, checkpoints_in(folder)[0][0].folder, folder.parent / "then.npy", graph=graph)
    found = np.load(made.path, allow_pickle=False)
    assert np.isfinite(found).all()
    assert not np.allclose(found, outputs(plan, graph, folder), atol=1e-3)
    with pytest.raises(UserError, match=r"no model\.pt, no checkpoint"):
        gnnplan.infer(plan, folder.parent / "nowhere", graph=graph)


@pytest.mark.long
def test_other_files_are_no_weights(run):
    """In one line, and nothing is left of what was begun."""
    plan, graph, _, folder, _ = run
    output = folder.parent / "none.npy"
    torch.save({"conv1.bias": torch.zeros(3)}, folder.parent / "other.pt")
    for name, words in (("plan.json", "no state_dict of tensors alone"), ("other.pt", "and the plan's model has")):
        with pytest.raises(UserError, match=words):
            gnnplan.infer(plan, folder.parent / name, output, graph=graph)
    assert not output.exists()
    assert not (folder.parent / "none.infer").exists()
