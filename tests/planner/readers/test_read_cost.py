"""Every kind has a price, and it is the profile's for the work that the operator does."""

from dataclasses import replace

import numpy as np
import pytest
from reader_cases import Case, placement_of

from gnnplan.planner.costs import ZERO, OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Block, Index, Operator, Route, Space, Value
from gnnplan.planner.readers import cost
from gnnplan.planner.readers.cost import COLLECTIVES, COSTS, exchanges_bytes, sent_bytes
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.curves import Estimate

T4 = OperatorCosts.of(catalog_profile("t4"))
OWN, HALO, HEADS, WIDTH = 100, 40, 4, 16


def dense(name, space, width, **extra):
    """A value by its name."""
    return {name: Value(name, space, width, **extra)}


VALUES = {
    **dense("x", "own", WIDTH),
    **dense("y", "own", WIDTH),
    **dense("sliced", "own", WIDTH, columns=((4, 8), (8, 16))),
    **dense("halo", "halo", WIDTH),
    **dense("both", "both", WIDTH),
    **dense("weight", "r8", WIDTH, role="parameter"),
    **dense("narrow", "own", 8),
    **dense("words", "own", 500, layout="csr", num_entries=(900, 700)),
    **dense("row", "r1", WIDTH),
    **dense("loss", "r1", 1),
    **dense("alpha", "edges:far", HEADS),
    **dense("scored", "halo", HEADS),
    **dense("marks", "own", HEADS),
    **dense("counts", "r2", 2),
}
CYCLE = Cycle(
    2,
    values=VALUES,
    spaces={
        "own": Space("own", (OWN, 2 * OWN), (OWN, 2 * OWN), 0),
        "halo": Space("halo", (HALO, HALO)),
        "both": Space("both", (OWN + HALO, 2 * OWN + HALO)),
        "train": Space("train", (30, 10)),
        "edges:far": Space("edges:far", (300, 500)),
        **{f"r{rows}": Space(f"r{rows}", (rows, rows)) for rows in (1, 2, 8)},
    },
    blocks={"far": Block("far", "own", "halo", (300, 500))},
    indexes={
        "pack": Index("pack", "own", "halo"),
        "part": Index("part", "both", "halo", is_view=True),
        "train": Index("train", "own", "train"),
    },
    routes={"route": Route("route", "halo", "halo", np.array([[0, HALO], [HALO, 0]]))},
)


def price(kind, reads, writes, worker=0, *, inplace=None, **attributes):
    """Of one operator."""
    return COSTS[kind](CYCLE, Operator("key", kind, reads, writes, attributes, inplace=inplace), worker, T4)


def test_every_kind_has_one_row():
    """In the table of what a worker does by itself or of what all do at once; what passes replace has none."""
    wanted = {name for name, kind in KINDS.items() if not kind.is_abstract}
    collective = {name for name in wanted if KINDS[name].collective}
    assert set(COSTS) == wanted - collective
    assert set(COLLECTIVES) == collective


@pytest.mark.parametrize("register", ["costs", "register_collective"])
def test_a_technique_registers_a_kind_once(register, monkeypatch):
    """Who comes second is told."""
    monkeypatch.setattr(cost, "COSTS", {})
    monkeypatch.setattr(cost, "COLLECTIVES", {})
    if register == "costs":
        put = lambda: cost.costs("toy")(lambda *_: ZERO)  # noqa: E731
    else:
        put = lambda: cost.register_collective("toy", COLLECTIVES["all_reduce"])  # noqa: E731
    put()
    assert "toy" in {**cost.COSTS, **cost.COLLECTIVES}
    with pytest.raises(AssertionError):
        put()


