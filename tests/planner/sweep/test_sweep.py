"""A sweep: its machines, its points, and what it says of them."""

import json

import pytest

from gnnplan.planner import cli
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.price import Pricer, fastest
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.planner.sweep.contract import ModelAxes, Sweep
from gnnplan.planner.sweep.machines import machines_of
from gnnplan.planner.sweep.points import model_settings, sweep_points
from gnnplan.planner.sweep.result import least_of
from gnnplan.planner.sweep.run import run_sweep
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError

STATISTICS = Statistics(num_nodes=2_000_000, num_edges=60_000_000, num_features=100, num_classes=47)
JOB = Job(graph=SbmGraph(source="sbm"), model=ModelSpec(num_layers=2, hidden_channels=64), training={"epochs": 50})


def sweep_of(**given) -> Sweep:
    machines = {"devices": ("t4", "a100-40gb"), "per_host": (1, 4), "hosts": (1, 2, 8), "host_price_per_hour": 0.2}
    device = {"t4": {"price_per_hour": 0.35, "watts": 70}, "a100-40gb": {"price_per_hour": 1.3, "watts": 400}}
    return Sweep.model_validate({"machines": (machines,), "device": device, **given})


@pytest.fixture(scope="module")
def points():
    found = sweep_points(JOB, sweep_of(model={"hidden_channels": (64, 256)}), STATISTICS)
    return [each.point for each in found]


def test_every_combination_is_a_point(points):
    """Devices by counts by hosts by widths, each once."""
    assert len(points) == 2 * 2 * 3 * 2
    assert len({(point.machine, point.model) for point in points}) == len(points)


def test_money_is_seconds_by_price(points):
    """Dollars are the job's seconds by the price of all devices and hosts; energy is seconds by watts."""
    price = {"t4": 0.35, "a100-40gb": 1.3}
    for point in points:
        per_hour = point.num_workers * price[point.device] + point.num_hosts * 0.2
        assert point.job_s == pytest.approx(50 * point.epoch_s)
        assert point.dollars == pytest.approx(per_hour * point.job_s / 3600)
        assert point.kilowatt_hours == pytest.approx(point.watts * point.job_s / 3.6e6)


def test_the_front_is_what_nothing_beats(points):
    """A point is on the front where no other that fits is faster and no dearer, or cheaper and no slower."""
    for model in {point.model for point in points}:
        fitting = [point for point in points if point.model == model and point.fits]
        for point in fitting:
            is_beaten = any(
                other.epoch_s <= point.epoch_s
                and other.dollars <= point.dollars
                and (other.epoch_s, other.dollars) != (point.epoch_s, point.dollars)
                for other in fitting
            )
            assert point.is_on_front != is_beaten


def test_the_smallest_machine_fits_and_no_smaller_one_does(points):
    """Of every model, by number of devices; memory that is left says who fits."""
    assert any(not point.fits for point in points) or min(p.num_workers for p in points) == 1
    for least in least_of(points):
        of_model = {point.machine: point for point in points if point.model == least.model}
        smallest = of_model[least.smallest]
        assert smallest.fits
        assert smallest.headroom >= 0
        assert not any(p.fits for p in of_model.values() if p.num_workers < smallest.num_workers)
        assert of_model[least.cheapest].dollars == min(p.dollars for p in of_model.values() if p.fits)


