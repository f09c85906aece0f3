"""What workers compute together at least: no plan composed for them, of any technique, is predicted below it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric import nn as pyg

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.descent import Descent
from gnnplan.planner.search.least import Least, trained_parameters
from gnnplan.planner.search.work import Sampled, Work, together_s
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.models.trained_modules import forward_of, made
from tests.planner.program.cases import small_graph
from tests.planner.search.searched import found

DEVICES = ["rtx-3090", "t4", "gtx-1650", "h100-sxm"]
ROUNDING = 1e-6


def cluster_of(devices, rate, *, one_host):
    """A worker of each device, on hosts of their own or on one."""
    parts, link = [DeviceSpec(catalog=device) for device in devices], Link(bytes_per_s=rate)
    hosts = [tuple(parts)] if one_host else [(part,) for part in parts]
    specs = tuple(HostSpec(name=f"h{i}", devices=each, link=link) for i, each in enumerate(hosts))
    return resolve(Cluster(hosts=specs, device_link=link))


@st.composite
def problems(draw):
    """A job, its graph and a placement of two to four workers."""
    size, seed = draw(st.integers(40, 1500)), draw(st.integers(0, 99))
    width = draw(st.sampled_from([8, 200]))
    if draw(st.booleans()):
        spec = SbmGraph(source="sbm", num_nodes=size, num_features=width, num_classes=4, average_degree=8, seed=seed)
        graph = generate_sbm(spec)
    else:
        spec = RmatGraph(source="rmat", num_nodes=size, num_edges=12 * size, num_features=width, seed=seed)
        graph = generate_rmat(spec)
    model = ModelSpec(
        kind=draw(st.sampled_from(["gcn", "sage", "gat", "gin", "tagcn"])),
        num_layers=draw(st.integers(1, 3)),
        hidden_channels=draw(st.sampled_from([16, 128])),
        dropout=draw(st.sampled_from([0.0, 0.5])),
    )
    names = draw(st.lists(st.sampled_from(["replicas", "overlap", "feature_cache", "first_aggregation"]), max_size=2))
    pin = PinnedDecisions(techniques={name: draw(st.booleans()) for name in names})
    devices = draw(st.lists(st.sampled_from(DEVICES), min_size=2, max_size=4))
    rate = draw(st.sampled_from([1e7, 1e9, 1e12]))
    place = cluster_of(devices, rate, one_host=draw(st.booleans()))
    return Job(graph=spec, model=model, pin=pin), graph, place


def least_and_candidates(job, graph, place):
    """The bound of all workers of a placement, and all that a search composes for them."""
    base = setting_of(job, place, graph)
    alone = {}
    for rank, worker in enumerate(place.workers):
        if worker.profile not in alone:
            alone[worker.profile] = searched(replace(base, placement=place.of([rank]), rates_s=(1.0,)))
    return Least.of(base, alone).seconds(range(len(place.workers))), searched(base)


def searched(setting):
    """All candidates of a setting that a descent composes."""
    descent = Descent(setting)
    descent.run()
    return list(descent.evaluator.looked_at())


@pytest.mark.long
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(problems())
def test_no_composed_candidate_is_below_it(problem):
    """Random graphs, models, clusters and pins; every technique that the search composes there."""
    job, graph, place = problem
    try:
        bound_s, candidates = least_and_candidates(job, graph, place)
    except UserError:  # nothing can be composed under these pins
        return
    assert bound_s > 0
    assert min(each.epoch_s for each in candidates) >= bound_s * (1 - ROUNDING)


works = st.builds(Work, *(st.floats(0, 10),) * 4)


@given(st.lists(works, min_size=1, max_size=5), st.data())
def test_no_way_to_share_the_graph_out_is_faster(works, data):
    """Any shares of the vertices and edges, and whoever has those that are trained."""
    size = len(works)
    parts = st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda shares: sum(shares) > 0.01)
    rows, edges = (np.array(data.draw(parts)) for _ in range(2))
    rows, edges = rows / rows.sum(), edges / edges.sum()
    trained = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    seconds = [
        work.fixed_s + work.rows_s * rows[w] + work.edges_s * edges[w] + work.loss_s * (w in trained)
        for w, work in enumerate(works)
    ]
    assert max(seconds) >= together_s(works) * (1 - ROUNDING)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_equal_workers_that_share_alike_take_just_as_long(size):
    """So the bound is no weaker than it has to be."""
    work = Work(1.0, 2.0, 3.0, 0.0)
    assert together_s([work] * size) == pytest.approx(1 + 5 / size)


def test_whoever_has_what_is_trained_takes_all_that_a_loss_takes():
    """However little it is."""
    assert together_s([Work(1.0, 0.01, 0.0, 2.0)] * 8) >= 3.0


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_prices_are_below_every_part_that_was_sampled(kind):
    """And at the share that they are the largest for they are close to it."""
    sampled = Sampled.of(found("skewed", "one", model=ModelSpec(kind=kind, hidden_channels=32)).best)
    work = sampled.work(0.5)
    priced = work.fixed_s + sampled.shares @ [work.rows_s, work.edges_s]
    assert (priced <= sampled.seconds * (1 + ROUNDING)).all()
    (at_half,) = np.flatnonzero((sampled.shares == 0.5).all(1))
    assert priced[at_half] > 0.9 * sampled.seconds[at_half]


def test_what_is_fixed_is_counted_where_the_graph_is_small():
    """Three workers take far more than a third of what one takes, and the bound says so."""
    result = found("sbm", "network", num_workers=3)
    alone_s = min(each.epoch_s for each in result.alone)
    assert result.bound.seconds > 0.5 * alone_s
    assert "what is fixed" in result.bound.set_by


def test_edges_that_a_pinned_technique_leaves_out_take_no_time():
    """With a tenth of the halo rows workers sum fewer edges than one that has all of the graph."""
    pins = {"prune": "none", "decisions": {"boundary_sampling": {"probability": 0.05}}, "num_workers": 3}
    dense = generate_rmat(RmatGraph(source="rmat", num_nodes=4000, num_edges=1_500_000, num_features=16))
    model = ModelSpec(hidden_channels=16)
    result = found(dense, "network", model=model, fidelity="approximate", on={"bytes_per_s": 1e13}, **pins)
    assert result.bound.seconds <= result.best.epoch_s


class Unused(nn.Module):
    """Parameters that only an evaluation reads."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv, self.more = pyg.GCNConv(num_features, num_classes), nn.Linear(num_classes, num_classes)

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        self.more(x)
        return x if self.training else self.more(x)


def test_weights_without_a_gradient_are_not_summed():
    """No plan sends them, so the bound does not count them."""
    module = made(Unused)
    forward = forward_of(module, small_graph())
    assert {name for name, value in forward.values.items() if value.role == "parameter"} > trained_parameters(forward)
    assert trained_parameters(forward) == {"conv.lin.weight", "conv.bias"}