def test_products_are_priced_by_rows_and_widths():
    """Both ways, the weight's gradient, and of sparse rows by their entries."""
    assert price("multiply", ("x", "weight"), ("narrow",)) == T4("matmul_forward", OWN, WIDTH, 8)
    assert price("multiply", ("narrow", "weight"), ("x",), back=True) == T4("matmul_grad_input", OWN, WIDTH, 8)
    assert price("gram", ("narrow", "x"), ("weight",), 1) == T4("matmul_grad_weight", 2 * OWN, WIDTH, 8)
    assert price("multiply", ("words", "weight"), ("narrow",)) == T4.spmm_features(OWN, 900, 8)
    assert price("gram", ("narrow", "words"), ("weight",), 1) == T4.spmm_transposed(500, 700, 8, 2 * OWN)
    assert price("gram", ("words", "narrow"), ("weight",), 1) == T4.spmm_transposed(500, 700, 8, 2 * OWN)


@pytest.mark.parametrize(
    ("kind", "reads", "writes", "back"),
    [
        ("multiply", ("x", "weight"), ("narrow",), False),
        ("multiply", ("narrow", "weight"), ("x",), True),
        ("gram", ("narrow", "x"), ("weight",), False),
    ],
)
def test_products_tell_input_from_output_width(kind, reads, writes, back, monkeypatch):
    """A catalog's tables are symmetric in them, measured ones are not."""
    asked = []
    monkeypatch.setattr(OperatorCosts, "__call__", lambda _, table, *shape: asked.append(shape) or ZERO)
    price(kind, reads, writes, back=back)
    assert asked == [(OWN, WIDTH, 8)]


def test_a_slice_of_columns_is_priced_by_its_width():
    """Every worker by its own."""
    for worker, width in enumerate((4, 8)):
        rows = CYCLE.num_rows("sliced", worker)
        wanted = T4("matmul_forward", rows, width, 8)
        assert price("multiply", ("sliced", "weight"), ("narrow",), worker) == wanted


@pytest.mark.parametrize(("back", "table"), [(False, "spmm"), (True, "spmm_transposed")])
def test_sums_over_edges_know_rows_made_and_rows_gathered(back, table):
    """Which change places on the way back."""
    reads, writes = (("x",), ("halo",)) if back else (("halo",), ("x",))
    shape = (HALO, 300, WIDTH, OWN) if back else (OWN, 300, WIDTH, HALO)
    assert price("aggregate", reads, writes, block="far", back=back) == getattr(T4, table)(*shape)


@pytest.mark.parametrize("back", [False, True])
def test_sums_over_edges_know_how_many_of_the_rows_are_in_use(back, monkeypatch):
    """Of columns, and back of rows."""
    asked = []
    monkeypatch.setattr(OperatorCosts, "gathered", lambda *asked_for: asked.append(asked_for[-1]) or ZERO)
    cycle = replace(CYCLE, blocks={"far": replace(CYCLE.blocks["far"], in_use=(0.25, 0.75))})
    rows, gathered = ("halo", "x") if back else ("x", "halo")
    for kind, reads in (("aggregate", (gathered,)), ("weigh", ("alpha", gathered))):
        COSTS[kind](cycle, Operator("key", kind, reads, (rows,), {**SHAPE, "back": back}), 0, T4)
    weighed = 0.25  # by one thread, which goes from target to target there and back
    assert asked == [0.75 if back else 0.25, weighed]


@pytest.mark.parametrize(("heads", "pieces"), [(1, 0.5), (4, 2)])
def test_rows_are_cut_into_slices_by_their_pieces(heads, pieces):
    """As other rows of as long pieces; an older profile has only copies to tell from."""
    op = {"columns": ((0, 8), (8, 16)), "heads": heads}
    assert price("pack_columns", ("x",), ("y",), **op) == T4("pack_columns", OWN * pieces, WIDTH / pieces)
    tables = {name: table for name, table in T4.profile.operators.items() if name != "pack_columns"}
    older = OperatorCosts.of(T4.profile.model_copy(update={"operators": tables}))
    unpack = Operator("key", "unpack_columns", ("x",), ("y",), op)
    assert COSTS["unpack_columns"](CYCLE, unpack, 0, older) == T4.copy(OWN * WIDTH)


