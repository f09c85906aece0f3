"""Sums over local and halo rows in two, and nothing copied together."""

import pytest

from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.split import split_placed
from tests.planner.program.cases import MODELS, ORDERS, Case, codes, subset

LINEAR = ["gcn", "sage", "gin", "tagcn"]


def both(name: str, order: str, chosen=()):
    """The program before and after."""
    model = MODELS[name]
    marks = {label: subset(model, 3, 3 + label, 0.3) for label in chosen}
    before = Case(model, 3, ORDERS[order], codes(model, 3, marks)).shared()
    return before, split_placed(before)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_nobody_gathers_from_what_was_put_together(name, order):
    """Without replicas nothing is put together any more; with them what roots take out still is."""
    for chosen in ((), (Label.MADE, Label.KEPT)):
        before, after = both(name, order, chosen)
        for program in after.programs.values():
            placed = {op.writes[0] for op in program if op.kind == "place"}
            assert not any(placed & set(op.reads) for op in program if "block" in op.attributes)
            assert not placed or chosen
        assert any(op.kind == "place" for op in before.programs["train"])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LINEAR)
def test_a_sum_becomes_one_for_each_place_that_rows_come_from(name, order):
    """The remote one adds to the local one and ends under the old name; no edge is lost, and none is counted twice."""
    for chosen, words in (((), ("local", "remote")), ((Label.KEPT,), ("local", "remote", "remote2"))):
        before, after = both(name, order, chosen)
        for op in (op for op in before.programs["train"] if op.kind == "aggregate"):
            parts = [
                each
                for each in after.programs["train"]
                if each.kind == "aggregate" and each.key.startswith(f"{op.key}/")
            ]
            assert [each.key.rpartition("/")[2] for each in parts] == list(words)
            assert parts[-1].writes == op.writes
            assert [each.has_base for each in parts] == [op.has_base, *[True] * (len(words) - 1)]
            blocks = [after.blocks[each.attributes["block"]].num_edges for each in parts]
            assert tuple(map(sum, zip(*blocks))) == before.blocks[op.attributes["block"]].num_edges
            assert all(map(all, blocks)), "a part without edges"


def test_a_softmax_stays_one_over_all_parts():
    """Scores are made in parts, and their coefficients together."""
    _, after = both("gat", "mixed", (Label.KEPT,))
    program = after.programs["train"]
    softmax = [op for op in program if op.kind == "softmax"]
    assert len(softmax) == MODELS["gat"].num_layers
    for op in softmax:
        assert len(op.reads) == len(op.writes) == len(op.attributes["blocks"]) == 3
        scores = [each for each in program if each.kind == "score" and each.writes[0] in op.reads]
        assert tuple(each.attributes["block"] for each in scores) == op.attributes["blocks"]


@pytest.mark.parametrize("name", MODELS)
def test_one_worker_has_nothing_to_split(name):
    """Nor is anything split twice."""
    alone = Case(MODELS[name], 1).shared()
    assert split_placed(alone).programs == alone.programs
    _, after = both(name, "mixed")
    assert split_placed(after).programs == after.programs
