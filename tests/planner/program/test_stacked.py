"""Weights in one parameter are taken apart and put together again."""

from dataclasses import replace

import torch

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.sequential import SequentialExecutor


def cycle() -> Cycle:
    """Three weights [2, 4] apart, and together again."""
    emitter = Emitter(Cycle(1))
    emitter.begin()
    weight = emitter.add_parameter("weight", 3, 2, 4)
    parts = emitter.emit_all("unstack", weight, key="apart", width=2)
    emitter.emit("stack", *parts[::-1], key="together")
    emitter.end("train")
    return replace(emitter.cycle, results=frozenset({"together"}))


def test_each_is_a_row():
    """In the order in which they are put."""
    made, stacked = cycle(), torch.arange(24.0).view(3, 8)
    assert [made.values[name].width for name in ("apart", "apart#1", "apart#2")] == [4, 4, 4]
    assert made.spaces[made.values["apart"].space].sizes == (2,)
    assert made.values["together"].width == 8
    (played,) = SequentialExecutor(made, {}, {"weight": stacked}).run("train", 0)["together"]
    assert torch.equal(played.float(), stacked.flip(0))
