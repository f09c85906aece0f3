"""One verb pilots and plans both families, and takes the plan that comes to an accuracy first."""

import json

import pytest

from gnnplan.planner import api
from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cli import main
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.pilot import kept
from gnnplan.planner.pilot.batches import kinds_of
from gnnplan.planner.pilot.best import plan_to_accuracy
from gnnplan.planner.pilot.contract import Curve, Pilots, family_of, trained_fingerprint
from gnnplan.planner.pilot.variants import told_of, variant_of
from gnnplan.planner.plan import GraphFacts, Plan
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.search import mini_batch
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from tests.planner.search.measured import measured, split, worker

SPEC = SbmGraph(source="sbm", num_nodes=300, average_degree=6, num_features=8, num_classes=3)
JOB = Job(name="both", graph=SPEC, model=ModelSpec(hidden_channels=8), mini_batch=MiniBatchSpec(fan_outs=(4, 4)))
CLUSTER = Cluster(hosts=(HostSpec(name="h", devices=(DeviceSpec(catalog="t4", count=2),), price_per_hour=2.0),))
FULL, BATCHES = (0.2, 0.4, 0.6, 0.8), (0.7, 0.85)


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plans the job by curves and stages that are made up."""
    graph = load_graph(SPEC)

    def plan(
        batch_ms,
        *,
        job=JOB,
        is_here=True,
        accuracy=0.8,
        full=FULL,
        decoupled=FULL,
        batches=BATCHES,
        chunked=FULL,
        cluster=CLUSTER,
        kinds=(),
        **options,
    ):
        def run_pilots(jobs, before, **_):
            of_family = {"full_batch": full, "decoupled": decoupled, "mini_batch": batches}
            pairs = ((each, chunked if variant_of(each) else of_family[family_of(each)]) for each in jobs)
            return Pilots(
                curves=tuple(
                    Curve(
                        trained=trained_fingerprint(each, graph.fingerprint),
                        family=family_of(each),
                        variant=told_of(each),
                        steps_per_epoch=1,
                        accuracies=accuracies,
                    )
                    for each, accuracies in pairs
                )
            )

        stages = measured(worker(split(batch_ms, batch_ms, 1, batch_ms), memory_bytes=2**36))
        stages = stages.model_copy(update={"graph": GraphFacts.of(graph)})
        monkeypatch.setattr(kept, "run_pilots", run_pilots)
        monkeypatch.setattr(mini_batch, "measure_batches", lambda *_, **__: stages)
        path = tmp_path / "plan.json"
        return plan_to_accuracy(job, cluster, graph, path, accuracy, is_here=is_here, batches=kinds, **options)

    return plan


@pytest.mark.long
@pytest.mark.parametrize(("batch_ms", "family"), [(1e-4, "mini_batch"), (1000, "full_batch")])
def test_what_is_there_first_is_taken(planned, tmp_path, batch_ms, family):
    """Two epochs of many steps, or four of one, by how long they take; every plan lies there with its arrays."""
    done = planned(batch_ms)
    assert family_of(done.plan.job) == done.reached.best.family == family
    assert [curve.family for curve in done.curves] == ["full_batch", "mini_batch"]
    assert done.words().startswith("By ")
    best = Plan.load(tmp_path / "plan.json")
    assert best.fingerprint() == done.plan.fingerprint()
    assert done.plan.file == tmp_path / "plan.json"
    for each in ("full_batch", "mini_batch"):
        path = tmp_path / f"plan.{each}.json"
        plan = Plan.load(path)
        assert family_of(plan.job) == each
        assert load_partition(plan, path)
    assert load_partition(best, tmp_path / "plan.json")
    assert len(Pilots.load(tmp_path / "pilots.json").curves) == 2


@pytest.mark.long
def test_pins_and_objective_are_those_of_full_batch(planned):
    """What is pinned of the workers is kept there; mini-batches are by one, as their curve."""
    job = JOB.model_copy(update={"mini_batch": None, "pin": PinnedDecisions(num_workers=2)})
    done = planned(1000, job=job)
    assert done.plan.num_workers == 2
    assert done.plan.job.pin.num_workers == 2


def test_elsewhere_full_batch_is_planned_alone(planned, tmp_path):
    """And says why; money is weighed by its hosts' price."""
    job = JOB.model_copy(update={"mini_batch": None, "objective": ObjectiveSpec(minimize="money")})
    done = planned(1e-4, job=job, is_here=False)
    assert len(done.reached.ways) == 1
    assert "dollars" in done.words()
    assert done.words().endswith("Mini-batches are planned where they run: without a cluster.")
    assert not (tmp_path / "plan.mini_batch.json").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("decoupled", "family"), [((0.3, 0.8), "decoupled"), ((0.3,) * 2000, "full_batch")], ids=["soon", "never"]
)
def test_the_decoupled_model_has_a_curve_of_its_own(planned, tmp_path, decoupled, family):
    """Where it is allowed: by how many epochs it takes, not by how short they are."""
    job = JOB.model_copy(update={"mini_batch": None, "fidelity": "decoupled"})
    done = planned(1000, job=job, decoupled=decoupled)
    assert [way.family for way in done.reached.ways] == ["full_batch", "decoupled", "mini_batch"]
    assert family_of(done.plan.job) == done.reached.best.family == family
    assert Plan.load(tmp_path / "plan.full_batch.json").job.model == job.model
    assert Plan.load(tmp_path / "plan.decoupled.json").job.model == job.model.decoupled


