"""Wrong lines and passes at wrong places are caught by what the other tests compare: else these would say nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import Phase, find, settings

from gnnplan.planner.program import derive, optimizer, storage
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.parts import Index, Space, Value
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program.sequential.executor import Context
from gnnplan.planner.program.sequential.meanings import MEANINGS
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.techniques.halo_exchange import layout
from gnnplan.planner.techniques.host_region import arrays
from gnnplan.planner.techniques.joint_cache import refresh
from tests.planner.program.cases import EXACT, MODELS, ORDERS, PASSES, SGD, Case, codes, subset, worst
from tests.planner.program.random_programs import played, random_cycles

CAUGHT = 1e-6


def case_of(name: str, *labels: Label, order: str = "multiplied", passes=(), interval: int = 1) -> Case:
    model = MODELS[name]
    table = codes(model, 3, {label: subset(model, 3, 30 + label, 0.4) for label in labels})
    training = SGD.model_copy(update={"epochs": 5})
    return Case(model, 3, ORDERS[order], table, passes, interval, training)


def off(case: Case, order=None) -> float:
    """The error against the oracle."""
    return case.off(case.cycle(order))


# Lines


def sends_wrong_rows(monkeypatch):
    """Packed rows are those one below."""
    senders = Cutter.senders

    def wrong(cutter, wanted):
        sent, rows, counts = senders(cutter, wanted)
        return sent, tuple(np.roll(each, 1) for each in rows), counts

    monkeypatch.setattr(Cutter, "senders", wrong)


def keeps_dropped_edges(monkeypatch):
    """An edge is dropped of which no row is."""
    monkeypatch.setattr(Cutter, "_drops", lambda self, level, worker, ids: np.zeros(len(ids), bool))


def takes_roots_from_elsewhere(monkeypatch):
    """Rows of roots and of targets are taken out in another order than theirs."""
    rows = layout._RowLayout._rows

    def rolled(self, name, target):
        got = rows(self, name, target)
        operator = next((op for op in self.emitter.operators if op.kind == "take" and op.writes[0] == got), None)
        if operator:
            index, arrays = self.emitter.cycle.indexes[operator.attributes["index"]], self.emitter.cycle.arrays
            self.emitter.add_index(
                replace(index, is_view=False), [np.roll(each, 1) for each in arrays.rows[index.name]]
            )
        return got

    monkeypatch.setattr(layout._RowLayout, "_rows", rolled)


def forgets_to_reduce(monkeypatch):
    """Every worker steps along its own gradient."""
    monkeypatch.setitem(
        MEANINGS, "flatten", lambda c, op, *parts: torch.cat([p.reshape(1, -1) for p in parts], 1) * (c.worker == 0)
    )


def returns_no_gradient(monkeypatch):
    """Gradients of halo rows stay where they are."""
    monkeypatch.setitem(derive.KINDS, "exchange", replace(KINDS["exchange"], derive=None))


def overwrites_contributions(monkeypatch):
    """A value that is read twice has the gradient of one reader."""

    def add(self, name, contribution):
        if name in self._wanted:
            self.grads[name] = contribution()

    monkeypatch.setattr(derive.Derivation, "add", add)


def forgets_bases(monkeypatch):
    """What was added to a sum has no gradient."""
    monkeypatch.setattr(derive.Derivation, "pass_base", lambda *_: None)


def keeps_rows_alone(monkeypatch):
    """Gradients are returned in every epoch, though rows are kept."""
    brings = refresh.brings
    monkeypatch.setattr(refresh, "brings", lambda op, label: brings(op, label) and not op.attributes.get("back"))


def finds_wrong_rows(monkeypatch):
    """Rows of a region are those one below."""
    positions = arrays.positions
    monkeypatch.setattr(arrays, "positions", lambda ids, wanted: np.roll(positions(ids, wanted), 1))


def shares_without_keeping(monkeypatch):
    """Rows of regions are as fresh as those that are sent."""
    monkeypatch.setattr(refresh, "KEEPING", (Label.KEPT,))


def steps_twice_as_far(monkeypatch):
    """The summed gradients are taken for a mean of two."""
    add_step = optimizer.add_step
    doubled = lambda e, p, g, o: add_step(e, p, g, replace(o, learning_rate=2 * o.learning_rate))  # noqa: E731
    monkeypatch.setattr(derive, "add_step", doubled)


def drops_by_local_row(monkeypatch):
    """Dropout goes by where a vertex stands, not by which it is."""
    monkeypatch.setattr(Context, "ids", lambda self, space: np.arange(self.num_rows(space)))


def softmax_in_parts(monkeypatch):
    """Coefficients are normalized over local and over halo edges apart."""
    whole = MEANINGS["softmax"]

    def apart(c, op, *scores):
        attributes = [{**op.attributes, "blocks": (block,)} for block in op.attributes["blocks"]]
        return tuple(whole(c, replace(op, attributes=each), score)[0] for each, score in zip(attributes, scores))

    monkeypatch.setitem(MEANINGS, "softmax", apart)


LINES = [
    (sends_wrong_rows, case_of("gcn")),
    (keeps_dropped_edges, case_of("gcn", Label.DROPPED)),
    (keeps_dropped_edges, case_of("gat", Label.DROPPED)),
    (takes_roots_from_elsewhere, case_of("sage", Label.MADE)),
    (takes_roots_from_elsewhere, case_of("gat", Label.MADE)),
    (forgets_to_reduce, case_of("gcn")),
    (returns_no_gradient, case_of("gcn")),
    (returns_no_gradient, case_of("gat")),
    (overwrites_contributions, case_of("sage")),
    (overwrites_contributions, case_of("gat")),
    (forgets_bases, case_of("gcn", passes=("split",))),
    (keeps_rows_alone, case_of("gcn", Label.KEPT, interval=3)),
    (keeps_rows_alone, case_of("gat", Label.KEPT, interval=3)),
    (finds_wrong_rows, case_of("gcn", Label.SHARED, passes=("regions",))),
    (finds_wrong_rows, case_of("gat", Label.SHARED, passes=("regions",), interval=3)),
    (shares_without_keeping, case_of("gcn", Label.SHARED, passes=("regions",), interval=3)),
    (steps_twice_as_far, case_of("gcn")),
    (drops_by_local_row, case_of("sage")),
    (softmax_in_parts, case_of("gat", passes=("split",))),
]


@pytest.mark.long
@pytest.mark.parametrize(("mutate", "case"), LINES, ids=[f"{each.__name__}-{case.model.kind}" for each, case in LINES])
def test_a_wrong_line_is_caught(mutate, case, monkeypatch):
    """Its training is far from the oracle's; the right one is near."""
    assert off(case) < EXACT
    mutate(monkeypatch)
    assert off(case) > CAUGHT


