"""Plans with partial reduce: said to be stale, with room for what it keeps, and chosen for the weather."""

import json
import math

import numpy as np
import pytest
from pydantic import ValidationError

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.planner.forecast.simulate import simulate_weather
from gnnplan.planner.forecast.sleeps import planned_sleeps_s
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.run import write_shards
from gnnplan.planner.search import make_plan, simulate_plan
from gnnplan.planner.techniques.partial_reduce.decide import ALPHAS, STALENESSES, choose_partial_reduce
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.planner.weather.partial_epochs import PartialEpochs, Waiting
from gnnplan.planner.weather.play import figures, replicas_of
from gnnplan.planner.weather.sections import Sections
from gnnplan.planner.weather.sleeps import sleeps_s
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from gnnplan.profiles.machine import CpuQuota

SPEC = SbmGraph(source="sbm", num_nodes=400, average_degree=8, num_classes=4, num_features=24)
GRAPH = generate_sbm(SPEC)
SLEEPS = SleepWeather(sleep_epochs=2.0)


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    """A published GPU's figures with the device kind of a CPU: what partial reduce keeps is in its memory."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("t4").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    return path


def plan_of(*, pin=None, weather=None, num_workers=3, memory_bytes=None, profile=None, epochs=60, **pins):
    origin = {"profile": profile} if profile else {"catalog": "t4"}
    device = DeviceSpec(count=num_workers, memory_bytes=memory_bytes, **origin)
    job = Job(
        graph=SPEC,
        model=ModelSpec(hidden_channels=16),
        training=TrainingSpec(epochs=epochs, weather=weather),
        fidelity="stale" if pin or "refresh_interval" in pins else "exact",
        pin=PinnedDecisions(
            partitioner="metis",
            balance="equal",
            num_workers=num_workers,
            dependencies="communicate",
            partial_reduce=pin,
            **pins,
        ),
    )
    return make_plan(job, Cluster(hosts=(HostSpec(name="a", devices=(device,)),)), GRAPH)[0]


def names(plan):
    """Of its techniques."""
    return [chosen.technique for chosen in plan.choices]


def chosen_in(raw):
    """What the document of a plan says of partial reduce."""
    return next(each["decision"] for each in raw["choices"] if each["technique"] == "partial_reduce")


def num_parameters(plan):
    """Numbers that are trained."""
    return sum(math.prod(shape) for shape in plan.cycle.parameters.values())


def test_such_a_plan_is_stale_unless_k_is_0(tmp_path):
    """Rows up to K epochs old: stale(K + 1); without weather the paper's alpha and K; it can be saved and read."""
    plan = plan_of(pin=PartialReducePin())
    partial = plan.partial
    assert (partial.alpha, partial.max_staleness, partial.min_group) == (0.5, 3, 2)
    assert plan.fidelity == "stale(4)"
    assert plan.is_stale
    assert plan_of(pin=PartialReducePin(max_staleness=0)).fidelity == "exact"
    assert plan_of().partial is None
    loaded = Plan.load(plan.save(tmp_path / "plan.json"))
    assert loaded == plan
    assert simulate_plan(loaded).median_epoch_s == plan.prediction.epoch_s


def test_a_plan_that_is_older_than_its_job_allows_is_refused():
    """By the name of the decision that makes it so."""
    raw = json.loads(plan_of(pin=PartialReducePin(max_staleness=0)).model_dump_json())
    raw["job"]["fidelity"], chosen_in(raw)["max_staleness"] = "exact", 3
    with pytest.raises(UserError, match=r"partial_reduce is stale\(4\), where at most exact is allowed"):
        Plan.parse(raw, where="plan.json")
    with pytest.raises(ValidationError, match="less than or equal to 1000000"):
        PartialReducePin(max_staleness=10**20)


def test_contributing_vertices_are_in_the_plan():
    """The last layer's are the training vertices."""
    plan = plan_of(pin=PartialReducePin())
    counts = plan.partial.contributing
    cycle = plan.cycle.cycle()
    (loss,) = (op for op in cycle.programs["train"] if op.kind == "loss")
    assert counts[-1] == cycle.spaces[cycle.indexes[loss.attributes["index"]].target].sizes
    assert sum(counts[0]) > sum(counts[-1])