@pytest.mark.long
@pytest.mark.parametrize(("chunked", "variant"), [((0.5, 0.8), "5 source chunks"), ((0.3,) * 2000, "")])
def test_a_decision_that_changes_epochs_has_a_curve_of_its_own(planned, tmp_path, chunked, variant):
    """Each number of chunks that the job allows is planned; what is first at the accuracy is taken."""
    job = JOB.model_copy(update={"mini_batch": None, "fidelity": "stale(5)"})
    done = planned(1000, job=job, chunked=chunked)
    assert [way.curve.variant for way in done.reached.ways][:-1] == ["", "5 source chunks", "2 source chunks"]
    assert done.reached.best.curve.variant == told_of(done.plan.job) == variant
    chosen = Plan.load(tmp_path / "plan.full_batch_5_source_chunks.json")
    assert chosen.fidelity == "stale(5)"
    assert Plan.load(tmp_path / "plan.full_batch.json").fidelity == "exact"
    assert (done.plan.choices == chosen.choices) == bool(variant)


@pytest.mark.long
def test_other_pins_stay_beside_a_piloted_one(planned, tmp_path):
    """Plain full batch has none of it."""
    pin = PinnedDecisions(decisions={"source_chunks": {"num_chunks": 2}}, num_workers=2, sparse_features=False)
    planned(1000, job=JOB.model_copy(update={"mini_batch": None, "fidelity": "stale(5)", "pin": pin}))
    plain, chunked = (Plan.load(tmp_path / f"plan.full_batch{of}.json").job for of in ("", "_2_source_chunks"))
    assert (plain.pin.decisions, chunked.pin.decisions) == ({}, {"source_chunks": {"num_chunks": 2}})
    assert plain.pin.num_workers == chunked.pin.num_workers == 2


def test_kinds_of_mini_batches_are_families(planned, tmp_path):
    """Each has a curve, a plan and a file; who is not asked for any has the job's."""
    kinds = kinds_of(JOB, [(2, 2), (4, 4)])
    done = planned(1e-4, kinds=kinds)
    words = [f"fan-outs {n} and {n}, batches of {JOB.mini_batch.batch_size}" for n in (2, 4)]
    assert [way.words for way in done.reached.ways[1:]] == [f"mini-batch, {each}" for each in words]
    files = sorted(path.name for path in tmp_path.glob("plan.mini_batch*.json"))
    size = JOB.mini_batch.batch_size
    assert files == [f"plan.mini_batch_fan_outs_{n}_and_{n}_batches_of_{size}.json" for n in (2, 4)]
    assert done.plan.job.mini_batch in kinds