def test_a_base_is_copied_where_it_may_not_be_overwritten():
    """In place it costs nothing: the kernel was measured while it added."""
    alone = price("aggregate", ("halo",), ("x",), block="far").seconds
    added = price("aggregate", ("halo", "y"), ("x",), block="far", base=True).seconds
    assert added == pytest.approx(alone + T4.copy(OWN * WIDTH).seconds)
    assert price("aggregate", ("halo", "y"), ("x",), inplace=1, block="far", base=True).seconds == alone


def test_views_cost_nothing():
    """Nor do they read anything."""
    assert price("take", ("both",), ("halo",), index="part") == ZERO
    assert price("unflatten", ("row",), ("row",), like=("row",)) == ZERO


def test_rows_are_gathered_added_up_and_put_together():
    """Where nothing is there to be added to, it is cleared, which writes half of what a copy moves."""
    assert price("take", ("x",), ("halo",), index="pack") == T4("gather_rows", HALO, WIDTH)
    added = T4("scatter_add_rows", HALO, WIDTH).seconds
    assert price("scatter_add", ("halo", "y"), ("x",), inplace=1, index="pack", base=True).seconds == added
    cleared = price("scatter_add", ("halo",), ("x",), index="pack").seconds
    assert cleared == pytest.approx(added + T4.copy(OWN * WIDTH / 2).seconds)
    assert price("place", ("x", "halo"), ("both",), parts=("a", "part")) == T4.copy((OWN + HALO) * WIDTH)


def test_loss_clears_the_rows_that_it_was_not_measured_with():
    """It was measured with as many rows beside those of the loss."""
    found = price("loss", ("x", "y"), ("loss", "x"), index="train", denominator=40).seconds
    assert found == pytest.approx(T4("loss", 30, WIDTH).seconds + T4.copy((OWN - 60) * WIDTH / 2).seconds)


def test_a_step_counts_what_is_trained_and_what_belongs_to_no_operator():
    """Cells are of the same size, and in the table. A copy of the parameters and a look at them are of every epoch."""
    found = price("step", ("weight", "weight"), ("weight",), parameters=("weight",), cells=(), optimizer="adam")
    watched_s = T4.copy(8 * WIDTH).seconds + T4.copy(4 * WIDTH).seconds
    assert found.seconds == pytest.approx(
        T4("optimizer_step", 8 * WIDTH).seconds + watched_s + T4.profile.step_overhead_s
    )
    assert not found.unprofiled
    other = price("step", ("weight", "weight"), ("weight",), parameters=("weight",), cells=(), optimizer="sgd")
    assert other.unprofiled  # what was timed is Adam


@pytest.mark.parametrize(("dropout", "table"), [(0.0, "activation"), (0.5, "dropout")])
def test_activations_are_copied_first_where_they_may_not_overwrite(dropout, table):
    """They were measured in place."""
    extra = {"relu": True, "dropout": dropout, "layer": 0}
    assert price("activate", ("x", "row"), ("y",), inplace=0, **extra) == T4(f"{table}_forward", OWN * WIDTH)
    found = price("activate_grad", ("x", "y"), ("y", "row"), **extra).seconds
    assert found == pytest.approx(T4(f"{table}_backward", OWN * WIDTH).seconds + T4.copy(OWN * WIDTH).seconds)


SHAPE = {"block": "far", "heads": HEADS}