# Orders of passes

RIGHT = ("split", "derive", "refresh", "storage")
KEPT = case_of("sage", Label.KEPT, order="aggregated", interval=3)


def test_the_right_order_is_right():
    """Also with everything on."""
    assert off(KEPT, RIGHT) < EXACT
    assert off(replace(KEPT, passes=PASSES)) < EXACT


def test_refreshing_before_the_derivation_is_caught():
    """Rows would be kept, and gradients not: it runs without complaint."""
    assert off(KEPT, ("split", "refresh", "derive", "storage")) > CAUGHT


def test_regions_before_the_refresh_are_caught():
    """Writers would put fresh rows of their own beside old ones of others in every epoch."""
    case = case_of("gcn", Label.SHARED, passes=("regions",), interval=3)
    assert off(case, ("split", "derive", "refresh", "regions", "storage")) < EXACT
    assert off(case, ("split", "derive", "regions", "refresh", "storage")) > CAUGHT


def residual() -> Cycle:
    """h + h W for an h that depends on a parameter: the sum may be written over h, which the backward half reads."""
    emitter = Emitter(Cycle(1, arrays=Arrays(), parameters={}))
    emitter.add_space(Space("v@0", (4,), (4,), 0), [np.arange(4)])
    emitter.add_index(Index("train", "v@0", "v@0"), [np.arange(4)])
    emitter.add_value(Value("x", "v@0", 3, role="input"))
    emitter.add_value(Value("y", "v@0", 1, role="input", dtype="int64"))
    for name in ("first", "second"):
        emitter.add_parameter(name, 3, 3)
    h = emitter.emit("multiply", "x", "first", key="h")
    z = emitter.emit("multiply", h, "second", key="z")
    out = emitter.emit("add", h, z, key="out", factors=(1, 1))
    emitter.emit_all("loss", out, "y", key="loss", index="train", denominator=4, multilabel=False)
    emitter.end("train")
    return replace(emitter.cycle, order=("train",), results=frozenset({"loss"}))


def stepped(cycle: Cycle) -> torch.Tensor:
    """Its second parameter after a step."""
    generator = torch.Generator().manual_seed(0)
    x, first, second = (torch.randn(rows, 3, generator=generator).double() for rows in (4, 3, 3))
    inputs = {"x": [x], "y": [torch.tensor([[0], [1], [2], [0]])]}
    executor = SequentialExecutor(cycle, inputs, {"first": first, "second": second})
    executor.run("train")
    return executor.stored["second"][0]


def test_reusing_storage_before_the_derivation_is_caught():
    """The backward half reads what was written over. (The five models have no residuals, and nothing to lose.)"""
    right = differentiate(residual(), Optimizer("sgd", 0.5))
    wrong = differentiate(reuse_storage(residual()), Optimizer("sgd", 0.5))
    assert [op.inplace for op in wrong.programs["train"] if op.key == "out"] == [0]
    assert worst(stepped(reuse_storage(right)), stepped(right)) == 0
    assert worst(stepped(wrong), stepped(right)) > CAUGHT


# Storage, by random programs


def reuses_while_read(monkeypatch):
    """Storage is taken from under those that read it later."""
    may = storage._Storage._may_overwrite

    def eager(self, number, op, read):
        last, self._last = self._last, dict.fromkeys(self._last, number)
        found, self._last = may(self, number, op, read), last
        return found

    monkeypatch.setattr(storage._Storage, "_may_overwrite", eager)


def forgets_views(monkeypatch):
    """A view is taken for a copy."""
    monkeypatch.setattr(storage, "views", lambda cycle, op: False)


@pytest.mark.parametrize("mutate", [reuses_while_read, forgets_views])
def test_wrong_storage_is_caught_by_random_programs(mutate, monkeypatch):
    """Hypothesis finds a program that it changes."""

    def changes(cycle: Cycle) -> bool:
        want, got = played(cycle), played(reuse_storage(cycle))
        return not all(want[name].equal(got[name]) for name in want)

    mutate(monkeypatch)
    quick = settings(max_examples=300, derandomize=True, phases=[Phase.generate], database=None)
    assert find(random_cycles(), changes, settings=quick)