def test_one_worker_has_nobody_to_go_on_without():
    """The plan is exact."""
    assert plan_of(pin=PartialReducePin(), num_workers=1).partial is None


def test_kept_features_go_beside_it():
    """Who is waited for has no say in what is sent once: the features that are kept are."""
    pins = {"op_order": "aggregate_first", "precompute": False}
    assert "feature_cache" in names(plan_of(pin=PartialReducePin(), **pins))


def test_overlap_goes_beside_it():
    """Late rows travel while workers compute."""
    plan = plan_of(pin=PartialReducePin(), overlap=True)
    assert "overlap" in names(plan)
    late = [op for op in plan.cycle.cycle().programs["train"] if op.attributes.get("late")]
    assert late
    assert all(op.lane == "network" for op in late)


def test_what_it_keeps_is_counted(processor):
    """Two versions of all rows that are sent and received, and the sums of as many rounds as may be missed."""
    pins = {"op_order": "multiply_first", "precompute": False, "overlap": False, "techniques": {"direct_sum": False}}
    plain, partial = (plan_of(profile=processor, pin=pin, **pins) for pin in (None, PartialReducePin()))
    cycle = partial.cycle.cycle()
    exchanges = [op for op in cycle.programs["train"] if op.kind == "exchange"]
    assert len(exchanges) == 4  # of two layers, there and back
    for rank, (ours, theirs) in enumerate(zip(partial.prediction.workers, plain.prediction.workers, strict=True)):
        values = [cycle.values[name] for op in exchanges for name in (*op.reads, *op.writes)]
        rows = sum(4 * cycle.spaces[value.space].sizes[rank] * value.width for value in values)
        assert ours.peak_bytes - theirs.peak_bytes == 2 * rows + 2 * 3 * 4 * (num_parameters(partial) + 1)
    on_gpu = [plan_of(pin=pin, **pins).prediction.workers for pin in (None, PartialReducePin())]
    assert on_gpu[0] == on_gpu[1]  # they lie in the host's memory


@pytest.mark.long
def test_what_it_keeps_must_fit(processor):
    """Where the plain plan fits and mailboxes do not, the missing bytes are named."""
    pins = {"op_order": "multiply_first", "precompute": False, "feature_cache": False, "overlap": False}
    plain = plan_of(profile=processor, **pins)
    tight = max(load.peak_bytes for load in plain.prediction.workers) + 1000
    assert plan_of(profile=processor, memory_bytes=tight, **pins).choices == plain.choices
    with pytest.raises(NoPlanFitsError, match=r"no plan fits: the nearest needs .* are missing"):
        plan_of(profile=processor, pin=PartialReducePin(), memory_bytes=tight, **pins)


def test_pruned_halos_go_beside_it(tmp_path):
    """Its plan's arrays are cut again as planned."""
    pins = {"prune": "rapa", "op_order": "multiply_first", "precompute": False, "num_workers": 3, "balance": "equal"}
    pin = PinnedDecisions(partial_reduce=PartialReducePin(), partitioner="metis", dependencies="communicate", **pins)
    job = Job(graph=SPEC, training=TrainingSpec(epochs=9), fidelity="approximate", pin=pin)
    devices = (DeviceSpec(catalog="t4", count=3),)
    plan, partition = make_plan(job, Cluster(hosts=(HostSpec(name="a", devices=devices),)), GRAPH)
    assert plan.partial.max_staleness == 3
    assert any(op.attributes.get("late") for op in plan.cycle.cycle().programs["train"])
    write_shards(plan, GRAPH, partition, tmp_path)
    assert len(list(tmp_path.glob("worker_*.npz"))) == 3


def test_the_least_group_is_a_majority_or_what_is_pinned():
    """More workers than there are can be in no group."""
    with pytest.raises(UserError, match=r"min_group is 4, and there are 3 workers"):
        plan_of(pin=PartialReducePin(min_group=4))
    least = [plan_of(pin=PartialReducePin(min_group=pinned)).partial.min_group for pinned in (None, 1, 3)]
    assert least == [2, 1, 3]


