"""Neighbouring operators of a forward program that one operator does in one pass, or in an order of its choice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Operator


def fuse(cycle: Cycle) -> Cycle:
    """The cycle with bias, ReLU and dropout as one operator, and products of sums over edges as filters.

    A value that somebody else reads too is left alone.
    """
    emitter = Emitter(cycle)
    for name, program in cycle.programs.items():
        fused = _filters(_activations(program))
        emitter.begin()
        for op in fused:
            emitter.append(op)
        emitter.end(name)
    return emitter.cycle


def _readers(program: Program) -> Counter[str]:
    return Counter(name for op in program for name in op.reads)


def _activations(program: Program) -> Program:
    """Bias then ReLU, and then dropout: what is dropped is told by zeros, which only ReLU leaves alone."""
    readers, made = _readers(program), dict[str, int]()
    found: list[Operator | None] = []
    for op in program:
        before = made.get(op.reads[0]) if op.reads and readers[op.reads[0]] == 1 else None
        last = found[before] if before is not None else None
        if last is not None and last.kind == "activate" and (joined := _joined(last, op)):
            assert before is not None
            found[before] = None
            op = joined
        made[op.writes[0]] = len(found)
        found.append(op)
    return tuple(op for op in found if op is not None)


def _joined(bias: Operator, op: Operator) -> Operator | None:
    attributes = bias.attributes
    if op.kind == "elementwise" and op.attributes["function"] == "relu" and not attributes["dropout"]:
        new = {**attributes, "relu": True}
    elif op.kind == "dropout" and attributes["relu"] and not attributes["dropout"]:
        new = {**attributes, "dropout": op.attributes["probability"], "layer": op.attributes["layer"]}
    else:
        return None
    return replace(bias, key=op.key, writes=op.writes, attributes=new)


def _filters(program: Program) -> Program:
    """Rows summed over edges some times and then multiplied."""
    readers, made = _readers(program), {op.writes[0]: op for op in program}
    gone, new_names = set[str](), dict[str, str]()
    found: list[Operator] = []
    for op in program:
        op = replace(op, reads=tuple(new_names.get(name, name) for name in op.reads))
        chain = _chain(op, made, readers) if _is_product(op) else []
        if not chain:
            found.append(op)
            continue
        gone.update(each.key for each in chain)
        aggregation = chain[0].attributes["block"].partition("@")[0]
        attributes = {"hops": (len(chain),), "matrix": aggregation}
        layer, _, what = op.key.rpartition("/")
        key = f"{layer}/filter{what.removeprefix('multiply')}"  # a layer that is called again has numbers behind it
        new_names[op.writes[0]] = key  # the product that the filter is expanded to has the old name
        reads = (new_names.get(chain[-1].reads[0], chain[-1].reads[0]), op.reads[1])
        found.append(Operator(key, "filter", reads, (key,), attributes))
    return tuple(op for op in found if op.key not in gone)


def _is_product(op: Operator) -> bool:
    return op.kind == "multiply" and not op.attributes.get("back") and not op.has_base


def _chain(op: Operator, made: dict[str, Operator], readers: Counter[str]) -> list[Operator]:
    """Sums over edges of one aggregation that a product alone reads, the last one first."""
    chain: list[Operator] = []
    name = op.reads[0]
    while (last := made.get(name)) and last.kind == "aggregate" and not last.has_base and readers[name] == 1:
        if chain and _of(last) != _of(chain[0]):
            break
        chain.append(last)
        name = last.reads[0]
    return chain


def _of(op: Operator) -> str:
    return op.attributes["block"].partition("@")[0]
