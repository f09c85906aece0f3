"""Training in groups that own rows, whose members share out their columns, is training on one worker."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.program.consistency import fault_of
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.readers.shares import shares_of
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.technique import Slices
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError
from tests.planner.program.cases import EXACT, MODELS, NUM_NODES, ORDERS, Case, exact
from tests.planner.search.searched import GRAPHS, SBM, found, job_of, placement_of
from tests.planner.techniques.feature_slices.sliced import sliced

FROM_PYG, NUM_VERTICES = 1e-5, SBM.num_nodes
GRIDS = [(4, 2), (6, 2), (6, 3), (4, 4)]  # workers, groups; of the last each has one
EXTRAS = [(), ("overlap",), ("first_aggregation",), ("sparse_features", "first_aggregation", "overlap")]
DECOUPLED = {
    kind: ModelSpec(kind=kind, num_layers=2, hidden_channels=6, heads=2, num_hops=3)
    for kind in ("appnp", "sgc", "decoupled_gat")
}


def grid_of(num_workers, num_groups):
    """Of equal shares, on vertices that are drawn."""
    part = np.random.default_rng(1).integers(num_groups, size=NUM_NODES).astype(np.int32)
    return Grid((1.0,) * num_workers, Cutter(part, num_groups) if num_groups > 1 else None)


@pytest.mark.parametrize("extra", EXTRAS, ids="+".join)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_equals_one_worker_and_pyg(name, order, extra):
    """Losses, gradients and parameters, with uneven rows and slices; grids go round."""
    num_workers, num_groups = GRIDS[(list(ORDERS).index(order) + EXTRAS.index(extra)) % len(GRIDS)]
    case = Case(MODELS[name], num_workers, ORDERS[order], sparse="sparse_features" in extra)
    run = case.play(sliced(case, *extra, num_groups=num_groups))
    assert run.off(*exact(case.model)) < EXACT
    assert run.off_pyg() < FROM_PYG


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("kind", DECOUPLED)
def test_propagations_stay_in_columns(kind, grid):
    """Between two propagations rows of other groups are fetched in columns: the transposes are those of one group."""
    num_workers, num_groups = grid
    case = Case(DECOUPLED[kind], num_workers)
    cycles = [sliced(case, num_groups=count) for count in (1, num_groups)]
    counts = [Counter(op.kind for op in cycle.programs["train"]) for cycle in cycles]
    assert counts[0]["transpose"] == counts[1]["transpose"]
    assert counts[1]["exchange"] > counts[0]["exchange"]
    assert case.play(cycles[1]).off_pyg() < FROM_PYG


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_a_member_may_have_no_columns_and_no_rows(name):
    """Nor may a group have as good as nothing."""
    case = Case(MODELS[name], 4, ORDERS["aggregated"])
    cycle = sliced(case, shares=(1.0, 1e-6, 2.0, 1e-6), num_groups=2)
    assert {value.num_columns(1) for value in cycle.values.values() if value.columns} == {0}
    assert case.play(cycle).off(*exact(case.model)) < EXACT


@pytest.mark.parametrize("name", MODELS)
def test_every_group_has_its_edges(name):
    """Each edge is in one group, and with all of its members."""
    case = Case(MODELS[name], 6)
    one, several = (sliced(case, num_groups=count) for count in (1, 3))
    for block in one.blocks:
        edges = several.blocks[block].num_edges
        assert edges[0::2] == edges[1::2]
        assert sum(edges[0::2]) == one.blocks[block].num_edges[0]
    own, edges, received = zip(*shares_of(several), strict=True)
    assert sum(own) == NUM_NODES
    assert all(edges)
    assert all(received)


def test_halo_rows_are_sent_in_slices():
    """Of a row that two groups need, each member sends its columns; transposes stay within their group."""
    case = Case(ModelSpec(kind="gcn", num_layers=2, hidden_channels=6), 4, ORDERS["multiplied"])
    cycle = sliced(case, shares=(1.0,) * 4, num_groups=2)
    found = exchanges_bytes(cycle, "train")
    group, place = np.arange(4) // 2, np.arange(4) % 2
    for op in (op for op in cycle.programs["train"] if op.key in found):
        is_within, is_like = group[:, None] == group, place[:, None] == place
        assert not found[op.key][~is_within if op.kind == "transpose" else is_within | ~is_like].any()
        if op.kind == "exchange" and not op.attributes.get("back"):
            rows = cycle.routes[op.attributes["route"]].counts
            widths = np.array([cycle.values[op.reads[0]].num_columns(worker) for worker in cycle.workers])
            assert widths.sum() == 2 * cycle.values[op.reads[0]].width
            assert (found[op.key] == rows * widths[:, None] * 4).all()


def test_one_group_and_single_members_are_the_known_layouts():
    """Of one group nothing is exchanged; of one member each nothing changes its place by a transpose."""
    case = Case(MODELS["gcn"], 4)
    kinds = {count: sliced(case, num_groups=count) for count in (1, 4)}
    assert all(op.kind != "exchange" for op in kinds[1].programs["train"])
    for name, sent in exchanges_bytes(kinds[4], "train").items():
        op = next(op for op in kinds[4].programs["train"] if op.key == name)
        assert op.kind == "exchange" or not sent.any()


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_rows_and_columns_are_shared_out(grid):
    """Every vertex is owned once; every group has every column once, cut at the same places."""
    made = grid_of(*grid)
    assert sorted(np.concatenate(made.own_rows(NUM_NODES)).tolist()) == list(range(NUM_NODES))
    columns = made.columns(10, 1)
    assert columns == columns[: made.num_members] * made.num_groups
    assert sum(stop - start for start, stop in columns[: made.num_members]) == 10
    counts = made.within_groups(range(1, grid[0] + 1))
    assert (counts.diagonal() == range(1, grid[0] + 1)).all()
    assert ((counts > 0).sum(1) == made.num_members).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_keeps_it(name):
    """A document of the program gives it back, and nothing is wrong with it."""
    cycle = share_equal_arrays(sliced(Case(MODELS[name], 4), "overlap", num_groups=2))
    assert fault_of(cycle) is None
    document = CycleDocument.of(cycle)
    again = CycleDocument.model_validate_json(document.model_dump_json()).cycle()
    assert again.programs == cycle.programs


def test_rows_for_another_group_are_refused():
    """A route that takes own rows to a worker of another group is none of the operator's."""
    cycle = share_equal_arrays(sliced(Case(MODELS["gcn"], 4), num_groups=2))
    name = next(op.attributes["route"] for op in cycle.programs["train"] if op.kind == "transpose")
    counts = np.roll(cycle.routes[name].counts, 1, axis=1)
    routes = {**cycle.routes, name: replace(cycle.routes[name], counts=counts)}
    assert fault_of(replace(cycle, routes=routes)) is not None


