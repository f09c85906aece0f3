"""The interval that a plan holds."""

import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.interval.predict import interval_of
from gnnplan.planner.interval.work import work_of
from gnnplan.planner.job import Job
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.sound_plan import load_plan
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Correction

GRAPH = SbmGraph(source="sbm", num_nodes=300, average_degree=6, num_classes=3, num_features=8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plan on a device of the catalog."""
    cluster = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=2),)),))
    job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=8))
    return api.plan(job, cluster, tmp_path_factory.mktemp("plan") / "plan.json")


def found(plan, change):
    """The interval with every profile changed: one that was measured, and what `change` has beside."""
    profiles = {}
    for name, profile in plan.placement.profiles.items():
        operators = {
            operator: table.model_copy(
                update={"points": tuple(p.model_copy(update={"provenance": "measured"}) for p in table.points)}
            )
            for operator, table in profile.operators.items()
        }
        profiles[name] = profile.model_copy(update={"operators": operators, **change})
    placement = plan.placement.model_copy(update={"profiles": profiles})
    return interval_of([lower_plan(plan)], placement, 1.0, work_of(plan.graph.fingerprint, plan.job.model))


def test_published_figures_are_guesses(made):
    """Of a catalog's device everything is guessed, and the interval says so."""
    interval = made.prediction.interval
    assert interval.guessed_share == 1
    assert interval.middle_s == made.prediction.expected_epoch_s
    assert interval.high_s > 2 * interval.middle_s
    assert found(made, {}).high_s < interval.high_s / interval.middle_s


def test_calibration_counts_by_its_work(made):
    """Runs of this graph and model, or of others."""
    correction = Correction(operator="add", factor=1.0, num_samples=1, error_before=0.1, error_after=0.1)
    work = work_of(made.graph.fingerprint, made.job.model)
    assert found(made, {}).residuals == "profiled"
    assert found(made, {"corrections": (correction,), "calibrated_on": (work,)}).residuals == "calibrated"
    assert found(made, {"corrections": (correction,), "calibrated_on": ("f",)}).residuals == "calibrated elsewhere"


def test_an_edited_interval_is_refused(made, tmp_path):
    """It follows from the rest of the plan."""
    assert load_plan(made.file) == made
    interval = made.prediction.interval.model_copy(update={"high_s": made.prediction.interval.high_s * 2})
    edited = made.model_copy(update={"prediction": made.prediction.model_copy(update={"interval": interval})})
    edited.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").prediction.interval == interval
    with pytest.raises(UserError, match=r"interval\.high_s"):
        load_plan(tmp_path / "plan.json")