def test_a_family_without_a_plan_leaves_the_others(planned, tmp_path):
    """Full batch needs more memory than there is; why stands beside what is chosen."""
    device = DeviceSpec(catalog="t4", memory_bytes=1000)
    tiny = Cluster(hosts=(HostSpec(name="h", devices=(device,)),))
    done = planned(1000, cluster=tiny)
    assert family_of(done.plan.job) == "mini_batch"
    assert [way.family for way in done.reached.ways] == ["mini_batch"]
    assert "Full batch has no plan here: no plan fits" in done.words()
    assert not (tmp_path / "plan.full_batch.json").exists()
    with pytest.raises(NoPlanFitsError, match=r"No family came to 80\.0%\. Full batch has no plan here"):
        planned(1000, cluster=tiny, is_here=False)


def test_limits_are_counted_to_the_epochs_of_the_curve(planned):
    """Not to those of the training, which are many more."""
    job = JOB.model_copy(update={"mini_batch": None})
    seconds = planned(1000, job=job, is_here=False).reached.best.seconds
    for share, is_kept in ((2.0, True), (0.5, False)):
        limited = job.model_copy(update={"objective": ObjectiveSpec(deadline_s=share * seconds)})
        if is_kept:
            assert planned(1000, job=limited, is_here=False).plan.prediction.objective.epochs == 4
        else:
            with pytest.raises(NoPlanFitsError, match="for 4 epochs"):
                planned(1000, job=limited, is_here=False)


def test_an_accuracy_that_no_curve_has_is_no_plan(planned, tmp_path):
    """With what the curves came to."""
    with pytest.raises(NoPlanFitsError, match=r"both: No family came to 99\.0%.*give the pilot more epochs"):
        planned(1, accuracy=0.99)
    assert not (tmp_path / "plan.json").exists()


def test_the_command_line_says_what_it_chose(planned, tmp_path, monkeypatch, capsys):
    """As table and as JSON; the plan is at the path that was asked for."""
    planned(1000)  # what is made up stays so
    cluster = CLUSTER.save(tmp_path / "cluster.json")
    command = ["plan", str(JOB.save(tmp_path / "job.json")), str(cluster), "-o", str(tmp_path / "plan.json")]
    assert main([*command, "--accuracy", "0.8"]) == 0
    shown = capsys.readouterr().out
    assert "By full batch the accuracy 80.0% takes 4 epochs" in shown
    assert "wrote" in shown
    assert main([*command, "--accuracy", "0.8", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["to_accuracy"]["best"] == "full_batch"
    assert facts["plan"] == str(tmp_path / "plan.json")
    assert main([*command, "--accuracy", "0.9"]) == 3
    assert "No family came to 90.0%" in capsys.readouterr().err
    assert main([*command[:3], str(cluster), *command[3:], "--accuracy", "0.8"]) == 2
    assert "one cluster at a time" in capsys.readouterr().err


def test_python_has_the_same(planned, tmp_path, monkeypatch):
    """Where no cluster is given it is this machine."""
    seen = []
    monkeypatch.setattr(api, "cluster_of", lambda given: seen.append(given) or CLUSTER)
    planned(1000)
    done = api.pilot(JOB, 0.8, path=tmp_path / "again.json")
    assert seen == [None]
    assert (len(done.reached.ways), done.plan.file) == (2, tmp_path / "again.json")


def test_what_has_no_pilot_is_refused(planned):
    """Before anything is measured."""
    job = JOB.model_copy(update={"mini_batch": None, "model": ModelSpec(kind="module", build="x.py:build")})
    with pytest.raises(UserError, match="so it has no pilot"):
        planned(1, job=job)
    training = TrainingSpec.model_validate({"weather": {"kind": "sleep"}})
    with pytest.raises(UserError, match=r"planned with training\.weather"):
        planned(1, job=JOB.model_copy(update={"training": training}))
