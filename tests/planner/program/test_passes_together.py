"""Exact techniques stay exact: alone, in every pair and all at once, on one to four workers, for every model."""

import itertools
from dataclasses import replace

import pytest

from gnnplan.planner.program.labels import Label
from gnnplan.planner.training_spec import TrainingSpec
from tests.planner.program.cases import (
    EXACT,
    MODELS,
    ORDERS,
    SEED,
    SGD,
    Case,
    codes,
    exact,
    small_graph,
    subset,
    travels,
)

FROM_PYG = 1e-5  # float32 there, and matrices in float32 here
OPTIONS = ("made", "kept", "split", "once", "features", "storage", "overlap")
COMBINATIONS = [(), *itertools.chain.from_iterable(itertools.combinations(OPTIONS, size) for size in (1, 2)), OPTIONS]
# Every model with each technique alone and with all; of the pairs, each with three models.
PLAYED = [
    (name, options)
    for i, name in enumerate(MODELS)
    for number, options in enumerate(COMBINATIONS)
    if len(options) != 2 or (number + i) % 5 < 3
]
IDS = [f"{name}-{'+'.join(options) or 'none'}" for name, options in PLAYED]


def case_of(name: str, options: tuple[str, ...], number: int) -> Case:
    """A combination of techniques; workers and orders go round."""
    model, num_workers = MODELS[name], 2 + number % 3
    constant = {"once", "features"} & set(options)  # of these two there is something only where rows come first
    order = "aggregated" if constant else list(ORDERS)[number % 3]
    marks = {"made": Label.MADE, "kept": Label.KEPT}
    chosen = {marks[each]: subset(model, num_workers, 7 + i) for i, each in enumerate(options) if each in marks}
    passes = tuple(each for each in options if each not in marks)
    return Case(model, num_workers, ORDERS[order], codes(model, num_workers, chosen), passes)


@pytest.mark.parametrize(("name", "options"), PLAYED, ids=IDS)
def test_equals_one_worker_and_pyg(name, options):
    """Losses, gradients and parameters are those of one dense worker, and those of plain PyG."""
    case = case_of(name, options, COMBINATIONS.index(options))
    run = case.play()
    assert run.off(*exact(case.model)) < EXACT
    assert run.off_pyg() < FROM_PYG


@pytest.mark.parametrize(("name", "options"), PLAYED, ids=IDS)
def test_every_option_of_a_combination_does_something(name, options):
    """A combination in which a technique changed nothing would say nothing of it."""
    case = case_of(name, options, COMBINATIONS.index(options))
    cycle = case.shared()
    counts = travels(cycle.programs["train"], cycle)
    assert counts["sent"] >= 10
    assert (counts["kept"] >= 10) == ("kept" in options)
    assert any(
        sum(space.sizes) > sum(space.num_own) for space in cycle.spaces.values() if space.name.startswith("v@")
    ) == ("made" in options)
    for each in case.names():
        before, cycle = cycle, case.rewrite(each)(cycle)
        about_constants = each in ("once", "features")
        if about_constants:  # what GAT makes of its features depends on a parameter from the start
            assert ("setup" in cycle.programs) == (name != "gat")
        assert cycle.programs != before.programs or (about_constants and name == "gat"), each


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_one_worker_equals_pyg(name, order):
    """On one worker nothing travels and nothing is summed."""
    case = Case(MODELS[name], 1, ORDERS[order], passes=("split", "once", "storage", "overlap"))
    cycle = case.cycle()
    assert not {"exchange", "all_reduce", "place"} & {op.kind for op in cycle.programs["train"]}
    run = case.play(cycle)
    assert run.off(*exact(case.model)) < EXACT
    assert run.off_pyg() < FROM_PYG


@pytest.mark.parametrize("name", MODELS)
def test_adam_with_decay_equals_torchs(name):
    """Adam's cells and the decay of weights are torch's own."""
    training = TrainingSpec(optimizer="adam", learning_rate=0.02, weight_decay=0.01, epochs=4, seed=SEED)
    case = replace(case_of(name, OPTIONS, 1), training=training)
    run = case.play()
    assert run.off(*exact(case.model, training)) < EXACT
    assert run.off_pyg() < 1e-4


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_independent_labels(name):
    """Multi-label tasks have a loss of their own."""
    case = replace(case_of(name, OPTIONS, 0), multilabel=True)
    run = case.play()
    assert run.off(*exact(case.model, multilabel=True)) < EXACT
    assert run.off_pyg() < FROM_PYG


@pytest.mark.parametrize("name", MODELS)
def test_workers_may_own_nothing_or_nothing_to_train(name):
    """Of four workers one owns nothing, and one no training vertex."""
    model = MODELS[name]
    train = small_graph().train_mask
    owners = tuple(3 if not trained and v % 2 else v % 2 for v, trained in enumerate(train))
    assert 2 not in owners
    assert not train[[owner == 3 for owner in owners]].any()
    for passes in ((), ("split", "once", "storage", "overlap")):
        for chosen in ({}, {Label.MADE: subset(model, 4, 1)}):
            case = Case(model, 4, ORDERS["mixed"], codes(model, 4, chosen), passes, owners=owners)
            assert case.play().off(*exact(model)) < EXACT


@pytest.mark.parametrize("name", MODELS)
def test_every_gradient_is_far_from_zero(name):
    """A gradient of zero would equal anything's."""
    _, epochs = exact(MODELS[name])
    assert min(float(grad.norm()) for epoch in epochs for grad in epoch.grads.values()) > 1e-4
    assert len({round(float(epoch.loss), 6) for epoch in epochs}) == SGD.epochs