def test_a_member_that_sends_its_neighbours_columns_is_noticed():
    """Gradients are not those of one worker where places are mixed up."""
    case = Case(MODELS["gcn"], 4, ORDERS["aggregated"])
    cycle = sliced(case, num_groups=2)

    def wrong(op):
        if op.kind != "pack_columns":
            return op
        return replace(op, kind="unpack_columns")

    assert case.play(cycle.with_programs(lambda program: tuple(map(wrong, program)))).off(*exact(case.model)) > 1e-2


@pytest.mark.parametrize(
    ("num_groups", "part", "fault"),
    [
        (2, np.arange(NUM_VERTICES) % 2, None),
        (3, np.arange(NUM_VERTICES) % 3, "num_groups is 3; it must divide 4 workers"),
        (2, np.zeros(3), f"group must be int32 [{NUM_VERTICES}], not int32 [3]"),
        (2, np.full(NUM_VERTICES, 2), "group must name groups 0 to 1"),
        (1, np.zeros(NUM_VERTICES), f"group must be int32 [0], not int32 [{NUM_VERTICES}]"),
    ],
)
def test_decisions_that_are_no_grid_are_refused(num_groups, part, fault):
    """By name, before anything is composed."""
    setting = setting_of(job_of(), placement_of("host"), GRAPHS["sbm"])
    decision = Slices(shares=(1.0,) * 4, num_groups=num_groups)
    choice = Choice("feature_slices", decision, {"group": part.astype(np.int32)})
    assert technique("feature_slices").fault(choice, setting) == fault


@pytest.mark.long
def test_a_job_may_pin_its_groups():
    """Every candidate has them; without a pin they are tried beside one group, and never worse."""
    pinned, free, one = (
        found(GRAPHS["sbm"], "host", num_workers=4, techniques={"feature_slices": True}, decisions=decisions)
        for decisions in ({"feature_slices": {"num_groups": 2}}, {}, {"feature_slices": {"num_groups": 1}})
    )
    groups = [
        {choice.decision.num_groups for each in result.looked_at if (choice := each.choice("feature_slices"))}
        for result in (pinned, free, one)
    ]
    assert groups == [{2}, {1, 2}, {1}]
    assert free.best.epoch_s <= min(pinned.best.epoch_s, one.best.epoch_s) * 1.0001
    assert pinned.bound.seconds <= pinned.best.epoch_s


def test_pinned_groups_that_do_not_divide_the_workers_are_refused():
    """With what to pin beside."""
    with pytest.raises(UserError, match="num_groups is 3, which does not divide 4 workers; pin num_workers"):
        found(GRAPHS["sbm"], "host", num_workers=4, decisions={"feature_slices": {"num_groups": 3}})


def test_groups_hold_less_of_the_graph():
    """Where all edges do not fit a worker, its group's may."""
    one, two = (
        found("skewed", "host", num_workers=4, techniques={"feature_slices": True}, decisions=decisions).best
        for decisions in ({"feature_slices": {"num_groups": count}} for count in (1, 2))
    )
    for less, more in zip(two.memory, one.memory, strict=True):
        assert less.graph_bytes < 0.8 * more.graph_bytes


def test_groups_are_no_owners():
    """What draws who owns which vertex finds nothing in a grid: a group's vertices are of several workers."""
    choice = Choice("feature_slices", Slices(num_groups=2), {"group": np.zeros(NUM_VERTICES, np.int32)})
    assert not len(Partition.of([choice]).part)
