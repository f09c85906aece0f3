"""What is the same is computed once, and nothing else is left out."""

from collections import Counter
from dataclasses import replace

import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.merge import merge_equal
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from tests.planner.program.cases import MODELS, ORDERS, Case, codes, subset

ATTENDING = ModelSpec(kind="decoupled_gat", num_layers=2, hidden_channels=6, heads=2, num_hops=4, dropout=0.3)
FROM_PYG = 1e-5


def merged(case):
    return merge_equal(split_placed(case.shared()))


def trained(case):
    return reuse_storage(differentiate(merged(case), Optimizer("sgd", case.training.learning_rate)))


def num(cycle, kind):
    return Counter(op.kind for op in cycle.programs["train"])[kind]


def test_one_worker_computes_attention_once():
    """Of as many as the model asks for; the sums that use it stay."""
    plain, found = split_placed(Case(ATTENDING, 1).shared()), merged(Case(ATTENDING, 1))
    assert [num(plain, kind) for kind in ("score", "softmax", "weigh")] == [4, 4, 4]
    assert [num(found, kind) for kind in ("score", "softmax", "weigh")] == [1, 1, 4]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
def test_merged_attention_trains_as_pyg_does(num_workers):
    """Its gradient is the sum of what all propagations give it."""
    case = Case(ATTENDING, num_workers)
    assert num(merged(case), "softmax") == 1
    assert case.play(trained(case)).off_pyg() < FROM_PYG


@pytest.mark.parametrize("label", [Label.MADE, Label.DROPPED])
def test_other_rows_have_another_attention(label):
    """Replicas and dropped rows that differ from level to level leave every level its own."""
    table = codes(ATTENDING, 3, {label: subset(ATTENDING, 3, seed=5)})
    assert num(merged(Case(ATTENDING, 3, labels=table)), "softmax") == 4


@pytest.mark.parametrize("seed", [1, 2])
def test_replicas_of_some_levels_are_exact(seed):
    """Numbers of lower levels are brought to the rows that each level has."""
    table = codes(ATTENDING, 3, {Label.MADE: subset(ATTENDING, 3, seed)})
    case = Case(ATTENDING, 3, labels=table)
    assert case.play(trained(case)).off_pyg() < FROM_PYG


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_what_has_nothing_twice_stays(name, order):
    """Operators of models without such attention are all there."""
    case = Case(MODELS[name], 3, ORDERS[order])
    assert merged(case).programs == split_placed(case.shared()).programs


def test_draws_and_results_stay():
    """Two draws of one stream are two operators, and a result that is handed out is made."""
    cycle = merged(Case(MODELS["sage"], 1))
    (op,) = (op for op in cycle.programs["train"] if op.key == "l0/activate")
    again = replace(op, key="again", writes=("again",))
    values = {**cycle.values, "again": replace(cycle.values[op.writes[0]], name="again")}
    program = (*cycle.programs["train"], again)
    twice = replace(cycle, values=values, programs={**cycle.programs, "train": program})
    assert merge_equal(twice).programs["train"] == program
    product = next(op for op in cycle.programs["train"] if op.kind == "multiply")
    other = replace(product, key="again", writes=("again",))
    values["again"] = replace(cycle.values[product.writes[0]], name="again")
    twice = replace(cycle, values=values, programs={"train": (*cycle.programs["train"], other)})
    assert other not in merge_equal(twice).programs["train"]
    handed_out = replace(twice, results=twice.results | {"again"})
    assert other in merge_equal(handed_out).programs["train"]


def test_other_edges_are_not_the_same():
    """Where a level has another matrix, its attention is another."""
    plain, other = (split_placed(Case(ATTENDING, 1, seed=seed).shared()) for seed in (0, 1))
    matrices = {**plain.arrays.matrices, "A@2": other.arrays.matrices["A@2"]}
    changed = replace(plain, arrays=replace(plain.arrays, matrices=matrices))
    assert num(merge_equal(changed), "softmax") == num(merge_equal(plain), "softmax") + 1