def test_scores_are_priced_by_targets_edges_and_sources():
    """There and back; a softmax reads no sources, and all its blocks' edges."""
    gathered = (OWN, 300, HEADS, HALO)
    assert price("score", ("scored", "marks"), ("alpha",), **SHAPE) == T4.gathered("edge_scores", *gathered)
    back = price("score_grad", ("alpha", "scored", "marks"), ("scored", "marks"), **SHAPE)
    assert back == T4.gathered("edge_scores_backward", *gathered)
    for kind, table in (("softmax", "edge_softmax"), ("softmax_grad", "edge_softmax_backward")):
        one = T4(table, OWN, 300 / OWN, HEADS)
        assert price(kind, ("alpha",), ("alpha",), blocks=("far",), heads=HEADS).seconds == one.seconds
        both = price(kind, ("alpha", "alpha"), ("alpha", "alpha"), blocks=("far", "far"), heads=HEADS)
        assert both.seconds == 2 * one.seconds


def test_weighted_sums_are_cleared_where_there_is_no_base():
    """Like the sums that they were measured to be added to."""
    added = price("weigh", ("alpha", "halo", "y"), ("x",), inplace=2, base=True, **SHAPE)
    assert added == T4.gathered("weigh", OWN, 300, WIDTH, HALO)
    alone = price("weigh", ("alpha", "halo"), ("x",), **SHAPE)
    assert alone.seconds == pytest.approx(added.seconds + T4.copy(OWN * WIDTH / 2).seconds)
    back = price("weigh", ("alpha", "x"), ("halo",), back=True, **SHAPE).seconds
    measured = T4.gathered("weigh_transposed", OWN, 300, WIDTH, HALO).seconds
    assert back == pytest.approx(measured + T4.copy(HALO * WIDTH / 2).seconds)
    assert price("weigh_grad", ("x", "halo"), ("alpha",), **SHAPE) == T4.gathered("edge_dots", OWN, 300, WIDTH, HALO)


@pytest.mark.parametrize(("num_threads", "shape"), [(1, (OWN, 300, WIDTH, HALO)), (2, (HALO, 300, WIDTH, OWN))])
def test_on_the_way_back_threads_go_from_source_to_source(num_threads, shape, monkeypatch):
    """One alone goes from target to target."""
    asked = []
    monkeypatch.setattr(OperatorCosts, "gathered", lambda _, table, *shape: asked.append((table, shape)) or ZERO)
    profile = T4.profile.model_copy(update={"device_kind": "cpu", "num_threads": num_threads})
    op = Operator("key", "weigh", ("alpha", "x"), ("halo",), {**SHAPE, "back": True})
    COSTS["weigh"](CYCLE, op, 0, replace(T4, profile=profile))
    assert asked == [("weigh_transposed", (*shape, 1.0))]


def test_rows_of_heads_are_priced_by_their_whole_width():
    """Products with a vector a head and their gradients; the mean over heads and its gradient."""
    assert price("dot", ("x", "row"), ("marks",), heads=HEADS) == T4("head_dots", OWN, WIDTH)
    gram = price("dot_gram", ("marks", "x", "row"), ("row",), 1, heads=HEADS)
    assert gram == T4("head_dots_to_vector", 2 * OWN, WIDTH)
    added = T4("head_dots_to_rows", OWN, WIDTH)
    assert price("dot_grad", ("marks", "row", "x"), ("y",), inplace=2, heads=HEADS, base=True) == added
    copied = price("dot_grad", ("marks", "row", "x"), ("y",), heads=HEADS, base=True)
    assert copied.seconds == pytest.approx(added.seconds + T4.copy(OWN * WIDTH).seconds)
    assert price("average_heads", ("x",), ("marks",), heads=HEADS) == T4("average_heads", OWN, WIDTH)
    assert price("spread_heads", ("marks",), ("x",), 1, heads=HEADS) == T4("spread_heads", 2 * OWN, WIDTH)


