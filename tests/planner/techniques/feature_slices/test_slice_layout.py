"""Training in slices of columns is training on one worker, and what travels is what the papers say."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.techniques.feature_slices.slices import contiguous
from tests.planner.program.cases import EXACT, FIRST, LAST, MODELS, NUM_NODES, ORDERS, Case, exact
from tests.planner.techniques.feature_slices.sliced import sliced

FROM_PYG = 1e-5
EXTRAS = [
    (),
    ("overlap",),
    ("first_aggregation",),
    ("sparse_features",),
    ("sparse_features", "first_aggregation", "overlap"),
]


@pytest.mark.parametrize("extra", EXTRAS, ids="+".join)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_equals_one_worker_and_pyg(name, order, extra):
    """Losses, gradients and parameters, with uneven slices; workers go round."""
    num_workers = 2 + (list(ORDERS).index(order) + EXTRAS.index(extra)) % 3
    case = Case(MODELS[name], num_workers, ORDERS[order], sparse="sparse_features" in extra)
    run = case.play(sliced(case, *extra))
    assert run.off(*exact(case.model)) < EXACT
    assert run.off_pyg() < FROM_PYG


@pytest.mark.parametrize("name", MODELS)
def test_workers_may_have_no_columns_and_no_rows(name):
    """The second worker has nothing but the edges."""
    case = Case(MODELS[name], 3, ORDERS["aggregated"])
    cycle = sliced(case, shares=(1.0, 1e-6, 2.0))
    assert {value.num_columns(1) for value in cycle.values.values() if value.columns} == {0}
    assert {space.num_own[1] for space in cycle.spaces.values() if space.is_of_vertices} == {0}
    assert case.play(cycle).off(*exact(case.model)) < EXACT


def transposes(num_layers, orders, *extra):
    case = Case(ModelSpec(kind="gcn", num_layers=num_layers, hidden_channels=6), 3, orders)
    return Counter(op.kind for op in sliced(case, *extra).programs["train"])["transpose"]


@pytest.mark.parametrize("num_layers", [2, 3, 5])
def test_the_number_of_all_to_alls(num_layers):
    """4 L - 2 where the first layer aggregates first, and 4 L - 4 where it does so once (NeutronTP, figure 8)."""
    for rest in (FIRST, LAST):
        orders = (FIRST, *(rest,) * (num_layers - 1))
        assert transposes(num_layers, orders) == 4 * num_layers - 2
        assert transposes(num_layers, orders, "first_aggregation") == 4 * num_layers - 4
    assert transposes(num_layers, (LAST,) * num_layers) == 4 * num_layers


def test_bytes_are_those_of_the_formula():
    """V * D * (W - 1) / W floats a transpose, where rows and columns are shared out evenly."""
    case = Case(ModelSpec(kind="gcn", num_layers=3, hidden_channels=6), 3, ORDERS["aggregated"])
    cycle = sliced(case, "first_aggregation", shares=(1.0, 1.0, 1.0))
    moved = [op for op in cycle.programs["train"] if op.kind == "transpose"]
    found = exchanges_bytes(cycle, "train")
    assert len(moved) == 8
    for op in moved:
        assert cycle.values[op.writes[0]].width == 6
        assert found[op.key].sum() == 4 * NUM_NODES * 6 * 2 // 3
        assert not found[op.key].diagonal().any()


def test_every_worker_has_all_edges():
    """One matrix for all of them and all levels, which is stored and held once."""
    cycle = share_equal_arrays(sliced(Case(MODELS["gcn"], 3)))
    matrices = [each for of_block in cycle.arrays.matrices.values() for each in of_block]
    assert len(matrices) == 9
    assert len({id(each) for each in matrices}) == 1
    assert {block.content for block in cycle.blocks.values()} == {"A@0"}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_keeps_it(name):
    """A document of the program gives it back."""
    cycle = share_equal_arrays(sliced(Case(MODELS[name], 3), "overlap"))
    document = CycleDocument.of(cycle)
    again = CycleDocument.model_validate_json(document.model_dump_json()).cycle()
    assert again.programs == cycle.programs


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("columns", [[0, 2], [2, 4], [4, 5]], None),
        ("columns", [[0, 3], [2, 4], [4, 6]], "attributes are not those of kind"),
        ("columns", [[0, 2], [2, 6]], "attributes are not those of kind"),
        ("heads", 0, "attributes are not those of kind"),
    ],
)
def test_slices_that_are_none_are_refused(field, value, fault):
    """A document whose slices overlap, or leave columns or workers out, is none."""
    cycle = share_equal_arrays(sliced(Case(MODELS["gcn"], 3), shares=(1.0, 1.0, 1.0)))
    document = CycleDocument.of(cycle).model_dump(mode="json")
    op = next(op for op in document["programs"]["train"] if op["kind"] == "pack_columns")
    op["attributes"][field] = value
    with pytest.raises(ValueError, match=fault or "columns"):
        CycleDocument.model_validate(document)


def test_columns_in_a_wrong_order_are_noticed():
    """Packed by the slices of other workers, gradients are not those of one worker."""
    case = Case(MODELS["gcn"], 3, ORDERS["aggregated"])
    cycle = sliced(case)

    def wrong(op):
        return replace(op, kind="pack_columns") if op.kind == "unpack_columns" else op

    assert case.play(cycle.with_programs(lambda program: tuple(map(wrong, program)))).off(*exact(case.model)) > 1e-2


@given(
    st.integers(0, 60),
    st.lists(st.floats(0.01, 10), min_size=1, max_size=6),
    st.sampled_from([1, 2, 4]),
)
def test_slices_follow_one_another(count, shares, step):
    """All of them together are everything, whole heads' channels each, and none is a column off its share by one."""
    bounds = contiguous(count * step, shares, step)
    assert [start for start, _ in bounds] == [0, *(stop for _, stop in bounds[:-1])]
    assert bounds[-1][1] == count * step
    until = np.cumsum(shares) / np.sum(shares) * count * step
    assert all(
        stop % step == 0 and abs(stop - at) <= step / 2 + 1e-9 for (_, stop), at in zip(bounds, until, strict=True)
    )
