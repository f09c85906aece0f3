"""A variant's pilot trains as its plan runs: the same accuracies, on one worker as on two."""

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.pilot.contract import Pilots
from gnnplan.planner.pilot.reach import to_accuracy
from gnnplan.planner.pilot.run import families_of
from gnnplan.planner.pilot.variants import variant_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import NotFiniteError
from gnnplan.runtime.pilot.train import curve_of
from tests.runtime.test_pruned_plan import cluster_of
from tests.warm import runs

EPOCHS = 8
SPEC = SbmGraph(source="sbm", num_nodes=300, average_degree=8, num_classes=4, num_features=12, feature_signal=2.0)
GRAPH = load_graph(SPEC)
CPU = torch.device("cpu")


def job_of(kind="sage", **training):
    model = ModelSpec(kind=kind, num_layers=2, hidden_channels=8, heads=2)
    training = {"epochs": EPOCHS, "seed": 2, "learning_rate": 0.02, **training}
    return Job(name="several", graph=SPEC, model=model, training=TrainingSpec(**training), fidelity="stale(5)")


def test_the_fidelity_says_which_variants_there_are():
    """Full batch as it is, and each number of chunks that the job allows, with the fidelity of its own."""
    families = families_of(job_of())
    assert [variant_of(each) for each in families] == ["", "5 source chunks", "2 source chunks", ""]
    assert [each.fidelity for each in families] == ["exact", "stale(5)", "stale(2)", "exact"]
    assert [variant_of(each) for each in families_of(job_of().model_copy(update={"fidelity": "exact"}))] == ["", ""]


def test_what_a_job_pins_stays_in_its_variants():
    """A number of chunks leaves one variant; divisions that take turns ask for more fidelity, and leave fewer."""
    for fields, left in (({"num_chunks": 4}, ["4 source chunks"]), ({"num_shuffles": 2}, ["2 source chunks"])):
        pin = PinnedDecisions(decisions={"source_chunks": fields})
        families = families_of(job_of().model_copy(update={"pin": pin}))
        assert [variant_of(each) for each in families] == ["", *left, ""]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_a_pilot_comes_to_the_accuracy_of_the_run(tmp_path, kind):
    """Of two workers."""
    variant = families_of(job_of(kind))[2]
    curve = curve_of(variant, GRAPH, CPU, EPOCHS)
    assert (curve.family, curve.variant, curve.steps_per_epoch) == ("full_batch", "2 source chunks", 1)
    asked = variant.model_copy(update={"training": job_of(kind).training})
    asked = asked.model_copy(update={"pin": asked.pin.model_copy(update={"num_workers": 2})})
    api.plan(asked, cluster_of(tmp_path), tmp_path / "plan.json")
    with runs():
        trace = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=100)
    assert trace.accuracy["val"] == pytest.approx(curve.accuracies[-1], abs=1e-12)
    exact = curve_of(families_of(job_of(kind))[0], GRAPH, CPU, EPOCHS)
    assert exact.accuracies != curve.accuracies


@pytest.mark.long
def test_plans_of_variants_are_weighed_by_their_own_curves(tmp_path):
    """Epochs of the variant's curve, seconds of its plan."""
    families = [each for each in families_of(job_of()) if not each.mini_batch]
    pilots = Pilots(curves=tuple(curve_of(each, GRAPH, CPU, 30, 0.6) for each in families))
    plans = [api.plan(each, cluster_of(tmp_path), tmp_path / "plan.json") for each in families]
    reached = to_accuracy(pilots, plans, 0.6)
    assert [way.words for way in reached.ways] == [
        "full batch",
        "full batch, 5 source chunks",
        "full batch, 2 source chunks",
    ]
    for way, curve, plan in zip(reached.ways, pilots.curves, plans, strict=True):
        assert way.epochs == curve.epochs_to(0.6)
        assert way.epoch_s == plan.prediction.expected_epoch_s
    assert reached.best is not None
    assert reached.words().startswith(f"By {reached.best.words} the accuracy 60.0% takes")


def test_a_variant_that_diverges_says_so():
    """As full batch does."""
    wild = families_of(job_of(optimizer="sgd", learning_rate=1e6))[1]
    with pytest.raises(NotFiniteError, match="lower learning_rate"):
        curve_of(wild, GRAPH, CPU, 20)
