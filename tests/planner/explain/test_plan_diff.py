"""Two plans differ in steps whose seconds add up to the whole difference."""

import json

import pytest

from gnnplan.planner import api
from gnnplan.planner.cli import main
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import save_plan
from gnnplan.planner.search import named, simulate_plan
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.make import plan_of
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import CpuQuota
from tests.planner.search.searched import GRAPHS, job_of, placement_of

FAST = {"bytes_per_s": 1e9}
ALL = {"num_workers": 3, "dependencies": "communicate", "overlap": False}
SHARED = {"partitioner": "kaminpar", "balance": "speed"}  # the same shares for both
# name: cluster, its arguments, width, fidelity, pins
PLANS = {
    "plain": ("mixed", FAST, 32, "exact", {**ALL, **SHARED}),
    "overlapped": ("mixed", FAST, 32, "exact", {**ALL, **SHARED, "overlap": True}),
    "slow and overlapped": ("mixed", {"bytes_per_s": 1e8}, 32, "exact", {**ALL, "overlap": True}),
    "wider": ("mixed", FAST, 64, "exact", ALL),
    "equal shares": ("mixed", FAST, 32, "exact", {**ALL, "balance": "equal", "partitioner": "ranges"}),
    "two alike": ("network", FAST, 32, "exact", {**ALL, "num_workers": 2}),
    "made": ("mixed", FAST, 32, "exact", {**ALL, "dependencies": "cache"}),
    "kept": ("mixed", {"bytes_per_s": 1e7}, 32, "stale", {**ALL, "refresh_interval": 3}),
    "alone": ("one", FAST, 32, "exact", {}),
    "sparse": ("mixed", FAST, 32, "exact", {**ALL, **SHARED, "overlap": True, "sparse_features": True}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with all plans."""
    folder = tmp_path_factory.mktemp("plans")
    for name, (cluster, on, width, fidelity, pin) in PLANS.items():
        job = job_of(ModelSpec(hidden_channels=width), fidelity, **pin)
        plan, partition = plan_of(job, GRAPHS["sbm"], decide(job, placement_of(cluster, **on), GRAPHS["sbm"]))
        save_plan(named(plan, folder / f"{name}.json"), partition, folder / f"{name}.json")
    return folder


def diff(folder, one, other):
    """The steps from one of the plans to another."""
    return api.diff(folder / f"{one}.json", folder / f"{other}.json", graph=GRAPHS["sbm"])


def names(step):
    """What is changed in a step."""
    return [change.what for change in step.changes]


@pytest.mark.long
@pytest.mark.parametrize("one", PLANS)
def test_moves_add_up_to_the_difference(folder, one):
    """From every plan to itself and to two others; each end is what that plan predicts."""
    at = list(PLANS).index(one)
    for other in (list(PLANS) * 2)[at : at + 3]:
        found = diff(folder, one, other)
        before_s, after_s = (Plan.load(folder / f"{name}.json").prediction.epoch_s for name in (one, other))
        assert (found.before_s, found.after_s) == pytest.approx((before_s, after_s))
        assert sum(step.moved_s for step in found.steps) == pytest.approx(after_s - before_s, abs=1e-12)
        assert bool(found.steps) == (one != other)
        for step in found.steps:
            *others, last = step.changes
            assert not last.obstacle
            assert all(change.obstacle for change in others)


def test_features_become_sparse_in_a_step_of_its_own(folder):
    """Whether they may be is a pin of the second job, which the plans in between have not; or no longer."""
    for one, other in (("plain", "sparse"), ("sparse", "plain")):
        steps = [names(step) for step in diff(folder, one, other).steps]
        assert ["sparse features"] in steps


def test_plans_under_quotas_are_compared_by_the_mean_of_many_epochs(tmp_path):
    """As the search does: a single epoch may have no pause at all."""
    fast = placement_of("one")
    profiles = {
        name: profile.model_copy(update={"device_kind": "cpu", "cpu_quota": CpuQuota(share=0.5, period_s=0.1)})
        for name, profile in fast.profiles.items()
    }
    slow = fast.model_copy(update={"profiles": profiles})
    for order in ("aggregate_first", "multiply_first"):
        job, path = job_of(op_order=order, precompute=False), tmp_path / f"{order}.json"
        plan, partition = plan_of(job, GRAPHS["sbm"], decide(job, slow, GRAPHS["sbm"]))
        save_plan(named(plan, path), partition, path)
    found, last = diff(tmp_path, "aggregate_first", "multiply_first"), Plan.load(tmp_path / "multiply_first.json")
    assert found.after_s == pytest.approx(last.prediction.mean_epoch_s)
    assert found.after_s > 1.5 * last.prediction.epoch_s


@pytest.mark.long
def test_there_and_back_are_one_difference(folder):
    """One that is a single change, in both directions."""
    there, back = diff(folder, "plain", "overlapped"), diff(folder, "overlapped", "plain")
    assert [names(step) for step in there.steps] == [names(step) for step in back.steps] == [["overlap"]]
    assert there.steps[0].moved_s == -back.steps[0].moved_s < 0
    assert there.steps[0].changes[0].before == back.steps[0].changes[0].after == "left out"


@pytest.mark.long
def test_a_plan_in_between_is_the_one_it_says(folder):
    """The first plan's program on the second plan's machines."""
    found = diff(folder, "plain", "slow and overlapped")
    assert names(found.steps[0]) != ["overlap"]
    plain, slow = (Plan.load(folder / f"{name}.json") for name in ("plain", "slow and overlapped"))
    at = next(number for number, step in enumerate(found.steps) if names(step) == ["cluster"])
    if at == 0:
        moved = plain.model_copy(update={"placement": slow.placement})
        assert found.steps[0].epoch_s == simulate_plan(moved).median_epoch_s
    assert found.steps[at].moved_s > 0


def test_a_wider_model_is_one_step(folder):
    """What it decides beside is another one."""
    found = diff(folder, "plain", "wider")
    (model,) = [step for step in found.steps if names(step) == ["model"]]
    assert model.changes[0].before == "hidden_channels 32"
    assert model.changes[0].after == "hidden_channels 64"
    assert model.moved_s > 0


def test_workers_move_with_their_shares(folder):
    """Shares of other workers suit nobody else, and it is said."""
    found = diff(folder, "plain", "two alike")
    (joined,) = [step for step in found.steps if len(step.changes) > 1]
    assert names(joined)[:2] == ["workers", "shares"]
    assert joined.changes[0].obstacle == "halo_exchange was cut for another number of workers"


@pytest.mark.long
def test_rows_that_are_cut_for_other_shares_wait_for_them(folder):
    """What only one plan has leaves first or comes last, on the shares that it was cut for."""
    found = diff(folder, "made", "equal shares")
    assert names(found.steps[0]) == ["replicas"]
    assert found.steps[0].changes[0].after == "left out"
    back = diff(folder, "equal shares", "made")
    assert names(back.steps[-1])[-1] == "replicas"


@pytest.mark.long
def test_the_command_prints_the_steps(folder, capsys, monkeypatch):
    """As a table of 80 columns, or as one JSON object; the graph is loaded where plans in between need it."""
    monkeypatch.setenv("COLUMNS", "80")
    argv = ["diff", str(folder / "plain.json"), str(folder / "two alike.json")]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "no plan with workers alone" in shown
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == diff(folder, "plain", "two alike").model_dump(mode="json")


def test_faults_are_one_line(folder, capsys, tmp_path):
    """A plan without its partition, or none at all."""
    (tmp_path / "plan.json").write_text((folder / "plain.json").read_text())
    assert main(["diff", str(tmp_path / "plan.json"), str(folder / "alone.json")]) == 2
    assert "partition is missing" in capsys.readouterr().err
    with pytest.raises(UserError, match="no such file"):
        api.diff(tmp_path / "none.json", folder / "alone.json")