def test_the_mean_of_the_weights_is_pinned_and_counted():
    """On every worker's device as many bytes as the weights; not beside exact training."""
    plain, averaged = (plan_of(pin=PartialReducePin(average_epochs=count)) for count in (0, 20))
    assert averaged.partial.average_epochs == 20
    weights = 4 * num_parameters(averaged)
    for before, after in zip(plain.prediction.workers, averaged.prediction.workers, strict=True):
        assert after.peak_bytes - before.peak_bytes == weights
    with pytest.raises(ValidationError, match="leave it out where max_staleness is 0"):
        PartialReducePin(max_staleness=0, average_epochs=1)
    raw = json.loads(averaged.model_dump_json())
    chosen_in(raw)["max_staleness"] = 0
    with pytest.raises(UserError, match="is not exact"):
        Plan.parse(raw, where="plan.json")


@pytest.mark.long
def test_a_plan_predicts_its_weather():
    """Also from the file alone; sleeps cost less where workers go on without the sleeper."""
    plain, partial = (plan_of(pin=pin, weather=SLEEPS) for pin in (None, PartialReducePin(alpha=0.1, max_staleness=3)))
    assert plan_of().prediction.weather is None
    for plan in (plain, partial):
        assert simulate_weather(plan, SLEEPS) == plan.prediction.weather
        assert plan.prediction.weather.mean_epoch_s > plan.prediction.epoch_s
    assert partial.prediction.weather.delay_s < 0.5 * plain.prediction.weather.delay_s
    assert partial.prediction.weather.mean_members < plain.prediction.weather.mean_members == 3
    expected = sleeps_s(SLEEPS, 2, 60, plain.prediction.epoch_s)
    assert np.array_equal(planned_sleeps_s(plain, 2), expected)
    assert not planned_sleeps_s(plan_of(), 2).any()


def test_a_weather_file_is_played_once(tmp_path):
    """Half the processor for the whole run makes compute twice as long, but of one that nothing limits; a host that is
    not there is named.
    """
    quota = {"cpu_quota": CpuQuota(share=0.999, period_s=1e-5)}
    limited = catalog_profile("t4").model_copy(update=quota).save(tmp_path / "limited.json")
    plan = plan_of(profile=limited)
    slow = Weather(spells=(Spell(host="a", from_s=0, to_s=1e9, cpu=0.5),))
    found = simulate_weather(plan, slow)
    compute_s = plan.prediction.compute_s + plan.prediction.host_s
    assert plan.prediction.epoch_s + 0.8 * compute_s < found.mean_epoch_s <= 2 * plan.prediction.epoch_s + 1e-9
    free = plan_of()
    assert simulate_weather(free, slow).mean_epoch_s == pytest.approx(free.prediction.epoch_s)
    with pytest.raises(UserError, match="'b'"):
        simulate_weather(plan, Weather(spells=(Spell(host="b", from_s=0, to_s=1),)))


def job_with(pin, weather=SLEEPS):
    pin = PinnedDecisions(partial_reduce=pin)
    return Job(graph=SPEC, training=TrainingSpec(epochs=60, weather=weather), fidelity="stale", pin=pin)


def test_what_is_left_out_is_chosen_for_the_weather():
    """No pair tried has a 95th percentile lower by more than 2%; of those as good the smallest K, the largest alpha."""
    sections = Sections(np.tile([1.0, 1.0, 0.0], (4, 1)), np.zeros(2), backward=1)
    counts = np.ones((2, 4), np.int64)
    chosen = choose_partial_reduce(job_with(PartialReducePin()), sections, 2.0, counts)
    replicas = replicas_of(SLEEPS, 4, 60, 2.0)
    drawn = [replicas(1 + replica) for replica in range(40)]  # 0 is what the run itself meets
    p95_s = {
        (k, alpha): figures(PartialEpochs(sections, Waiting(alpha, k, 3), 1), drawn.__getitem__, 40).p95_run_epoch_s
        for k in STALENESSES
        for alpha in ALPHAS
    }
    least_s = min(p95_s.values())
    good = [(k, -alpha) for (k, alpha), seconds in p95_s.items() if seconds <= 1.02 * least_s]
    assert (chosen.max_staleness, -chosen.alpha) == min(good)
    assert chosen.max_staleness > 1
    pinned = choose_partial_reduce(job_with(PartialReducePin(max_staleness=1)), sections, 2.0, counts)
    assert pinned.max_staleness == 1
    assert p95_s[1, pinned.alpha] <= 1.02 * min(p95_s[1, alpha] for alpha in ALPHAS)