def test_a_described_device_is_priced_as_the_catalogs_own():
    """A device by its published figures has the tables that the catalog gives to one with these figures."""
    a10 = {
        "memory_bytes": 24_000_000_000,
        "flops_per_s": 31.2e12,
        "memory_bytes_per_s": 600e9,
        "link_bytes_per_s": 31.5e9,
    }
    sweep = Sweep.model_validate({"device": {"mine": a10}, "machines": ({"devices": ("mine",)},)})
    (asked,) = machines_of(sweep)
    assert asked.machine.placement.profile_of(0).operators == catalog_profile("a10").operators


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"device": {"mine": {"flops_per_s": 1e12}}}, "missing"),
        ({"device": {"mine": {"price_per_hour": 1.0}}}, "not in the catalog"),
        ({"machines": ({"devices": ("nothing",)},)}, "not in the catalog"),
        ({"machines": ({"devices": ("t4",), "hosts": (4096,), "per_host": (8,)},)}, "at most"),
        ({"machines": ()}, "no machine"),
    ],
)
def test_faults_are_named(given, words):
    """What is wrong is said in words."""
    with pytest.raises(ValueError, match=words):
        sweep_of(**given)


def test_too_many_points_are_refused():
    """Before any is priced."""
    many = {
        "devices": ("t4",),
        "hosts": tuple(range(1, 1000)),
        "per_host": (1, 2, 3, 4),
        "memory_bytes": tuple(range(1, 101)),
    }
    with pytest.raises(UserError, match="points"):
        sweep_points(JOB, sweep_of(machines=(many,)), STATISTICS)


