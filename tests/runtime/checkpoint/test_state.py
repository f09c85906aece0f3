"""A training that goes on from its state has the bits of one that never stopped."""

import numpy as np
import pytest
import torch

from gnnplan.planner.program.labels import Label
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.checkpoint.state import ProgramState, copied, is_carried, viewed
from tests.planner.program.cases import MODELS, ORDERS, SEED, Case, Run, codes, subset
from tests.planner.techniques.feature_slices.sliced import sliced
from tests.planner.techniques.source_chunks.test_chunked_pairs import pair
from tests.runtime.execution.test_program_executor import inputs_of, labelled, weights_of
from tests.runtime.execution.threads import play_on_threads

EPOCHS = 7
STOPS = (1, 3, 5)  # in the middle of an interval of 3, at its end, and in the middle again


def state_of(executor):
    """Of an executor with workers on threads."""
    return ProgramState(executor, executor._peers.host_barrier)


def trained(executor, cycle, begin, end):
    """Losses of some epochs."""
    order = cycle.order
    return [float(next(iter(executor.run(order[e % len(order)], e).values()))) for e in range(begin, end)]


def check_going_on(case, cycle=None):
    """Stopped after some epochs and put into new executors, it ends as if it had not been."""
    cycle = cycle or case.cycle()
    run = Run(case, cycle)
    inputs, weights = inputs_of(run), weights_of(case)

    def throughout(executor, _):
        states, losses, begin = {}, [], 0
        for stop in (*STOPS, EPOCHS):
            losses += trained(executor, cycle, begin, stop)
            states[stop], begin = copied(state_of(executor).held()), stop
        return states, losses

    whole = play_on_threads(cycle, inputs, weights, throughout)
    for stop in STOPS:

        def going_on(executor, rank, stop=stop):
            state = state_of(executor)
            arrays = whole[rank][0][stop]
            like = state.like()
            assert set(like) == set(arrays)
            for name, (shape, dtype) in like.items():
                assert arrays[name].dtype == dtype
                assert all(want in (None, has) for want, has in zip(shape, arrays[name].shape, strict=True))
            state.put(arrays)
            losses = trained(executor, cycle, stop, EPOCHS)
            return copied(state.held()), losses, executor.run("evaluate")["hits"]

        for (states, losses), (end, rest, _) in zip(whole, play_on_threads(cycle, inputs, weights, going_on)):
            assert rest == losses[stop:]
            for name, array in states[EPOCHS].items():
                assert array.tobytes() == end[name].tobytes(), name
    return whole[0][0][STOPS[0]]


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_exact_plans(name):
    """One worker and three, with all that saves time."""
    for num_workers in (1, 3):
        arrays = check_going_on(Case(MODELS[name], num_workers, passes=("split", "once", "storage", "overlap")))
        assert all(map(is_carried, arrays))


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "rmsprop", "momentum": 0.5, "optimizer_arguments": {"centered": True}, "clip_norm": 0.1},
        {"optimizer": "radam", "schedule": "cosine", "warmup_epochs": 2},
        {"optimizer": "adam", "optimizer_arguments": {"amsgrad": True}, "schedule": "linear"},
        {"optimizer": "adagrad", "optimizer_arguments": {"lr_decay": 0.1}, "clip_value": 0.01},
    ],
    ids=lambda each: each["optimizer"],
)
def test_all_that_optimizers_keep(settings):
    """Whatever torch's class has beside the parameters, and where the schedule is."""
    training = TrainingSpec(epochs=EPOCHS, seed=SEED, **settings)
    check_going_on(Case(MODELS["gcn"], 3, passes=("split", "storage"), training=training))


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_stale_plans(name):
    """Rows and gradients that are kept are part of it, wherever in the interval the training stopped."""
    case = Case(
        MODELS[name], 3, ORDERS["mixed"], labelled(name), ("split", "refresh", "storage", "overlap"), interval=3
    )
    arrays = check_going_on(case)
    kept = [array for name, array in arrays.items() if not is_carried(name)]
    assert kept
    assert any(np.abs(array).max() > 0 for array in kept if array.size)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_rows_in_regions(name):
    """Each worker has the rows that it writes, and the others find them again."""
    model = MODELS[name]
    chosen = {Label.SHARED: subset(model, 4, 1, 0.5), Label.KEPT: subset(model, 4, 2, 0.3)}
    case = Case(model, 4, ORDERS["mixed"], codes(model, 4, chosen), ("split", "refresh", "storage", "regions"), 3)
    arrays = check_going_on(case)
    assert any("/region" in name for name in arrays)


def test_rows_that_are_kept_of_every_chunk():
    """In the first pass no step has yet made what later steps keep."""
    chunked = pair("joint_cache", "gcn", interval=2)
    check_going_on(chunked.case, chunked.cycle())


def test_slices_of_columns():
    """Under another layout."""
    case = Case(MODELS["gcn"], 2, ORDERS["mixed"])
    check_going_on(case, sliced(case, "overlap"))


def test_without_the_state_it_is_another_training():
    """Parameters alone are not enough where rows are kept, or an optimizer counts."""
    case = Case(MODELS["gcn"], 3, ORDERS["mixed"], labelled("gcn"), ("split", "refresh", "storage"), interval=3)
    cycle = case.cycle()
    inputs, weights = inputs_of(Run(case, cycle)), weights_of(case)

    def parts(executor, _):
        trained(executor, cycle, 0, 1)
        return copied(state_of(executor).held()), trained(executor, cycle, 1, EPOCHS)

    whole = play_on_threads(cycle, inputs, weights, parts)

    def carried(executor, rank):
        trained(executor, cycle, 0, 1)  # so that rows are kept at all, from other weights
        for name in cycle.parameters:
            executor.stored[name].mul_(1.5)
        trained(executor, cycle, 0, 1)
        state_of(executor).put({name: array for name, array in whole[rank][0].items() if is_carried(name)})
        return trained(executor, cycle, 1, EPOCHS)

    assert play_on_threads(cycle, inputs, weights, carried)[0] != whole[0][1]


def test_copies_are_of_now():
    """What is trained meanwhile changes a view and no copy."""
    tensor = torch.ones(2, 2)
    copy, view = copied({"a": tensor}), viewed({"a": tensor})
    tensor.add_(1)
    assert (copy["a"].sum(), view["a"].sum()) == (4, 8)
