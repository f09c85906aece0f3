"""A partition under every order of operators: its seconds, its room, and what may be chosen on it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.job import PartialReducePin, PinnedDecisions
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.strategies.joint_cache import largest_cache
from gnnplan.planner.strategies.trial import feature_formats, overlap_options, with_share
from gnnplan.profiles.errors import UserError
from tests.planner.strategies.trials import AGGREGATE, DEVICES, GRAPH, MULTIPLY, ONCE, problem_of, trial_of

LAYERS = (MULTIPLY, MULTIPLY)
ALONE = ("t4",)
RNG = np.random.default_rng(0)
SPARSE = replace(GRAPH, x=sp.random(GRAPH.num_nodes, GRAPH.num_features, 0.02, "csr", np.float32, rng=RNG))
ANEW = {"op_order": "aggregate_first", "precompute": False}  # the one order that sparse features cannot take


def pinned(problem, **pin):
    return replace(problem, job=problem.job.model_copy(update={"pin": PinnedDecisions(**pin)}))


def alone():
    """One worker with the whole graph."""
    return trial_of(problem_of(devices=ALONE), np.zeros(GRAPH.num_nodes, np.int32))


def test_a_share_of_a_graph_has_as_much_of_everything():
    """With nothing to give back, edges come from elsewhere."""
    trial = alone()
    (whole,), (half,) = trial.shapes, with_share(trial, 0.5).shapes
    (taken,) = with_share(trial, 0.5, gives_back=False).shapes
    assert with_share(trial, 1.0).shapes == trial.shapes
    for name in ("num_local", "local_edges", "num_train"):
        assert getattr(half, name) == round(getattr(whole, name) / 2) > 0
    assert half.hop_entries == tuple(round(entries / 2) for entries in whole.hop_entries)
    assert (taken.local_edges, taken.remote_edges) == (0, half.local_edges)
    assert with_share(trial, 1e-9).shapes[0].num_local == 1


def test_less_to_do_takes_less_time():
    """A half, and that half without the gradients of what was gathered."""
    trial = alone()
    half_s = with_share(trial, 0.5).epoch_s(LAYERS)
    assert half_s < trial.epoch_s(LAYERS)
    assert with_share(trial, 0.5, gives_back=False).epoch_s(LAYERS) < half_s


@pytest.mark.parametrize(
    ("kind", "devices", "overlap", "expected"),
    [
        ("gcn", DEVICES, None, (False, True)),
        ("gcn", DEVICES, True, (True,)),
        ("gcn", DEVICES, False, (False,)),
        ("gat", DEVICES, None, (False,)),
        ("gat", DEVICES, True, (True,)),
        ("gat", DEVICES, False, (False,)),
        ("gcn", ALONE, True, (False,)),
    ],
)
def test_exchanges_are_overlapped_where_some_can_be(kind, devices, overlap, expected):
    """A pin decides alone, but not for who has nobody to exchange with; attention overlaps where it is pinned."""
    problem = problem_of(kind=kind, devices=devices)
    assert overlap_options(pinned(problem, overlap=overlap)) == expected


@pytest.mark.parametrize(
    ("graph", "pin", "expected"),
    [
        (GRAPH, {}, (False,)),
        (SPARSE, {}, (True, False)),
        (GRAPH, {"sparse_features": True}, (True,)),
        (SPARSE, {"sparse_features": False}, (False,)),
        (SPARSE, ANEW, (False,)),
    ],
)
def test_features_are_sparse_where_that_may_pay(graph, pin, expected):
    """Where they are held so, and every layer has an order of operators then; a pin decides alone."""
    assert feature_formats(replace(pinned(problem_of(), **pin), graph=graph)) == expected


def test_pins_that_leave_no_format_are_refused():
    """In one line, with what to change."""
    problem = replace(pinned(problem_of(), sparse_features=True, **ANEW), graph=SPARSE)
    with pytest.raises(UserError, match=r"^job: pin\.op_order and pin\.precompute ask for what gcn .* leave one"):
        feature_formats(problem)


def test_an_epoch_is_the_mean_over_a_refresh_interval():
    """One epoch of four sends its embeddings, over a slow network a longer one than the others."""
    trial = trial_of(pinned(problem_of(link=1e7), refresh_interval=4))
    cache = largest_cache(trial, LAYERS)
    assert cache.is_stale
    schedules = [trial.lowering(LAYERS, cache, refresh=epoch % 4 == 0).lower() for epoch in range(4)]
    epochs_s = [play(compile_schedule(schedule)).makespan_s for schedule in schedules]
    assert epochs_s[1] < epochs_s[0]
    assert trial.epoch_s(LAYERS, cache) == pytest.approx(sum(epochs_s) / 4)


def test_who_is_alone_is_busy_all_the_time():
    """There is nobody to wait for, and no port to wait at."""
    trial = alone()
    for ports in (False, True):
        assert trial.busy_s(LAYERS, ports=ports) == pytest.approx([trial.epoch_s(LAYERS)], rel=1e-3)


def test_waiting_for_others_is_not_being_busy():
    """A worker's own tasks count, and where they are asked for its own port's seconds: those of the slow link."""
    trial = trial_of(problem_of(link=(1e9, 1e9, 1e6)))
    busy_s, ports_s = (trial.busy_s(LAYERS, ports=ports) for ports in (False, True))
    own_s = [0.0] * len(busy_s)
    for task in trial.lowering(LAYERS).lower().tasks:
        own_s[task.worker] += task.seconds if task.category != "communicate" else 0.0
    assert busy_s == pytest.approx(own_s)
    assert max(busy_s) < trial.epoch_s(LAYERS)
    on_ports_s = np.subtract(ports_s, busy_s)
    assert on_ports_s[2] > 10 * max(on_ports_s[:2]) > 0


def test_one_pass_over_the_layers_finds_the_best_orders():
    """Of one worker, whose layers' seconds add up: as trying all pairs does, and no order is looked at twice."""
    trial = alone()
    found = trial.descend()
    every = list(product((MULTIPLY, ONCE, AGGREGATE), (MULTIPLY, AGGREGATE)))
    assert len(set(found)) == len(found) < len(every)
    assert set(found) <= set(every)
    assert min(map(trial.epoch_s, found)) == pytest.approx(min(map(trial.epoch_s, every)))
    assert trial.descend([(MULTIPLY,), (AGGREGATE, MULTIPLY)]) == [(MULTIPLY, AGGREGATE), (MULTIPLY, MULTIPLY)]


