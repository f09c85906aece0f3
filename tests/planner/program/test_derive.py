"""The derivative of every kind is autograd's of its meaning, and contributions to one value add up."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import Derivation
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Block, Index, Route, Space, Value
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program.sequential.executor import Context
from gnnplan.planner.program.sequential.meanings import COLLECTIVES, MEANINGS
from tests.planner.program.cases import worst

SIZES = {
    "rows": (4, 3),
    "columns": (5, 2),
    "halo": (3, 0),
    "taken": (6, 2),
    "front": (1, 2),
    "back": (4, 0),
    "came": (6, 1),
    "all rows": (7, 7),
}


@dataclass(frozen=True)
class Variant:
    """One operator, and its reads as (space, width), with the columns of every worker where it has not all of them."""

    kind: str
    reads: tuple[tuple, ...]
    attributes: dict = field(default_factory=dict)
    comment: str = ""

    def __str__(self) -> str:
        said = [f"{key}={value}" for key, value in self.attributes.items() if key in ("relu", "base", "back") and value]
        return " ".join(filter(None, [self.kind, *said, self.comment]))


HEADS = {"heads": 2}
SLICES = ((0, 4), (4, 6))
BLOCK, WHOLE = {"block": "A", **HEADS}, {"dropout": 0.0, "layer": 1}
FUNCTIONS = [
    *((name, ()) for name in ("relu", "tanh", "sigmoid", "silu")),
    ("leaky_relu", (0.2,)),
    ("elu", (1.5, 1.1, 0.7)),
    ("gelu", ("none",)),
    ("gelu", ("tanh",)),
    ("softplus", (2.0, 1.0)),
    ("hardtanh", (-0.5, 0.7)),
]
VARIANTS = [
    Variant("multiply", (("rows", 3), ("r5", 3))),
    Variant("multiply", (("rows", 3), ("r5", 3), ("rows", 5)), {"base": True}),
    Variant("activate", (("rows", 4), ("r1", 4)), {"relu": True, **WHOLE}),
    Variant("activate", (("rows", 4), ("r1", 4)), {"relu": False, **WHOLE}),
    Variant("activate", (("rows", 4), ("r1", 4)), {"relu": True, "dropout": 0.4, "layer": 1}, "with dropout"),
    Variant("dropout", (("rows", 4),), {"probability": 0.4, "layer": 2}),
    Variant("add", (("rows", 4), ("rows", 4)), {"factors": (1, 1)}),
    Variant("add", (("rows", 4), ("rows", 4)), {"factors": (0.3, 1)}),
    Variant("scale", (("rows", 4),), {"factor": 0.3}),
    Variant("multiply", (("rows", 3), ("r3", 5)), {"back": True}),
    *(
        Variant("elementwise", (("rows", 4),), {"function": name, "arguments": arguments}, f"{name} {arguments}")
        for name, arguments in FUNCTIONS
    ),
    Variant("unstack", (("r3", 8),), {"width": 2}),
    Variant("product", (("rows", 4), ("rows", 4))),
    Variant("concat", (("rows", 4), ("rows", 2)), {"widths": (4, 2), "rows_of": 1}),
    Variant("maximum", (("rows", 4), ("rows", 4)), {"rows_of": 0}),
    Variant("layer_norm", (("rows", 4), ("r1", 4), ("r1", 4)), {"eps": 1e-5, "affine": True}),
    Variant("layer_norm", (("rows", 4),), {"eps": 1e-5, "affine": False}, "without weight"),
    Variant("moments", (("rows", 4),)),
    Variant("statistics", (("r6", 4),)),
    Variant("batch_norm", (("rows", 4), ("r2", 4), ("r1", 4), ("r1", 4)), {"eps": 3.0, "affine": True}),
    Variant("batch_norm", (("rows", 4), ("r2", 4)), {"eps": 3.0, "affine": False}, "without weight"),
    Variant("all_reduce", (("r2", 4),)),
    Variant("average_heads", (("rows", 6),), HEADS),
    Variant("dot", (("rows", 6), ("r1", 6)), HEADS),
    Variant("score", (("columns", 2), ("rows", 2)), BLOCK),
    Variant("softmax", (("edges:A", 2),), {"blocks": ("A",), **HEADS}),
    Variant("softmax", (("edges:A", 2), ("edges:B", 2)), {"blocks": ("A", "B"), **HEADS}, "over two blocks"),
    Variant("weigh", (("edges:A", 2), ("columns", 6)), BLOCK),
    Variant("weigh", (("edges:A", 2), ("columns", 6), ("rows", 6)), {**BLOCK, "base": True}),
    Variant("weigh", (("edges:A", 2), ("rows", 6)), {**BLOCK, "back": True}),
    Variant("pair_score", (("rows", 6), ("columns", 6)), {"block": "A"}),
    Variant("aggregate", (("columns", 3),), {"block": "A"}),
    Variant("aggregate", (("columns", 3), ("rows", 3)), {"block": "A", "base": True}),
    Variant("aggregate", (("rows", 3),), {"block": "A", "back": True}),
    Variant("take", (("columns", 3),), {"index": "repeated"}),
    Variant("take", (("columns", 3),), {"index": "front"}, "of consecutive rows"),
    Variant("put", (("columns", 3),), {"index": "reversed"}),
    Variant("place", (("front", 3), ("back", 3)), {"parts": ("front", "back")}),
    Variant("exchange", (("columns", 3),), {"route": "route", "label": "sent", "level": 0}),
    Variant("exchange", (("came", 3),), {"route": "route", "label": "sent", "level": 0, "back": True}),
    Variant("pack_columns", (("rows", 6),), {"columns": SLICES, **HEADS}),
    Variant("unpack_columns", (("rows", 6),), {"columns": SLICES, **HEADS}),
    Variant("transpose", (("rows", 6),), {"columns": SLICES, "route": "turned", "back": False}),
    Variant("transpose", (("all rows", 6, SLICES),), {"columns": SLICES, "route": "turned", "back": True}),
    Variant("loss", (("rows", 3), ("rows", 1)), {"index": "trained", "denominator": 5, "multilabel": False}),
    Variant(
        "loss",
        (("rows", 3), ("rows", 3)),
        {"index": "trained", "denominator": 15, "multilabel": True},
        "of independent labels",
    ),
    Variant("loss", (("edges:A", 1), ("edges:A", 1)), {"denominator": 7, "multilabel": True}, "of all rows"),
    *(
        Variant(
            "loss",
            (("rows", 3), ("rows", 3)),
            {"index": "trained", "denominator": 15, "multilabel": True, "loss": name},
            f"named {name}",
        )
        for name in ("mse", "l1")
    ),
]


def world() -> Cycle:
    """Two workers; the second has an empty halo, and vertices without edges."""
    rng = np.random.default_rng(0)
    spaces = {name: Space(name, sizes) for name, sizes in SIZES.items()}
    ids = {name: tuple(np.arange(10 * w, 10 * w + size) for w, size in enumerate(each)) for name, each in SIZES.items()}
    emitter = Emitter(Cycle(2, spaces=spaces, arrays=Arrays(ids), seed=5))
    for name, column in (("A", "columns"), ("B", "halo")):
        shapes = zip(SIZES["rows"], SIZES[column], strict=True)
        matrices = [sp.random(*shape, 0.6, "csr", np.float32, random_state=rng) for shape in shapes]
        emitter.add_block(Block(name, "rows", column, tuple(each.nnz for each in matrices)), matrices)
    emitter.add_index(Index("repeated", "columns", "taken"), [np.array([4, 0, 0, 3, 4, 4]), np.array([1, 1])])
    emitter.add_index(Index("reversed", "columns", "columns"), [np.arange(n)[::-1].copy() for n in SIZES["columns"]])
    starts = np.array(SIZES["front"])
    emitter.add_index(Index("front", "columns", "front", True), [np.arange(n) for n in starts])
    emitter.add_index(
        Index("back", "columns", "back", True), [np.arange(a, b) for a, b in zip(starts, SIZES["columns"])]
    )
    emitter.add_index(Index("trained", "rows", "trained"), [np.array([0, 2, 3]), np.array([1, 2])])
    emitter.add_route(Route("route", "columns", "came", np.array([[4, 1], [2, 0]])))
    emitter.add_route(Route("turned", "rows", "all rows", np.array([[4, 4], [3, 3]])))
    return emitter.cycle


def test_every_derivative_is_tried():
    """A kind with a derivative of its own has a variant here; those that a technique brings are tried beside it."""
    here = {name for name, kind in KINDS.items() if kind.derive and not kind.meant_in}
    assert {each.kind for each in VARIANTS} == here


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_is_autograds(variant):
    """Gradients at all reads on both workers are those that autograd finds through the meaning."""
    emitter, generator = Emitter(world()), torch.Generator().manual_seed(1)
    names = tuple(emitter.add_value(Value(f"r{i}", *read, role="parameter")) for i, read in enumerate(variant.reads))
    given = {name: values_of(emitter.cycle, name, generator) for name in names}
    if variant.kind == "loss":
        emitter.add_value(replace(emitter.cycle.values["r1"], role="input"))
        given["r1"] = [labels_like(each, variant.attributes["multilabel"], generator) for each in given["r1"]]
    writes = emitter.emit_all(variant.kind, *names, key="op", **variant.attributes)
    forward = emitter.operators[0]
    derivation, seeds = Derivation(emitter), {}
    for name in writes if variant.kind != "loss" else ():
        seed = emitter.add_value(replace(emitter.cycle.values[name], name=f"grad of {name}", role="input"))
        seeds[seed], derivation.grads[name] = values_of(emitter.cycle, seed, generator), seed
    grads = derivation.run()
    wanted = names if variant.kind != "loss" else names[:1]
    cycle = replace(emitter.cycle, results=frozenset(grads[name] for name in wanted))

    executor = SequentialExecutor(cycle, {**seeds, **given}, dict.fromkeys(names, torch.zeros(1)))
    executor.stored |= given
    results = {**seeds, **executor.play(tuple(emitter.operators))}
    want = by_autograd(cycle, forward, given, list(seeds.values()), wanted)
    for name in wanted:
        for got, right in zip(results[grads[name]], want[name], strict=True):
            assert right is not None
            assert torch.allclose(got, right, rtol=1e-12, atol=1e-14), name
        assert any(each.norm() > 0.01 for each in want[name]), "a gradient of zero tells nothing"


def values_of(cycle: Cycle, name: str, generator: torch.Generator) -> list[torch.Tensor]:
    """Random rows on every worker."""
    shapes = [(cycle.num_rows(name, w), cycle.values[name].num_columns(w)) for w in cycle.workers]
    return [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]


def labels_like(rows: torch.Tensor, multilabel: bool, generator: torch.Generator) -> torch.Tensor:
    labels = torch.randint(0, 2 if multilabel else 3, rows.shape, generator=generator)
    return labels.double() if multilabel else labels


def by_autograd(cycle, op, given, seeds, wanted):
    """Gradients of the first result alone for a loss, else of all results times their seeds."""
    context = Context(cycle, torch.float64)
    leaves = {name: [each.clone().requires_grad_(name in wanted) for each in given[name]] for name in op.reads}
    reads = [[leaves[name][worker] for name in op.reads] for worker in cycle.workers]
    if KINDS[op.kind].collective:
        written = [(each,) for each in COLLECTIVES[op.kind](context, op, [each[0] for each in reads])]
    else:
        written = []
        for context.worker in cycle.workers:
            out = MEANINGS[op.kind](context, op, *reads[context.worker])
            written.append(out if isinstance(out, tuple) else (out,))
    if op.kind == "loss":
        total = sum(each[0].sum() for each in written)
    else:
        total = sum((out * seeds[i][worker]).sum() for worker, outs in enumerate(written) for i, out in enumerate(outs))
    total.backward()
    zero = torch.zeros_like
    return {name: [each.grad if each.grad is not None else zero(each) for each in leaves[name]] for name in wanted}


def test_contributions_add_up_as_base_or_by_an_add():
    """A value that is read three times has the sum; where a kind takes a base, no `add` is needed for it."""
    emitter = Emitter(world())
    for name, rows, width in (("x", "rows", 4), ("w", "r4", 4), ("v", "r4", 4)):
        emitter.add_value(Value(name, rows, width, role="parameter"))
    first, second = (emitter.emit("multiply", "x", each, key=f"x{each}") for each in "wv")
    both = emitter.emit("add", first, second, key="both", factors=(1, 1))
    emitter.emit("add", both, "x", key="all", factors=(1, 1), writes=("out",))
    emitter.add_value(Value("seed", "rows", 4, role="input"))
    derivation = Derivation(emitter)
    derivation.grads["out"] = "seed"
    grads, generator = derivation.run(), torch.Generator().manual_seed(0)
    given = {name: values_of(emitter.cycle, name, generator) for name in ("x", "w", "v", "seed")}
    cycle = replace(emitter.cycle, results=frozenset({grads["x"]}))
    executor = SequentialExecutor(cycle, given, dict.fromkeys("xwv", torch.zeros(1)))
    executor.stored |= given
    results = executor.play(tuple(emitter.operators))
    for worker in cycle.workers:
        seed = given["seed"][worker]
        want = seed @ given["w"][worker] + seed @ given["v"][worker] + seed
        assert worst(results[grads["x"]][worker], want) < 1e-12
    backward = [op for op in emitter.operators if "backward" in op.key]
    assert not any(op.kind == "add" for op in backward)
    assert sum(op.has_base for op in backward) == 2


def test_nobody_asks_for_the_gradient_of_an_input():
    """Operators whose reads depend on no parameter have no derivative in the program."""
    emitter = Emitter(world())
    emitter.add_value(Value("x", "columns", 3, role="input"))
    emitter.add_value(Value("w", "r4", 3, role="parameter"))
    rows = emitter.emit("aggregate", "x", key="rows", block="A")
    out = emitter.emit("multiply", rows, "w", key="out")
    emitter.add_value(Value("seed", "rows", 4, role="input"))
    derivation = Derivation(emitter)
    derivation.grads[out] = "seed"
    assert derivation.run().keys() == {out, "w"}
    assert [op.kind for op in emitter.operators[2:]] == ["gram"]


def test_the_slope_at_zero_is_torchs():
    """Dropout makes whole rows zero, so scores of exactly zero do occur; there torch takes the small slope."""
    emitter = Emitter(world())
    for name, space in (("source", "columns"), ("target", "rows")):
        emitter.add_value(Value(name, space, 2, role="parameter"))
    out = emitter.emit("score", "source", "target", key="out", **BLOCK)
    emitter.add_value(Value("seed", "edges:A", 2, role="input"))
    derivation = Derivation(emitter)
    derivation.grads[out] = "seed"
    grad = derivation.run()["target"]
    edges = [torch.ones(count, 2, dtype=torch.float64) for count in emitter.cycle.blocks["A"].num_edges]
    cycle = replace(emitter.cycle, results=frozenset({grad}))
    executor = SequentialExecutor(cycle, {"seed": edges}, dict.fromkeys(["source", "target"], torch.zeros(1)))
    executor.stored |= {
        name: [torch.zeros(cycle.num_rows(name, w), 2, dtype=torch.float64) for w in cycle.workers]
        for name in ("source", "target")
    }
    matrix = cycle.arrays.matrices["A"][0]
    want = 0.2 * torch.from_numpy(np.diff(matrix.indptr)).double()[:, None].expand(-1, 2)
    assert torch.allclose(executor.play(tuple(emitter.operators))[grad][0], want)