@pytest.mark.parametrize("heads", [2, 8])
def test_rows_with_other_heads_than_were_measured_are_a_guess(heads):
    """Of as wide rows; scores have heads for an axis."""
    shape = {"block": "far", "heads": heads}
    known = {
        "weigh": (("alpha", "halo"), ("x",)),
        "weigh_grad": (("x", "halo"), ("alpha",)),
        "dot": (("x", "row"), ("marks",)),
        "dot_gram": (("marks", "x", "row"), ("row",)),
        "dot_grad": (("marks", "row"), ("y",)),
        "average_heads": (("x",), ("marks",)),
    }
    for kind, (reads, writes) in known.items():
        found, wanted = price(kind, reads, writes, **shape), price(kind, reads, writes, **SHAPE)
        assert found == replace(wanted, unprofiled=True)
        assert not wanted.unprofiled
    score, wanted = (price("score", ("scored", "marks"), ("alpha",), block="far", heads=h) for h in (heads, HEADS))
    assert not score.unprofiled
    assert (score.seconds > wanted.seconds) == (heads > HEADS)


def test_exchanges_send_rows_of_the_senders_columns():
    """Four bytes a float, by slices where columns are shared out."""
    cycle = replace(CYCLE, values={**VALUES, **dense("cut", "halo", WIDTH, columns=((0, 4), (4, 16)))})
    cycle = replace(
        cycle,
        programs={
            "train": tuple(Operator(name, "exchange", (name,), (name,), {"route": "route"}) for name in ("halo", "cut"))
        },
    )
    found = exchanges_bytes(cycle, "train")
    np.testing.assert_array_equal(found["halo"], [[0, HALO * WIDTH * 4], [HALO * WIDTH * 4, 0]])
    np.testing.assert_array_equal(found["cut"], [[0, HALO * 4 * 4], [HALO * 12 * 4, 0]])
    np.testing.assert_array_equal(sent_bytes(cycle, "train"), HALO * 4 * np.array([WIDTH + 4, WIDTH + 12]))


def test_sparse_rows_travel_as_lengths_columns_and_values():
    """A sender's total is exact; receivers get it in proportion to their rows."""
    counts = np.array([[0, 3, 4], [5, 0, 0], [1, 1, 0]])
    cycle = Cycle(
        3,
        values=dense("x", "sent", 50, layout="csr", num_entries=(22, 9, 0)),
        spaces={"sent": Space("sent", (7, 5, 2))},
        routes={"route": Route("route", "sent", "got", counts)},
        programs={"setup": (Operator("x", "exchange", ("x",), ("x",), {"route": "route"}),)},
    )
    (found,) = exchanges_bytes(cycle, "setup").values()
    np.testing.assert_array_equal(found.sum(1), [22 * 8 + 7 * 8, 9 * 8 + 5 * 8, 2 * 8])
    assert not found[counts == 0].any()
    assert found[0, 1] == pytest.approx(22 * 8 * 3 / 7 + 3 * 8, abs=1)


def test_workers_without_rows_pay_nothing_for_them():
    """Nor does a division fail."""
    empty = replace(CYCLE, spaces={**CYCLE.spaces, "own": Space("own", (0, 0)), "halo": Space("halo", (0, 0))})
    empty = replace(empty, blocks={"far": Block("far", "own", "halo", (0, 0))})
    for kind, reads, writes in (("aggregate", ("halo",), ("x",)), ("weigh", ("alpha", "halo"), ("x",))):
        op = Operator("key", kind, reads, writes, {"block": "far", "heads": HEADS})
        assert COSTS[kind](empty, op, 0, T4) == Estimate(0.0, 0.0, False)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn", "gat"])
@pytest.mark.parametrize("program", ["train", "evaluate"])
def test_every_operator_of_every_model_has_a_finite_price(kind, program):
    """Alone and shared out, with and without storage that is used again."""
    for reuses_storage in (False, True):
        cycle = Case(kind, 3, "aggregate_first", dropout=0.5).cycle(split=reuses_storage, reuses_storage=reuses_storage)
        costs = next(iter(cost.costs_of(placement_of(1)).values()))
        for op in cycle.programs[program]:
            if op.kind in COSTS:
                assert all(0 <= COSTS[op.kind](cycle, op, worker, costs).seconds < 1 for worker in cycle.workers)
