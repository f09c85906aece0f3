"""Where a job allows it, the decoupled form of its model is planned beside the model, and the better one is taken."""

import io
from functools import cache

import pytest
from rich.console import Console

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.tables import plan_table
from gnnplan.planner.search.make import plan_among
from gnnplan.planner.train import _plan_at, write_plan
from gnnplan.profiles.errors import NoPlanFitsError
from tests.planner.search.searched import GRAPHS, SBM, cluster_of, job_of, placement_of

DEEP = {
    kind: ModelSpec(kind=kind, num_layers=num_layers, hidden_channels=width, heads=2, dropout=0.3)
    for kind, num_layers, width in (("gcn", 6, 512), ("gat", 4, 32))
}
ONCE = ModelSpec(kind="gcn", num_layers=1)
NARROW = {"bytes_per_s": 1e9}


def shown(table):
    """As it is printed."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def planned(model, fidelity, **on):
    """Made once: the search has no state, and nobody changes a plan."""
    return _planned(model.model_dump_json(), fidelity, tuple(on.items()))


@cache
def _planned(model, fidelity, on):
    job = job_of(ModelSpec.model_validate_json(model), fidelity, num_workers=3)
    plan, _ = plan_among(job, placement_of("host", **{**NARROW, **dict(on)}), GRAPHS["sbm"])
    return plan


@pytest.mark.parametrize(("kind", "decoupled"), [("gcn", "appnp"), ("gat", "decoupled_gat")])
def test_the_form_has_as_many_propagations_as_layers(kind, decoupled):
    """Its Linears are as many and as wide as the layers, and what is dropped is the same."""
    form, num_layers = DEEP[kind].decoupled, DEEP[kind].num_layers
    assert form == DEEP[kind].model_copy(update={"kind": decoupled, "num_hops": num_layers})
    assert form.hops_of_layers == (0,) * (num_layers - 1) + (num_layers,)
    assert form.decoupled is None


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_it_is_taken_where_it_is_faster(kind):
    """It is the plan of the decoupled model itself; the coupled model's best plan is told among what lost."""
    plan, coupled = planned(DEEP[kind], "decoupled"), planned(DEEP[kind], "exact")
    alone = planned(DEEP[kind].decoupled, "exact")
    assert plan.job.model == alone.job.model
    assert (plan.choices, plan.prediction.epoch_s) == (alone.choices, alone.prediction.epoch_s)
    (lost,) = [each for each in plan.rejected if each.kind == "model"]
    assert lost.epoch_s == coupled.prediction.epoch_s > plan.prediction.epoch_s
    assert lost.summary.startswith(f"{DEEP[kind].words}; ")
    assert plan.fidelity == "exact"


def test_the_model_stays_where_it_is_as_fast():
    """One layer's aggregation is made once and for all; the decoupled one comes after what is trained."""
    plan = planned(ONCE, "decoupled")
    assert plan.job.model == ONCE
    (lost,) = [each for each in plan.rejected if each.kind == "model"]
    assert lost.epoch_s > plan.prediction.epoch_s
    assert "decoupled" not in shown(plan_table(plan))


@pytest.mark.long
def test_nobody_gets_another_model_unasked():
    """Whatever else is allowed of exactness."""
    for fidelity in ("exact", "stale", "approximate"):
        plan = planned(DEEP["gcn"], fidelity)
        assert plan.job.model == DEEP["gcn"]
        assert all(each.kind != "model" for each in plan.rejected)


def test_the_plan_says_that_it_is_another_model():
    """Where one reads what is trained."""
    plan = planned(DEEP["gcn"], "decoupled")
    words = "appnp, 6 layers, hidden 512; decoupled: another model than the one asked for"
    assert words in shown(plan_table(plan))
    assert words in repr(plan)


@pytest.mark.long
def test_it_counts_that_one_of_them_fits():
    """A form without a plan that fits is left out; where none has one, the first one's reason is told."""
    bytes_of = {
        fidelity: max(load.peak_bytes for load in planned(DEEP["gcn"], fidelity).prediction.workers)
        for fidelity in ("exact", "decoupled")
    }
    least = planned(DEEP["gcn"].decoupled, "exact", memory_bytes=bytes_of["decoupled"])
    plan = planned(DEEP["gcn"], "decoupled", memory_bytes=bytes_of["decoupled"])
    assert plan.job.model.kind == "appnp"
    assert plan.prediction.epoch_s == least.prediction.epoch_s
    with pytest.raises(NoPlanFitsError, match="no plan fits"):
        planned(ModelSpec(kind="gcn", hidden_channels=8), "decoupled", memory_bytes=2**14)


@pytest.mark.long
def test_a_plan_of_either_form_is_one_of_the_job(tmp_path):
    """A run that goes on takes it; the plan reads back as it was written."""
    job, path = job_of(DEEP["gcn"], "decoupled", num_workers=3), tmp_path / "plan.json"
    plan = write_plan(job, cluster_of("host", **NARROW), GRAPHS["sbm"], path)
    assert plan.job.model.kind == "appnp"
    assert _plan_at(path, job) == Plan.load(path) == plan
    assert _plan_at(path, job_of(DEEP["gcn"], num_workers=3)) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": ModelSpec(kind="sage")}, "decoupled form of a gcn or gat, and the model is a sage; write"),
        ({"mini_batch": MiniBatchSpec(fan_outs=(4, 4))}, "mini-batches have no decoupled form"),
        ({"pin": {"refresh_interval": 3}}, r'fidelity = "stale\(3\), decoupled"'),
        ({"fidelity": "decoupled, exact"}, "'decoupled, exact' is none: write exact"),
    ],
)
def test_what_has_no_such_form_is_refused(fields, words):
    """With what to write instead."""
    with pytest.raises(ValueError, match=words):
        Job(**{"graph": SBM, "fidelity": "decoupled", **fields})
