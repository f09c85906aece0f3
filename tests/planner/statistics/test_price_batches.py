"""Mini-batches priced from statistics."""

from dataclasses import replace

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.machine import machine_of
from gnnplan.planner.statistics.price import Pricer
from gnnplan.planner.statistics.price_batches import HostRates, price_batches
from gnnplan.planner.statistics.stand_in import Structures
from tests.planner.link_model import MBIT, LinkModel

GRAPH = Statistics(num_nodes=500_000, num_edges=10_000_000, num_features=100, num_classes=40, train_fraction=0.5)
BATCHES = MiniBatchSpec(fan_outs=(15, 10), batch_size=1024)
JOB = Job(graph=SbmGraph(source="sbm"), model=ModelSpec(num_layers=2, hidden_channels=64), mini_batch=BATCHES)


def machine(count: int = 1, catalog: str = "a100-40gb"):
    return machine_of(
        resolve(Cluster(hosts=(HostSpec(name="h", devices=(DeviceSpec(catalog=catalog, count=count),)),)))
    )


def priced(job: Job = JOB, graph: Statistics = GRAPH, cores: float = 8, count: int = 1, **rates):
    return price_batches(job, machine(count), graph, Structures(), HostRates(**rates), cores)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_a_batch_of_everything_is_a_full_batch(kind):
    """With all vertices in a batch, and all neighbours, a step takes what an epoch of one worker takes."""
    graph = GRAPH.model_copy(update={"train_fraction": 1.0, "val_fraction": 0.0, "test_fraction": 0.0})
    model = ModelSpec(kind=kind, num_layers=2, hidden_channels=64)
    whole = MiniBatchSpec(fan_outs=(-1, -1), batch_size=GRAPH.num_nodes)
    step = priced(JOB.model_copy(update={"model": model, "mini_batch": whole}), graph)
    full = Job(graph=JOB.graph, model=model, pin=PinnedDecisions(precompute=False))
    epoch_s = min(each.epoch_s for each in Pricer(graph, Structures()).candidates(full, machine()))
    assert step.num_batches == 1
    assert step.times.model_s == pytest.approx(epoch_s, rel=0.02)


def test_slow_cores_are_what_binds_until_there_are_enough():
    """Where cores are slow, twice as many halve the batches' seconds, and the GPU's own route is taken instead."""
    slow = [priced(cores=cores, sampled_edges_per_s=1e5, gathered_bytes_per_s=1e7) for cores in (4, 8)]
    assert slow[0].times.cpu_batching_s == pytest.approx(2 * slow[1].times.cpu_batching_s)
    assert slow[1].found.num_gpu_made > slow[1].num_batches / 2
    assert priced(cores=64).found.num_gpu_made < priced().num_batches


def test_workers_share_the_batches_out():
    """Four workers train a quarter each, and every step sums the gradients."""
    one, four = priced(), priced(count=4)
    assert four.num_batches == -(-one.num_batches // 4)
    assert four.times.model_s > one.times.model_s
    assert one.epoch_s / 4 < four.epoch_s < one.epoch_s


def test_what_waits_fits():
    """As few batches wait as the device has room for."""
    roomy = machine()
    small = replace(
        roomy,
        placement=roomy.placement.model_copy(
            update={"workers": (roomy.placement.workers[0].model_copy(update={"memory_bytes": 2 * 10**9}),)}
        ),
    )
    tight = price_batches(JOB, small, GRAPH, Structures(), HostRates(), 8)
    assert tight.headroom >= 0
    assert tight.peak_bytes <= priced().peak_bytes


def test_devices_of_one_measured_host_sum_within_it(tmp_path):
    """Where collectives were measured every worker stands for itself, and its host has the others all the same."""
    machine = machine_of(LinkModel((2,), (100 * MBIT,)).placement(tmp_path))
    assert machine.is_whole
    assert [host.workers for host in machine.hosts] == [(1, 1)]


def test_no_batch_is_larger_than_what_is_trained():
    """A loader makes one batch of all training vertices, and that is what is priced."""
    few = GRAPH.model_copy(update={"train_fraction": 0.001})
    assert priced(graph=few).sizes.rows[0] == 500
    assert priced(graph=few).num_batches == 1
