"""Rows that are kept between refreshes: what travels when, and where it stays."""

from dataclasses import replace

import pytest

from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.program.labels import Label
from gnnplan.planner.techniques.joint_cache.refresh import refresh_every
from tests.planner.program.cases import MODELS, ORDERS, Case, codes, subset, travels, watched

INTERVAL = 3


def case_of(name: str, *passes: str, order: str = "multiplied") -> Case:
    model = MODELS[name]
    table = codes(model, 3, {Label.KEPT: subset(model, 3, 11, 0.4)})
    return Case(model, 3, ORDERS[order], table, passes, INTERVAL)


@pytest.mark.parametrize("name", MODELS)
def test_one_epoch_in_an_interval_refreshes(name):
    """In between nothing that is kept travels, on its way or on the way back; what is sent still does."""
    case = case_of(name)
    cycle = case.cycle()
    assert cycle.order == ("train", "train/reuse", "train/reuse")
    for back in (False, True):
        full, reuse = (travels(cycle.programs[each], cycle, back=back) for each in ("train", "train/reuse"))
        assert full["kept"] >= 10
        assert set(reuse) == {"sent"}
        assert full["sent"] == reuse["sent"] > 0


@pytest.mark.parametrize("name", MODELS)
def test_rows_and_returned_gradients_are_cells(name):
    """Each is written by the refresh and read by what follows; none is read before it was written."""
    cycle = case_of(name).cycle()
    kept = {op.writes[0] for op in cycle.programs["train"] if op.attributes.get("label") == "kept"}
    assert {"back" if "backward" in each else "there" for each in kept} == {"back", "there"}
    assert all(cycle.values[each].role == "cell" for each in kept)
    assert not any(kept & set(op.writes) for op in cycle.programs["train/reuse"])
    read = {each for op in cycle.programs["train/reuse"] for each in op.reads}
    assert kept <= read
    assert not kept & set(starting_cells(cycle))


def test_other_operators_are_those_of_the_refresh():
    """So a task has one key in both, and an epoch of reuse is shorter by what packs and moves kept rows."""
    cycle = case_of("gcn").cycle()
    full, reuse = cycle.programs["train"], cycle.programs["train/reuse"]
    gone = [op for op in full if op not in reuse]
    assert [op for op in full if op in reuse] == list(reuse)
    assert {op.kind for op in gone} == {"take", "exchange"}
    assert all("kept" in op.key or "remote2" in op.key or op.kind == "take" for op in gone)


def test_an_interval_of_one_changes_nothing():
    """Every epoch refreshes."""
    cycle = replace(case_of("gcn"), interval=1).cycle()
    assert refresh_every(cycle, 1) is cycle


@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "tagcn"])
def test_features_that_are_hoisted_need_no_refresh(name):
    """What is constant is never stale: it travels before training, once."""
    case = case_of(name, "once", order="aggregated")
    cycle = case.cycle()
    hops = MODELS[name].num_hops if name == "tagcn" else 1
    levels = {op.attributes["level"] for op in cycle.programs["train"] if op.kind == "exchange"}
    assert min(levels) == hops
    assert travels(cycle.programs["setup"], cycle)["kept"] > 0
    assert case.off(cycle) < 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_writes_no_cell(name):
    """Nor a parameter."""
    cycle = case_of(name, "split", "once").cycle()
    written = {each for op in cycle.programs["evaluate"] for each in op.writes}
    assert {cycle.values[each].role for each in written} == {"temporary"}


@pytest.mark.parametrize("name", MODELS)
def test_evaluating_on_the_way_changes_no_number(name):
    """Training goes on with the rows that it kept."""
    case = case_of(name, "split")
    plain, evaluated = case.play(epochs=5), case.play(epochs=0)
    for epoch in range(5):
        evaluated.train([epoch])
        evaluated.executor.run("evaluate")
    assert evaluated.losses == plain.losses


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_leaves_no_trace_without_kept_rows(name):
    """Parameters, cells and inputs are as they were, with everything else on."""
    model = MODELS[name]
    table = codes(model, 3, {Label.MADE: subset(model, 3, 11, 0.4)})
    case = Case(model, 3, ORDERS["aggregated"], table, ("split", "once", "storage", "overlap"))
    run = case.play(watched(case.cycle()))
    before = {key: [each.clone() for each in workers] for key, workers in run.executor.stored.items()}
    run.executor.run("evaluate")
    assert before.keys() == run.executor.stored.keys()
    for key, workers in run.executor.stored.items():
        assert all(a.equal(b) for a, b in zip(before[key], workers, strict=True)), key
