"""Labels that change numbers change them as the oracle says that knows labels: every subset, split and not."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gnnplan.planner.program.labels import Label
from tests.planner.program.cases import EXACT, MODELS, ORDERS, SGD, Case, codes, exact, subset, travels, worst

EPOCHS = 5
MARKS = {"made": Label.MADE, "dropped": Label.DROPPED, "kept": Label.KEPT}
SUBSETS = [
    (names, interval)
    for size in range(4)
    for names in itertools.combinations(MARKS, size)
    for interval in ((1, 2, 3) if "kept" in names else (1,))
]
IDS = ["+".join(names) + (f" every {interval}" if "kept" in names else "") or "none" for names, interval in SUBSETS]
LATE_PASSES = ("split", "once", "storage", "overlap")
# Split with every model, and as it is with two or three of them.
PLAYED = [
    pytest.param(name, number, passes, id=f"{name}-{each}-{'split' if passes else 'plain'}")
    for i, name in enumerate(MODELS)
    for number, each in enumerate(IDS)
    for passes in ((), LATE_PASSES)
    if passes or (number + i) % 2
]


def case_of(name: str, number: int) -> Case:
    """A subset of labels; workers and orders go round, each at its own pace."""
    names, interval = SUBSETS[number]
    model, num_workers = MODELS[name], 2 + number % 3
    chosen = {MARKS[each]: subset(model, num_workers, 50 + i, 0.4) for i, each in enumerate(names)}
    order = list(ORDERS)[(number + number // 3) % 3]
    table, training = codes(model, num_workers, chosen), SGD.model_copy(update={"epochs": EPOCHS})
    return Case(model, num_workers, ORDERS[order], table, (), interval, training)


@cache
def trained(name: str, number: int):
    return case_of(name, number).oracle()


@pytest.mark.parametrize(("name", "number", "passes"), PLAYED)
def test_equals_the_oracle_of_labels(name, number, passes):
    """Losses, gradients and parameters over two refreshes are the oracle's."""
    case = replace(case_of(name, number), passes=passes)
    assert case.play().off(*trained(name, number)) < EXACT


@pytest.mark.parametrize("number", range(len(SUBSETS)), ids=IDS)
@pytest.mark.parametrize("name", MODELS)
def test_labels_are_there_and_change_what_they_should(name, number):
    """Halo rows of every label exist; rows that are stale or dropped change the numbers, and others do not."""
    case, (names, interval) = case_of(name, number), SUBSETS[number]
    found = halo_labels(case)
    assert all(found[:, int(MARKS[each])].sum() >= 4 for each in names)
    assert found.any(1).all(), "a worker without halo rows"
    _, exactly = exact(case.model, case.training)
    _, epochs = trained(name, number)
    errors = [worst(epoch.grads[key], want.grads[key]) for epoch, want in zip(epochs, exactly) for key in want.grads]
    changes = "dropped" in names or interval > 1
    assert (max(errors) > 1e-6) if changes else (max(errors) < EXACT)


@pytest.mark.parametrize("number", range(len(SUBSETS)), ids=IDS)
def test_rows_travel_as_often_as_labels_say(number):
    """In the epoch of a refresh sent and kept rows travel there and back, between refreshes the sent ones alone."""
    case, (_, interval) = replace(case_of("gcn", number), orders=()), SUBSETS[number]
    found, cycle = halo_labels(case).sum(0), case.cycle()
    sent, kept = int(found[Label.SENT]), int(found[Label.KEPT])
    assert cycle.order == ("train", *["train/reuse"] * (interval - 1))
    for name in dict.fromkeys(cycle.order):
        want = {"sent": sent} | ({"kept": kept} if kept and name == "train" else {})
        for back in (False, True):  # each product of features and weights has a gradient, the first layer's too
            assert travels(cycle.programs[name], cycle, back=back) == want
        exchanges = [op for op in cycle.programs[name] if op.kind == "exchange"]
        assert len(exchanges) == 2 * case.model.num_layers * len(want)


@pytest.mark.parametrize("number", [0, 3, 12, 15])
@pytest.mark.parametrize("name", MODELS)
def test_evaluation_drops_edges_but_keeps_and_drops_no_rows(name, number):
    """Evaluation counts what the oracle's logits without dropout get right, with every row fresh."""
    case = replace(case_of(name, number), passes=("split", "once", "storage"))
    run = case.play()
    oracle, _ = trained(name, number)
    graph = case.graph
    right = oracle.evaluate().argmax(1).numpy() == graph.y
    want = [[int(right[mask].sum()), int(mask.sum())] for mask in (graph.train_mask, graph.val_mask, graph.test_mask)]
    for counted in run.executor.run("evaluate")["hits"]:
        assert counted.tolist() == want


def halo_labels(case: Case) -> np.ndarray:
    """int [W, labels]: rows that every worker gathers and does not own, by label, summed over levels.

    Counted from the matrix alone: what a worker makes it need not ask for, what it makes it must gather for.
    """
    matrix = case.forward().arrays.matrices["A@0"][0].toarray() != 0
    table, part = case.codes(), case.part
    found = np.zeros((case.num_workers, len(Label)), int)
    for level, worker in np.ndindex(table.shape[:2]):
        own = part == worker
        is_last = level == len(table) - 1
        made_above = np.zeros_like(own) if is_last else table[level + 1, worker] == Label.MADE
        gathered = matrix[own | made_above].any(0) & ~own
        found[worker] += np.bincount(table[level, worker][gathered], minlength=len(Label))
    return found