def test_the_command_writes_a_table_and_a_picture(tmp_path, capsys):
    """From statistics in a file to sweep.json and sweep.png; --check without a graph is refused."""
    STATISTICS.save(tmp_path / "statistics.json")
    (tmp_path / "job.toml").write_text('graph = "statistics.json"\nmodel = "gcn"\nepochs = 10\n')
    (tmp_path / "sweep.toml").write_text(
        'schema_version = 1\n[[machines]]\ndevices = ["a100-80gb"]\nper_host = [1, 2]\n'
    )
    arguments = ["whatif", str(tmp_path / "job.toml"), str(tmp_path / "sweep.toml"), "-o", str(tmp_path / "out")]
    assert cli.main([*arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [point["num_workers"] for point in shown["points"]] == [1, 2]
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main([*arguments, "--check", "1"]) == 2


@pytest.mark.long
def test_a_check_says_how_far_statistics_are_off(tmp_path, capsys):
    """The search on the graph itself comes near what its statistics said."""
    (tmp_path / "job.toml").write_text(
        'schema_version = 1\n[graph]\nsource = "sbm"\nnum_nodes = 2000\n[model]\nkind = "gcn"\nnum_layers = 2\n'
    )
    (tmp_path / "sweep.toml").write_text('schema_version = 1\n[[machines]]\ndevices = ["t4"]\nper_host = [2]\n')
    arguments = ["whatif", str(tmp_path / "job.toml"), str(tmp_path / "sweep.toml"), "-o", str(tmp_path / "out")]
    assert cli.main([*arguments, "--check", "1", "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["epoch_s"] == pytest.approx(point["checked_epoch_s"], rel=0.3)


def test_the_verbs_of_python_take_a_graph_in_memory():
    """Statistics of a graph that is in memory, and a sweep on them, without a file."""
    import gnnplan

    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=600, num_features=8))
    measured = gnnplan.statistics({"model": "gcn"}, graph=graph, parts=(2,))
    assert [cut.num_parts for cut in measured.cuts] == [2]
    result = gnnplan.whatif({"model": "gcn"}, sweep_of(), graph=graph)
    assert len(result.points) == 12
    assert "2, 4, 8, 16 parts" in result.halos


def test_a_margin_stays_free():
    """A machine that is fuller than the job's margin allows does not fit; what is missing says by how much."""
    (point,) = _points(JOB, {"devices": ("t4",)})
    assert point.fits
    margin = point.headroom + 0.01
    job = JOB.model_copy(update={"objective": ObjectiveSpec(memory_margin=margin)})
    (full,) = _points(job, {"devices": ("t4",)})
    assert not full.fits
    assert full.binds == "memory"
    assert full.missing_bytes == pytest.approx((margin - full.headroom) * full.memory_bytes, abs=2)


def _points(job, *machines):
    return [each.point for each in sweep_points(job, Sweep.model_validate({"machines": machines}), STATISTICS)]


def test_a_device_without_a_price_makes_a_machine_without_one():
    """However dear its host is."""
    (point,) = _points(JOB, {"devices": ("v100",), "host_price_per_hour": 0.5})
    assert point.dollars is None


def test_heads_are_a_setting_of_both_attentions():
    """And of no other kind."""
    axes = ModelAxes(kind=("gcn", "gat", "decoupled_gat"), heads=(1, 8))
    words = [words for words, _ in model_settings(JOB, axes)]
    assert len(words) == 1 + 2 + 2
    assert "decoupled_gat 2 x 64, 8 heads" in words


def test_what_an_uneven_cluster_lacks_is_of_the_device_that_lacks_it(tmp_path):
    """And not of the smallest device; for cores the host counts that has fewest for each of its workers."""
    small, large = 200_000_000, 400_000_000
    hosts = (
        HostSpec(name="a", devices=(DeviceSpec(catalog="h100-sxm", memory_bytes=large),), cpu_cores=64.0),
        HostSpec(name="b", devices=(DeviceSpec(catalog="t4", memory_bytes=small, count=2),), cpu_cores=4.0),
    )
    path = Cluster(hosts=hosts).save(tmp_path / "uneven.json")
    (swept,) = sweep_points(JOB, Sweep(clusters=(path,)), STATISTICS)
    assert swept.asked.cores_per_worker == 2
    best = fastest(Pricer(STATISTICS, Structures()).candidates(JOB, swept.asked.machine))
    pairs = zip(best.memory, best.machine.placement.workers, strict=True)
    lacking = {worker.memory_bytes: each.peak_bytes - worker.memory_bytes for each, worker in pairs}
    assert swept.point.missing_bytes == max(lacking.values()) == lacking[large]


def test_two_cluster_files_of_one_name_are_refused(tmp_path):
    """Their points could not be told apart."""
    cluster = Cluster(hosts=(HostSpec(name="a", devices=(DeviceSpec(catalog="t4"),)),))
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(cluster.save(tmp_path / name / "c.json"))
    with pytest.raises(UserError, match="two of its machines are called c"):
        sweep_points(JOB, Sweep(clusters=tuple(paths)), STATISTICS)


def test_machines_that_differ_in_one_figure_are_both_asked():
    """Sections of one name are told apart by what differs; the same section twice is one machine."""
    plain = {"devices": ("t4",), "per_host": (2,), "hosts": (2,), "host_price_per_hour": 0.2}
    sections = (plain, {**plain, "network_latency_s": 5e-6}, {**plain, "host_price_per_hour": 0.1}, plain)
    names = [asked.name for asked in machines_of(sweep_of(machines=sections))]
    assert len(names) == len(set(names)) == 3
    assert all(name.startswith(names[0]) for name in names)
    assert "latency 5 us" in names[1]
    assert "an hour" in names[2]
    alone = [{**each, "hosts": (1,), "per_host": (1,)} for each in (plain, {**plain, "network_latency_s": 5e-6})]
    assert len([*machines_of(sweep_of(machines=alone))]) == 1


def test_direct_sums_can_be_pinned():
    """Everyone sends to everyone, whoever they are."""
    pinned = Job.model_validate({**JOB.model_dump(), "pin": {"techniques": {"direct_sum": True}}})
    points = [each.point for each in sweep_points(pinned, sweep_of(), STATISTICS)]
    assert all("direct_sum" in point.techniques for point in points if point.num_workers > 1)


def test_rows_cannot_be_pinned():
    """Statistics have none, and the price would be that of another plan."""
    pinned = Job.model_validate({**JOB.model_dump(), "fidelity": "exact", "pin": {"techniques": {"replicas": True}}})
    with pytest.raises(UserError, match="statistics have no rows to choose of"):
        run_sweep(pinned, sweep_of())


def test_dense_features_may_be_held_sparse():
    """As a plan on the graph would hold them."""
    pinned = Job.model_validate({**JOB.model_dump(), "pin": {"sparse_features": True}})
    assert sweep_points(pinned, sweep_of(), STATISTICS)


@pytest.mark.long
def test_a_check_looks_for_the_shortest_epoch_whatever_the_objective(tmp_path, capsys):
    """A sweep has prices of its own."""
    (tmp_path / "job.toml").write_text(
        'schema_version = 1\n[graph]\nsource = "sbm"\nnum_nodes = 2000\n[model]\nkind = "gcn"\n'
        '[objective]\nminimize = "money"\nbudget = 1e-9\n'
    )
    (tmp_path / "sweep.toml").write_text('schema_version = 1\n[[machines]]\ndevices = ["t4"]\n')
    arguments = ["whatif", str(tmp_path / "job.toml"), str(tmp_path / "sweep.toml"), "-o", str(tmp_path / "out")]
    assert cli.main([*arguments, "--check", "1", "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["checked_epoch_s"] > 0


@pytest.mark.long
def test_mini_batches_ask_for_cores():
    """Cores are an axis of mini-batches alone; where they are not known the machine is named."""
    batched = Job.model_validate({**JOB.model_dump(), "mini_batch": {"fan_outs": (10, 5)}})
    machines = {"devices": ("t4",), "per_host": (1, 2), "cores_per_host": (4, 8)}
    points = [each.point for each in sweep_points(batched, sweep_of(machines=(machines,)), STATISTICS)]
    assert len(points) == 4
    assert all(point.techniques[0] == "mini_batch" for point in points)
    assert len(sweep_points(JOB, sweep_of(machines=(machines,)), STATISTICS)) == 2
    with pytest.raises(UserError, match="give the machines cores_per_host"):
        sweep_points(batched, sweep_of(), STATISTICS)


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere", ""])
def test_a_name_is_no_path(name):
    """It names the folder that is written to."""
    with pytest.raises(UserError):
        Sweep.parse({"name": name, "clusters": ["cluster.toml"]}, where="sweep.toml")


def test_machines_of_no_price_at_all_are_free():
    """That is another thing than a price that nobody knows."""
    machines = {"devices": ("t4", "a100-40gb")}
    free = Sweep.model_validate({"machines": (machines,), "device": {"t4": {"price_per_hour": 0}}})
    points = {each.point.device: each.point for each in sweep_points(JOB, free, STATISTICS)}
    assert points["t4"].dollars == 0
    assert points["a100-40gb"].dollars is None
    (least,) = least_of(points.values())
    assert least.cheapest == points["t4"].machine


def test_equal_points_are_both_on_the_front():
    """Neither beats the other."""
    machines = {"devices": ("t4",), "memory_bytes": (14_000_000_000, 15_000_000_000)}
    sweep = Sweep.model_validate({"machines": (machines,), "device": {"t4": {"price_per_hour": 0.35}}})
    assert [each.point.is_on_front for each in sweep_points(JOB, sweep, STATISTICS)] == [True, True]


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        ({"decisions": {"direct_sum": {"most_byte": 1}}}, "pin.decisions.direct_sum: most_byte"),
        ({"decisions": {"halo_exchange": {"partitioner": "ranges"}}}, "partitioner cannot be pinned here"),
        ({"techniques": {"sparse_features": True}}, "no plan keeps pin.techniques"),
    ],
)
def test_pins_are_checked_as_for_a_plan(pin, words, tmp_path):
    """In one line, before anything is priced without them."""
    STATISTICS.model_copy(update={"feature_density": 1.0}).save(tmp_path / "graph.json")
    graph = {"source": "statistics", "path": tmp_path / "graph.json"}
    job = Job.model_validate({**JOB.model_dump(), "graph": graph, "pin": pin})
    with pytest.raises(UserError, match=words):
        run_sweep(job, sweep_of())