def test_the_worker_that_lacks_most_is_named():
    """With the bytes that it lacks; where all fit it is the one that comes nearest to lacking some."""
    trial = trial_of(problem_of())
    placement, needs = trial.problem.placement, trial.needs_bytes(LAYERS)
    spare = [worker.memory_bytes - need for worker, need in zip(placement.workers, needs)]
    assert trial.shortfall(LAYERS) == (-min(spare), spare.index(min(spare)))
    small = placement.workers[2].model_copy(update={"memory_bytes": needs[2] - 7})
    cramped = placement.model_copy(update={"workers": (*placement.workers[:2], small)})
    lacking = replace(trial, problem=replace(trial.problem, placement=cramped))
    assert lacking.shortfall(LAYERS) == (7, 2)


def test_a_mean_of_weights_needs_room_on_every_device():
    """As much as the weights; on GPUs the mailbox lies in the host's memory."""
    trial = trial_of(problem_of())
    averaging = pinned(trial.problem, partial_reduce=PartialReducePin(average_epochs=5))
    needs = replace(trial, problem=averaging).needs_bytes(LAYERS)
    mean_bytes = FLOAT_BYTES * trial.program(LAYERS).num_parameters
    assert needs == [need + mean_bytes for need in trial.needs_bytes(LAYERS)]
