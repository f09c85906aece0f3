"""Layers of somebody's own in the words of a forward program: one operator, which runs their code."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch_geometric.nn import GCN2Conv, MessagePassing

from gnnplan.planner.models.known_layers import LAYERS, NotSupportedError
from gnnplan.planner.models.known_modules import EDGES, OnEdges, Rows
from gnnplan.planner.models.relational_layers import RELATIONAL
from gnnplan.planner.models.sample_layer import Shapes, sample_layer
from gnnplan.planner.models.vocabulary import Writer
from gnnplan.planner.program.parts import ON_BLOCK, Value

_GIVEN = "it must be given rows of the vertices, edge_index, features of edges, and constants"
_WIDTHS = "it is given rows of two layers that differ in width; put a Linear before, so that they are as wide"


def write_layer(
    w: Writer, layer: nn.Module, path: str, args: list[Any], kwargs: dict[str, Any]
) -> Rows | tuple[Rows, OnEdges]:
    """Writes a layer as it is called; returns the rows that it makes, and what it makes on edges beside them.

    Raises:
        NotSupportedError: it is given something else, or cannot be shared out by rows.
    """
    given = [("", each) for each in args] + list(kwargs.items())
    rows = list(dict.fromkeys(each.name for _, each in given if isinstance(each, Rows)))
    on_edges = list(dict.fromkeys(each for _, each in given if isinstance(each, OnEdges)))
    if not rows or not any(each is EDGES for _, each in given):
        raise NotSupportedError(_GIVEN)
    names = [name for name, _ in layer.named_parameters()]
    numbers: dict[Any, int] = {each: number for number, each in enumerate([*rows, *on_edges])}
    attributes: dict[str, Any] = {
        "module": path,
        "training": w.training,
        "num_values": len(numbers),
        "parameters": tuple(names),
        "arguments": tuple(_argument(keyword, each, numbers) for keyword, each in given),
    }
    top = max(rows, key=w.level)
    block = w.block("layer", w.level(top))
    reads = [_lifted(w, name, top) for name in rows] + [_on_block(w, each, block) for each in on_edges]
    num_types = tuple(each.num_types for each in on_edges)
    attributes |= sample_layer(layer, attributes, Shapes(tuple(map(w.width, reads)), len(rows), num_types))
    reads += [w.parameter(f"{path}.{name}") for name in names]
    made, *others = w.emit_all("layer", *reads, block=block, **attributes)
    if not others:
        return Rows(made)
    return Rows(made), OnEdges(others[0], attributes["edge_width"], is_flat=False, made_on=block)


def runs_code_for_sure(module: nn.Module) -> bool:
    """Whether some layer has no equations here, which needs no tracing; options of known ones may have none too."""
    return any(map(has_no_equations, module.modules()))


def has_no_equations(layer: nn.Module) -> bool:
    """Whether a layer is of a class that runs by its own code, whatever its options."""
    return isinstance(layer, MessagePassing) and type(layer) not in {*LAYERS, *RELATIONAL, GCN2Conv}


def _argument(keyword: str, given: Any, numbers: dict[Any, int]) -> tuple[str, Any, str]:
    """An argument as `gnnplan.planner.program.own_layer` reads it."""
    if isinstance(given, Rows):
        return "rows", numbers[given.name], keyword
    if isinstance(given, OnEdges):
        return _what(given), numbers[given], keyword
    if given is EDGES:
        return "edges", 0, keyword
    if given is None or isinstance(given, bool | int | float | str):
        return "constant", given, keyword
    raise NotSupportedError(_GIVEN)


def _what(on_edges: OnEdges) -> str:
    if on_edges.num_types:
        return "types"
    return "weights" if on_edges.is_flat else "features"


def _lifted(w: Writer, name: str, top: str) -> str:
    """A value as rows of the level of another one."""
    if w.level(name) == w.level(top):
        return name
    if w.width(name) != w.width(top):
        raise NotSupportedError(_WIDTHS)
    return w.emit("add", top, name, factors=(0, 1), what="lift")


def _on_block(w: Writer, on_edges: OnEdges, block: str) -> str:
    """Values with a row for every entry of a block."""
    space, made_on = w.emitter.cycle.blocks[block].edges, on_edges.made_on
    if not made_on:
        x = w.emitter.add_value(Value(f"{on_edges.name}{ON_BLOCK}{block}", space, on_edges.width, role="input"))
    elif made_on == block:
        x = on_edges.name
    else:
        x = w.emit("on_block", on_edges.name, block=block, of=made_on)
    for step in on_edges.steps:
        x = step(w, x)
    return x
