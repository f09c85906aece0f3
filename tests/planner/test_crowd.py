"""Alike workers priced once: the same exchange as where all are there."""

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.crowd import Crowd, HostKind
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.network import Network
from gnnplan.planner.readers.cost import COLLECTIVES, is_exchange
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.descent import Descent
from gnnplan.planner.statistics.machine import machine_of
from gnnplan.profiles.machine import Link

NETWORK = Link(bytes_per_s=1e9, latency_s=1e-5)


def placed(hosts: int, per_host: int):
    spec = HostSpec(name="host", count=hosts, devices=(DeviceSpec(catalog="t4", count=per_host),))
    return resolve(Cluster(hosts=(spec,), network=NETWORK))


@pytest.mark.parametrize(("hosts", "per_host"), [(1, 4), (2, 2), (4, 1), (3, 3)])
def test_even_exchanges_and_sums_are_the_networks(hosts, per_host):
    """All send each other the same: one worker that stands for all finds the seconds of the whole matrix."""
    placement, size = placed(hosts, per_host), hosts * per_host
    machine, network = machine_of(placement), Network(placement)
    crowd = Crowd(machine.alike, (1 / size,), (1.0,), machine.hosts, placement.device_link)
    matrix = np.full((size, size), 6_000_000) - np.diag([6_000_000] * size)
    sums = np.array([float(matrix[0].sum())])
    assert crowd.num_workers == size
    assert crowd.exchange(sums, sums).seconds == pytest.approx(network.all_to_all(matrix).seconds)
    assert crowd.all_reduce(1e8).seconds == pytest.approx(network.all_reduce(1e8).seconds)
    direct = network.all_to_all(network.to_everyone(1e5))
    assert crowd.to_everyone(1e5).seconds == pytest.approx(direct.seconds)


def test_only_the_busiest_of_a_host_sends_most():
    """Of four workers on a host one sends twice the mean: the host sends five times the mean, not eight."""
    hosts = (HostKind(NETWORK, (4,)),)
    crowd = Crowd((400,), (1 / 400,), (2.0,), hosts, Link(bytes_per_s=1e15, latency_s=0))
    mean_bytes = 1e9
    seconds = crowd.exchange(np.array([2 * mean_bytes]), np.array([2 * mean_bytes])).seconds
    leaving = (1 - 4 / 400) / (1 - 1 / 400)
    assert seconds == pytest.approx(1e-5 + 5 * mean_bytes * leaving / 1e9, rel=1e-6)


def test_machines_of_several_kinds_keep_them_apart():
    """Devices that differ, or stand on hosts that differ, do not stand for each other."""
    kinds = (DeviceSpec(catalog="t4", count=2), DeviceSpec(catalog="l4"))
    cluster = Cluster(hosts=(HostSpec(name="a", devices=kinds, count=3), HostSpec(name="b", devices=kinds[:1])))
    machine = machine_of(resolve(cluster))
    assert machine.alike == (6, 3, 2)
    assert {host.workers for host in machine.hosts} == {(2, 1, 0), (0, 0, 2)}


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_what_moves_is_the_sums_of_the_matrix(kind):
    """Bytes sent and received, said worker by worker, add up what travels from worker to worker, in every layout."""
    spec = SbmGraph(source="sbm", num_nodes=400, average_degree=8.0, num_features=16, num_classes=4)
    job = Job(graph=spec, model=ModelSpec(kind=kind, num_layers=2, hidden_channels=16))
    descent = Descent(setting_of(job, placed(3, 1), generate_sbm(spec)))
    descent.run()
    count, layouts = 0, set()
    for candidate in descent.evaluator.looked_at():
        cycle = candidate.cycle
        for op in filter(is_exchange, cycle.operators()):
            collective = COLLECTIVES[op.kind]
            matrix, (sent, received) = collective.num_bytes(cycle, op), collective.moved(cycle, op)
            assert sent == pytest.approx(matrix.sum(1), abs=8 * cycle.num_workers)
            assert received == pytest.approx(matrix.sum(0), abs=8 * cycle.num_workers)
            count, layouts = count + 1, layouts | {op.kind}
    assert count > 10
    assert layouts == {"exchange", "transpose"}
