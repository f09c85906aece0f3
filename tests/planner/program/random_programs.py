"""Random programs of one worker over a few inputs, with views, sums into what is there, cells and results."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import strategies as st

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Block, Index, Space, Value
from gnnplan.planner.program.sequential import SequentialExecutor

ROWS, WIDTH = 4, 3


def operator(draw, emitter: Emitter, reads: list[str], key: str) -> str:
    """Any operator whose result has as many rows and columns as its reads."""
    kind = draw(st.sampled_from(["add", "add", "scale", "aggregate", "aggregate onto", "view", "take"]))
    first, second = (draw(st.sampled_from(reads)) for _ in range(2))
    if kind == "add":
        return emitter.emit("add", first, second, key=key, factors=(1, draw(st.sampled_from([1, 0.5]))))
    if kind == "scale":
        return emitter.emit("scale", first, key=key, factor=-0.5)
    if kind == "aggregate":
        return emitter.emit("aggregate", first, key=key, block="A")
    if kind == "aggregate onto":
        return emitter.emit("aggregate", first, second, key=key, block="A", base=True)
    return emitter.emit("take", first, key=key, index="whole" if kind == "view" else "turned")


@st.composite
def random_cycles(draw):
    """A cycle with one program, some of whose values are results and some cells."""
    names = ("rows",)
    emitter = Emitter(Cycle(1, spaces={name: Space(name, (ROWS,)) for name in names}, arrays=Arrays()))
    matrix = sp.csr_matrix(np.array([[0, 1, 0, 2], [1, 0, 0, 0], [0, 0, 0, 0], [0.5, 1, 0, 1]], np.float32))
    emitter.add_block(Block("A", "rows", "rows", (matrix.nnz,)), [matrix])
    emitter.add_index(Index("whole", "rows", "rows", True), [np.arange(ROWS)])
    emitter.add_index(Index("turned", "rows", "rows"), [np.arange(ROWS)[::-1].copy()])
    reads = [emitter.add_value(Value(name, "rows", WIDTH, role="input")) for name in ("x", "y")]
    for number in range(draw(st.integers(1, 14))):
        reads.append(operator(draw, emitter, reads, f"v{number}"))
    emitter.end("train")
    written = st.sampled_from(reads[2:])
    cells = draw(st.sets(written, max_size=1))
    values = {
        name: replace(each, role="cell") if name in cells else each for name, each in emitter.cycle.values.items()
    }
    return replace(
        emitter.cycle, values=values, order=("train",), results=frozenset(draw(st.sets(written, min_size=1)))
    )


def played(cycle: Cycle, order=None) -> dict[str, torch.Tensor]:
    """Its results, and its inputs and cells after it."""
    generator = torch.Generator().manual_seed(0)
    inputs = {name: [torch.randn(ROWS, WIDTH, dtype=torch.float64, generator=generator)] for name in ("x", "y")}
    executor = SequentialExecutor(cycle, inputs, {})
    results = executor.play(cycle.programs["train"], 0, order)
    return {name: each[0].clone() for name, each in {**executor.stored, **results}.items()}
