"""Which values are made in columns, so that least has to be transposed.

A sum over edges is made in columns, and what mixes the columns of a row is made in rows. An operator by column may be
made in either form. So propagations with nothing but such operators between them stay in columns: this is what makes
the transposes of a decoupled model (NeutronTP, section 4.1) as many as those of a single propagation.

A value is transposed once where it is made in one form and read in the other, and so is its gradient. The choice that
moves the fewest elements is a minimum cut between columns and rows (Picard 1976): an operator is a node, and a value is
an edge from the one that makes it to all that read it. Where two choices move as much, rows are taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_flow

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import depending_on_parameters
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator

COLUMNS, ROWS = "columns", "rows"
WITHOUT_BASE = " without its base"
"""Behind the name of a sum, what it is before its base is added."""
_NEVER = 2**28
"""A capacity that no cut is worth. All others are scaled so that together they are less."""


def columns_of(cycle: Cycle) -> Mapping[str, int]:
    """By value that is made in columns, the heads that its slices are of.

    A value has the same form in all programs.

    Args:
        cycle: forward programs of one logical worker.
    """
    graph = _Graph.of(cycle)
    chosen = _on_side_of_columns(graph.edges())
    return _heads(graph, chosen)


def is_sum(cycle: Cycle, op: Operator) -> bool:
    """Whether an operator sums over edges, and makes rows of vertices."""
    return "block" in op.attributes and _is_of_vertices(cycle, op.writes[0])


def _is_of_vertices(cycle: Cycle, name: str) -> bool:
    return cycle.spaces[cycle.values[name].space].is_of_vertices


@dataclass
class _Graph:
    """Operators by the first value that each writes, which is its name in every program.

    Args:
        fixed: the form of operators that have no choice.
        readers: of every program and value, those that read it.
        weights: of these, elements of a row that travel in an epoch where a value is read in another form than it was
            made in.
        bases: operators that only add a base to a sum, which need no operator of their own in columns.
        heads: of sums that have some.
        drawn: operators that draw by the number of a column.
    """

    fixed: dict[str, str]
    readers: dict[tuple[str, str], set[str]]
    weights: dict[tuple[str, str], int]
    bases: set[str]
    heads: dict[str, int]
    drawn: set[str]

    @classmethod
    def of(cls, cycle: Cycle) -> _Graph:
        graph = cls({}, defaultdict(set), {}, set(), {}, set())
        for program, operators in cycle.programs.items():
            for op in operators:
                graph._add(cycle, program, op)
            graph._weigh(cycle, program)
        made = {op.writes[0] for operators in cycle.programs.values() for op in operators}
        for name in {name for _, name in graph.readers} - made:
            graph.fixed.setdefault(name, ROWS)
        return graph

    def _weigh(self, cycle: Cycle, program: str) -> None:
        """What is not trained counts for as good as nothing."""
        wanted = depending_on_parameters(cycle, cycle.programs[program])
        for of, name in self.readers:
            value = name.removesuffix(WITHOUT_BASE)
            if of == program:
                times = 0 if of not in cycle.order else 2 if value in wanted else 1
                self.weights[of, name] = times * cycle.values[value].width

    def _add(self, cycle: Cycle, program: str, op: Operator) -> None:
        name, reads = op.writes[0], [each for each in op.reads if _is_of_vertices(cycle, each)]
        if is_sum(cycle, op):
            name = self._sum(program, op, reads)
        elif not _may_be_in_columns(cycle, op, reads):
            self.fixed[name] = ROWS
        if KINDS[op.kind].varies:
            self.drawn.add(name)
        for each in reads:
            self.readers[program, each].add(name)

    def _sum(self, program: str, op: Operator, reads: list[str]) -> str:
        """A sum, and where it has a base another operator that adds it; `reads` are left to be those of the sum."""
        name = op.writes[0]
        if op.has_base:
            alone = name + WITHOUT_BASE
            self.bases.add(name)
            self.readers[program, reads.pop()].add(name)
            self.readers[program, alone].add(name)
            name = alone
        self.fixed[name] = COLUMNS
        self.heads[name] = op.attributes.get("heads", 0)
        return name

    @property
    def names(self) -> set[str]:
        """All operators."""
        return {*self.fixed, *self.bases, *(reader for readers in self.readers.values() for reader in readers)}

    def edges(self) -> Iterator[tuple[str, str, int]]:
        """(from, to, capacity): what is cut off from `COLUMNS` is in rows."""
        total = 2 * sum(self.weights.values()) + len(self.weights) + len(self.bases)
        for name, form in self.fixed.items():
            yield (COLUMNS, name, _NEVER) if form == COLUMNS else (name, ROWS, _NEVER)
        for name in self.bases:
            yield COLUMNS, name, 1
        for (program, name), weight in self.weights.items():
            capacity = max(1, min(2 * weight, 2 * weight * _NEVER // total))
            in_rows, in_columns = f"{name} read in rows by {program}", f"{name} read in columns by {program}"
            yield name, in_rows, capacity
            yield in_columns, name, capacity
            for reader in self.readers[program, name]:
                yield in_rows, reader, _NEVER
                yield reader, in_columns, _NEVER


def _may_be_in_columns(cycle: Cycle, op: Operator, reads: list[str]) -> bool:
    """Whether it may be made in columns: it is by column, and reads dense rows of vertices alone."""
    dense = all(cycle.values[each].layout == "dense" for each in reads)
    return KINDS[op.kind].by_column and dense and len(reads) == len(op.reads)


def _on_side_of_columns(edges: Iterator[tuple[str, str, int]]) -> set[str]:
    """The smaller side of a minimum cut."""
    numbers: dict[str, int] = {COLUMNS: 0, ROWS: 1}
    found = [(numbers.setdefault(a, len(numbers)), numbers.setdefault(b, len(numbers)), c) for a, b, c in edges]
    sources, targets, capacities = (np.array(each, np.int32) for each in zip(*found, strict=True))
    size = len(numbers)
    capacity = sp.csr_matrix((capacities, (sources, targets)), shape=(size, size))
    left = capacity - maximum_flow(capacity, 0, 1).flow
    left.eliminate_zeros()
    reached = set(breadth_first_order(left, 0, return_predecessors=False).tolist())
    return {name for name, number in numbers.items() if number in reached}


def _heads(graph: _Graph, chosen: set[str]) -> dict[str, int]:
    """Of every operator in columns the heads of its slices: those of the sums that it is in one run of columns with.

    Where a run has sums of several heads, each has slices of its own. What draws by columns' numbers is in rows where
    slices are of heads, for those are not consecutive.
    """
    numbers = {name: i for i, name in enumerate(sorted(chosen & graph.names))}
    joined = [(a, b) for (_, a), readers in graph.readers.items() for b in readers if {a, b} <= numbers.keys()]
    size, pairs = len(numbers), ([numbers[a] for a, _ in joined], [numbers[b] for _, b in joined])
    _, runs = connected_components(sp.csr_matrix((np.ones(len(joined)), pairs), shape=(size, size)), directed=False)
    of_run: dict[int, set[int]] = defaultdict(set)
    for name, heads in graph.heads.items():
        if heads:
            of_run[runs[numbers[name]]].add(heads)
    found = {}
    for name, number in numbers.items():
        alike = of_run[runs[number]]
        found[name] = graph.heads.get(name) or (next(iter(alike)) if len(alike) == 1 else 1)
    return {name: heads for name, heads in found.items() if heads == 1 or name not in graph.drawn}
