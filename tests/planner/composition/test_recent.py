"""Cycles on the way are made once, and are those of a composition that knows nothing."""

import numpy as np
import pytest

from gnnplan.planner.composition import recent
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.composition.recent import Recent
from gnnplan.planner.program.cuts import cut_out
from gnnplan.planner.program.cycle import Cycle
from tests.planner.composition.chosen import OPTIMIZER, forward_of, situation_of
from tests.planner.composition.test_composed_pairs import PAIRS


def test_the_last_ones_are_kept(monkeypatch):
    """By when they were asked for."""
    monkeypatch.setattr(recent, "_MOST", 2)
    kept, made = Recent(), []

    def of(key):
        return kept.of(key, lambda: made.append(key) or Cycle(1))

    first = of("a")
    of("b")
    assert of("a") is first
    of("c")
    assert of("a") is first
    of("b")
    assert made == ["a", "b", "c", "b"]


@pytest.mark.long
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_a_search_composes_what_stands_alone(model):
    """Pairs of techniques one after the other, with what was made for those before, and each from the beginning."""
    pairs = [each for each in PAIRS if each.model == model]
    forward, choices = forward_of(pairs[0].case), [each.choices() for each in pairs]
    together = situation_of(pairs[0].case)
    for chosen in choices:
        ours = compose(forward, chosen, together, OPTIMIZER)
        alone = compose(forward, chosen, situation_of(pairs[0].case), OPTIMIZER)
        for part in ("programs", "order", "values", "spaces", "results", "blocks", "indexes"):
            assert getattr(ours, part) == getattr(alone, part)
        for name in ("ids", "matrices", "rows"):
            ours_, theirs = (getattr(each.arrays, name) for each in (ours, alone))
            assert ours_.keys() == theirs.keys()
            assert all(map(are_equal, ours_.values(), theirs.values()))


def are_equal(ours, theirs):
    """Arrays of all workers, dense, sparse, or still to be cut out."""
    return all(np.array_equal(*map(elements, pair)) for pair in zip(ours, theirs, strict=True))


def elements(array):
    """Dense ones."""
    return array if isinstance(array, np.ndarray) else cut_out(array).toarray()
