"""What no parameter and no epoch changes is done once, before the first epoch."""

import pytest

from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cycle import SETUP
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label
from tests.planner.program.cases import EXACT, MODELS, ORDERS, Case, codes, exact, subset

LINEAR = ["gcn", "sage", "gin", "tagcn"]


def case_of(name: str, order: str = "aggregated", **more) -> Case:
    model = MODELS[name]
    return Case(model, 3, ORDERS[order], codes(model, 3, {Label.MADE: subset(model, 3, 4)}), **more)


@pytest.mark.parametrize("chosen", [lambda op: True, lambda op: op.kind == "exchange"], ids=["all", "exchanges"])
@pytest.mark.parametrize("name", MODELS)
def test_hoisting_twice_is_hoisting_once(name, chosen):
    """Nothing is left to hoist, before the derivation or after it."""
    once = hoist_constants(case_of(name).shared(), chosen)
    assert hoist_constants(once, chosen) == once
    after = case_of(name).rewrite("derive")(once)
    assert hoist_constants(after, chosen).programs == after.programs


@pytest.mark.parametrize("name", LINEAR)
def test_no_epoch_has_a_constant_left(name):
    """Every operator of an epoch depends on a parameter, or is drawn anew; the first aggregation is in the setup."""
    cycle = hoist_constants(case_of(name).shared())
    depends = set(cycle.parameters)
    for op in cycle.programs["train"]:
        assert KINDS[op.kind].varies or op.kind == "loss" or depends.intersection(op.reads), op.key
        depends.update(op.writes)
    hops = MODELS[name].num_hops if name == "tagcn" else 1
    assert [op.kind for op in cycle.programs[SETUP]].count("aggregate") == hops
    assert not {op.key for op in cycle.programs[SETUP]} & {op.key for op in cycle.programs["evaluate"]}


@pytest.mark.parametrize("name", LINEAR)
def test_a_cache_of_features_hoists_what_an_exchange_needs(name):
    """The features travel once and are aggregated in every epoch, but where aggregated rows travel themselves."""
    case = case_of(name)
    before, cycle = case.shared(), hoist_constants(case.shared(), lambda op: op.kind == "exchange")
    exchanges = [op for op in cycle.programs[SETUP] if op.kind == "exchange"]
    assert exchanges
    assert cycle.programs[SETUP][-1] == exchanges[-1]
    level = 1 if name == "tagcn" else 0  # its second hop's rows depend on no parameter either
    assert {op.attributes["level"] for op in exchanges} == set(range(level + 1))
    last = f"A@{level}"
    for program in (before.programs["train"], cycle.programs["train"]):
        assert [op.attributes["block"] for op in program if op.kind == "aggregate"].count(last) == 1


@pytest.mark.parametrize("name", LINEAR)
def test_cells_are_what_epochs_read_of_it(name):
    """What only the setup reads ends with it."""
    cycle = case_of(name, passes=("once",)).cycle()
    read = {each for key, program in cycle.programs.items() if key != SETUP for op in program for each in op.reads}
    for op in cycle.programs[SETUP]:
        for each in op.writes:
            assert cycle.values[each].role == ("cell" if each in read else "temporary")


@pytest.mark.parametrize("name", LINEAR)
def test_nothing_is_constant_behind_dropout(name):
    """Features that are dropped anew in every epoch are aggregated anew; evaluation, which drops none, does its own."""
    model = MODELS[name].model_copy(update={"input_dropout": 0.3})
    case = Case(model, 3, ORDERS["aggregated"], passes=("once",))
    cycle = case.cycle()
    assert SETUP not in cycle.programs
    assert case.play(cycle).off(*exact(model)) < EXACT


@pytest.mark.parametrize("passes", [(), ("features",), ("once",), ("split", "once", "storage")], ids="+".join)
def test_evaluation_counts_the_same(passes):
    """However much is done before, evaluation gets what one worker gets."""
    for name in MODELS:
        run = case_of(name, passes=passes).play()
        alone = Case(MODELS[name], 1).play()
        want = alone.executor.run("evaluate")["hits"][0]
        assert all(hits.equal(want) for hits in run.executor.run("evaluate")["hits"])
        assert want[:, 1].sum() == 36
