"""The five questions are answered as they are asked, and a decision is exact and stays what it is."""

from dataclasses import FrozenInstanceError
from inspect import signature

import numpy as np
import pytest

from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.base import Decided, Strategy
from gnnplan.planner.strategies.halo_exchange import HaloExchangeStrategy

QUESTIONS = ["applicable", "decide", "memory", "lower", "bound"]
DECISION = FullBatchDecision(
    partitioner="ranges", target_weights=(1.0,), layers=(LayerDecision(op_order="multiply_first"),)
)


def test_there_are_five_questions():
    """In the order in which they are asked."""
    assert [name for name in vars(Strategy) if not name.startswith("_")] == QUESTIONS


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_technique_answers_with_what_it_is_asked_for(question):
    """Same arguments, same defaults, same kind of answer."""
    assert signature(getattr(HaloExchangeStrategy, question)) == signature(getattr(Strategy, question))


def test_nothing_is_replicated_unless_decided():
    """All halo rows are communicated."""
    assert Decided(DECISION, np.zeros(3, np.int32), ()).replicated is None


def test_what_is_decided_stays():
    """A plan is computed from it again and again."""
    decided = Decided(DECISION, np.zeros(3, np.int32), ())
    with pytest.raises(FrozenInstanceError, match="part"):
        decided.part = np.ones(3, np.int32)
