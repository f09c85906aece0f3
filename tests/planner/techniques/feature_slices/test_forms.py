"""Columns stay columns where nothing between sums mixes them, so transposes do not grow with the depth."""

from collections import Counter
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.program.cycle import EVALUATE
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.layout import share_columns
from tests.planner.models.own_modules import MODULES
from tests.planner.models.trained_modules import by_program, by_pyg, made
from tests.planner.program.cases import NUM_CLASSES, NUM_NODES, small_graph
from tests.planner.techniques.feature_slices.propagating import (
    Attending,
    Predict,
    Simple,
    Step,
    Unalike,
    program_of,
    sliced_module,
)

EXACT = 1e-5  # aggregation weights are float32 here, and float64 in PyG
DEPTHS = [2, 5, 10]
TRAINED = {
    "residual": MODULES["residual"],
    "attending": Attending,
    "unalike": Unalike,
    "deep": lambda f, c: Predict(f, c, 5),
    "simple": lambda f, c: Simple(f, c, 3),
}


def num_transposes(cycle, program="train"):
    return Counter(op.kind for op in cycle.programs[program])["transpose"]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("model", [Predict, Simple])
def test_four_all_to_alls_whatever_the_depth(model, depth):
    """Two forward and two backward (NeutronTP, figure 8), and two where an evaluation goes forward alone."""
    cycle = sliced_module(made(lambda f, c: model(f, c, depth)))
    assert num_transposes(cycle) == 4
    assert num_transposes(cycle, EVALUATE) == 2
    assert Counter(op.kind for op in cycle.programs["train"])["aggregate"] == 2 * depth


@pytest.mark.parametrize("depth", DEPTHS)
def test_no_gradient_goes_back_to_the_features(depth):
    """Where the features are propagated first, only the way there is left."""
    cycle = sliced_module(made(lambda f, c: Simple(f, c, depth)), **{"conv/filter": "aggregate_first"})
    assert num_transposes(cycle) == 2


@pytest.mark.parametrize("depth", DEPTHS)
def test_bytes_are_rounds_of_the_formula(depth):
    """Rounds * V * D * (W - 1) / W floats, to the byte, where slices are even (NeutronTP, section 3.2)."""
    cycle = sliced_module(made(lambda f, c: Predict(f, c, depth)))
    rounds = {op.key for op in cycle.programs["train"] if op.kind == "transpose"}
    of_rounds = sum(exchanges_bytes(cycle, "train")[key].sum() for key in rounds)
    assert of_rounds == len(rounds) * NUM_NODES * NUM_CLASSES * 2 // 3 * 4
    assert len(rounds) == 4


@pytest.mark.parametrize(("name", "fewer"), {"appnp": 4, "lightgcn": 4, "gcnii": 16, "arxiv, gcn": 12}.items())
def test_what_mixes_columns_ends_a_run(name, fewer):
    """Products and norms between sums need rows; sums joined at the end do not."""
    assert num_transposes(sliced_module(made(MODULES[name]))) == fewer


def test_a_value_has_one_form_in_all_programs():
    """Also where an evaluation asks for another one."""
    cycle = sliced_module(made(Unalike))
    for program in cycle.programs.values():
        for op in program:
            forms = {cycle.values[name].columns for name in (*op.reads, *op.writes) if name in cycle.values}
            assert op.kind == "transpose" or len(forms - {None}) <= 1


@cache
def by_autograd(name):
    return by_pyg(made(TRAINED[name]), small_graph(), 3)


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", TRAINED)
def test_trains_as_pyg_does(name, num_workers):
    """Losses, parameters and what an evaluation finds right, with uneven slices."""
    got = by_program(made(TRAINED[name]), small_graph(), num_workers, "feature_slices", 3)
    assert got.off(by_autograd(name)) <= EXACT
    assert got.hits == by_autograd(name).hits


@st.composite
def programs(draw):
    """Steps that read any values made before them."""
    steps = []
    for number in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["aggregate", "add", "add", "layer_norm"]))
        reads = st.integers(max(0, number - 3), number)
        steps.append(Step(kind, tuple(draw(reads) for _ in range(2 if kind == "add" else 1))))
    return steps


def fewest_transposes(steps):
    """Of all forms that the steps may be made in; a value is transposed once where some reader has another form."""
    free = [number for number, step in enumerate(steps) if step.has_choice]
    found = []
    for chosen in product([True, False], repeat=len(free)):
        in_columns = [step.kind == "aggregate" for step in steps]
        for number, is_so in zip(free, chosen, strict=True):
            in_columns[number] = is_so
        is_made = [False, *in_columns]
        turned = {
            read for step, form in zip(steps, in_columns, strict=True) for read in step.reads if is_made[read] != form
        }
        found.append(len(turned))
    return min(found)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_no_other_forms_need_fewer_transposes(steps):
    """Against every choice of forms; values are all as wide, and none has a gradient."""
    cycle = share_columns(program_of(steps), Grid((1.0, 1.0)))
    assert num_transposes(cycle) == fewest_transposes(steps)
