"""A shared-out program has the rows that every operator needs, and nothing else travels."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.kinds import KINDS, Need
from gnnplan.planner.program.labels import Label
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from tests.planner.program.cases import (
    EXACT,
    MODELS,
    NUM_NODES,
    ORDERS,
    Case,
    Run,
    codes,
    exact,
    small_graph,
    subset,
    watched,
)

CHOSEN = [each for size in range(4) for each in itertools.combinations((Label.MADE, Label.DROPPED, Label.KEPT), size)]


def shared(name: str, order: str, chosen, num_workers: int = 3):
    model = MODELS[name]
    marks = {label: subset(model, num_workers, 20 + label, 0.35) for label in chosen}
    return Case(model, num_workers, ORDERS[order], codes(model, num_workers, marks)).shared()


@pytest.mark.parametrize("chosen", CHOSEN, ids=lambda each: "+".join(label.name for label in each) or "sent")
@pytest.mark.parametrize("name", MODELS)
def test_every_need_is_met(name, chosen):
    """Row by row: what an operator reads stands on the vertices that its kind asks for."""
    for order in ORDERS:
        cycle = shared(name, order, chosen)
        for program in cycle.programs.values():
            for op in program:
                for i in range(len(op.reads)):
                    assert_met(cycle, op, i)


def assert_met(cycle, op, i):
    if op.kind in ("take", "place", "exchange"):
        return
    need, space = KINDS[op.kind].need(i), cycle.values[op.reads[i]].space
    ids = cycle.arrays.ids.get(space)
    if need is Need.COLUMN:
        assert space == cycle.blocks[op.attributes["block"]].column
        return
    wanted = {Need.ROW: cycle.values[op.writes[0]].space}.get(need, space)
    if need is Need.BLOCK_ROW:
        wanted = cycle.blocks[op.attributes["block"]].row
    if ids is not None and wanted in cycle.arrays.ids:
        assert all(map(np.array_equal, ids, cycle.arrays.ids[wanted])), op.key
    if need is Need.OWN and ids is not None:
        assert sorted(np.concatenate(ids)) == list(range(NUM_NODES)), op.key


@pytest.mark.parametrize("chosen", CHOSEN, ids=lambda each: "+".join(label.name for label in each) or "sent")
@pytest.mark.parametrize("name", MODELS)
def test_senders_send_what_receivers_get(name, chosen):
    """Along every route, only rows of the sender's own, and no value's row twice to one worker."""
    cycle = shared(name, "mixed", chosen)
    for program in cycle.programs.values():
        seen: Counter = Counter()
        for op in (op for op in program if op.kind == "exchange"):
            route = cycle.routes[op.attributes["route"]]
            sent, received = cycle.arrays.ids[route.source], cycle.arrays.ids[route.target]
            assert (
                [len(each) for each in sent] == route.counts.sum(1).tolist() == list(cycle.spaces[route.source].sizes)
            )
            assert [len(each) for each in received] == route.counts.sum(0).tolist()
            value = op.reads[0].partition("/pack")[0].removesuffix("/kept")
            for q in cycle.workers:
                parts = [np.split(sent[p], np.cumsum(route.counts[p])[:-1])[q] for p in cycle.workers]
                assert np.array_equal(np.concatenate(parts), received[q])
                seen.update((value, q, vertex) for vertex in received[q])
        assert seen
        assert max(seen.values()) == 1


@pytest.mark.parametrize("name", MODELS)
def test_one_worker_keeps_its_program(name):
    """There is nothing to fetch."""
    cycle = Case(MODELS[name], 1, ORDERS["mixed"]).forward()
    assert share_rows(cycle, Cutter(np.zeros(NUM_NODES, np.int64), 1)).programs == cycle.programs


@pytest.mark.parametrize("name", MODELS)
def test_who_makes_everything_asks_for_nothing(name):
    """With every row of every level made, no exchange is left; with those above the features made, the features'."""
    model = MODELS[name]
    for lowest in (0, 1):
        table = codes(model, 2, {})
        table[lowest:] = Label.MADE
        case = Case(model, 2, ORDERS["aggregated"], table, ("split", "storage"))
        levels = {op.attributes["level"] for op in case.shared().programs["train"] if op.kind == "exchange"}
        assert levels == set(range(lowest))
        assert case.play().off(*exact(model)) < EXACT


@pytest.mark.parametrize("name", ["sage", "gat"])
def test_dropout_does_not_depend_on_the_partition(name):
    """The same elements are dropped whoever owns them, also where they are made again."""
    model, finals = MODELS[name], []
    for num_workers, seed in ((1, 0), (2, 1), (3, 2), (4, 3)):
        owners = tuple(np.random.default_rng(seed).integers(0, num_workers, NUM_NODES).tolist())
        table = codes(model, num_workers, {Label.MADE: subset(model, num_workers, seed)})
        finals.append(Case(model, num_workers, (), table, owners=owners).play())
    assert all(run.off(*exact(model)) < EXACT for run in finals)
    without = exact(model.model_copy(update={"dropout": 0.0}))
    assert all(run.off(*without) > 1e-3 for run in finals)


def test_dropout_is_drawn_anew_in_every_epoch():
    """And from the training's seed."""
    case = Case(MODELS["sage"], 2)
    losses = []
    for first, seed in ((0, 3), (1, 3), (0, 4)):
        run = Run(case, replace(watched(case.cycle()), seed=seed))
        run.train([first])
        losses += run.losses
    assert len(set(losses)) == 3


@pytest.mark.parametrize("name", MODELS)
def test_masks_and_labels_are_shared_out_with_their_vertices(name):
    """Every training vertex counts once, whoever makes it too."""
    cycle = shared(name, "mixed", (Label.MADE,), 4)
    graph = small_graph()
    for index, mask in (("train", graph.train_mask), ("val", graph.val_mask), ("test", graph.test_mask)):
        source = cycle.indexes[index].source
        ids = [each[rows] for each, rows in zip(cycle.arrays.ids[source], cycle.arrays.rows[index], strict=True)]
        assert sorted(np.concatenate(ids)) == np.flatnonzero(mask).tolist()
