"""Every kind has a meaning, and its shapes are what its meaning makes."""

import pytest
import torch

from gnnplan.planner.program.kinds import KINDS, Need
from gnnplan.planner.program.kinds.kind import Kind, register
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.sequential import executor
from gnnplan.planner.program.sequential.meanings import COLLECTIVES, MEANINGS, meaning_of
from tests.planner.program.cases import MODELS, ORDERS, PASSES, Case, codes, subset


def test_every_kind_has_one_meaning():
    """A kind that is no pass's to replace means something, on one worker or for all at once."""
    for name, kind in KINDS.items():
        if kind.meant_in:  # a technique's own: its module is imported now
            meaning_of(name)
    concrete = {name for name, kind in KINDS.items() if not kind.is_abstract and not kind.streamed}
    assert MEANINGS.keys() | COLLECTIVES.keys() == concrete
    assert COLLECTIVES.keys() == {name for name in concrete if KINDS[name].collective}
    assert not MEANINGS.keys() & COLLECTIVES.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_row_of_the_table_is_whole(name):
    """Each kind says what it means and needs, and no two flags of it contradict each other."""
    kind = KINDS[name]
    assert kind.name == name
    assert kind.meaning
    assert kind.needs
    assert not (kind.collective and kind.varies)
    assert not (kind.is_abstract and kind.derive)
    if kind.by_row:
        assert set(kind.needs) <= {Need.ROW, Need.WHOLE}


def test_the_last_need_repeats():
    """Kinds that read any number of values say once what the last ones are for."""
    assert [KINDS["multiply"].need(i) for i in range(3)] == [Need.ROW, Need.WHOLE, Need.ROW]
    assert KINDS["softmax"].need(7) is Need.EDGE


def test_a_name_stands_in_the_table_once():
    """Two techniques cannot register one name."""
    with pytest.raises(AssertionError, match="multiply"):
        register(Kind("multiply", "another", (Need.ROW,), KINDS["multiply"].shape))


@pytest.mark.long
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_shapes_are_what_meanings_make(name, sparse, monkeypatch):
    """Every value of every program has the rows, columns and layout that its kind says; the passes meet every kind."""
    model, met = MODELS[name], set()
    put = executor._Live.put

    def checked(self, op, written):
        met.add(op.kind)
        for each in op.writes:
            value = self._cycle.values[each]
            for worker, tensors in enumerate(written):
                tensor = tensors[op.writes.index(each)]
                assert tensor.shape == (self._cycle.num_rows(each, worker), value.num_columns(worker)), op.key
                assert (tensor.layout == torch.sparse_csr) == (value.layout == "csr"), op.key
        put(self, op, written)

    monkeypatch.setattr(executor._Live, "put", checked)
    chosen = {Label.MADE: subset(model, 3, 1), Label.KEPT: subset(model, 3, 2)}
    for order in ("multiplied", "aggregated") if not sparse else ("multiplied",):
        for passes in ((), PASSES):
            case = Case(model, 3, ORDERS[order], codes(model, 3, chosen), passes, interval=2, sparse=sparse)
            case.play(epochs=2).executor.run("evaluate")
    assert met >= {
        "multiply",
        "gram",
        "exchange",
        "place" if not sparse else "take",
        "all_reduce",
        "step",
        "loss",
        "hits",
    }
