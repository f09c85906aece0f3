"""The program of an inference: a plan's evaluation, up to the rows that are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gnnplan.planner.cluster import Placement
from gnnplan.planner.program.cycle import EVALUATE, SETUP, Cycle, Program
from gnnplan.planner.program.kinds.reduce import EVALUATING
from gnnplan.planner.program.parts import Value
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.simulator.play import predicted_trace
from gnnplan.profiles.errors import UserError

_BY_SLICE = frozenset({"pack_columns", "transpose"})  # whose rows are blocks of columns, one after the other

INFER = "infer"


@dataclass(frozen=True)
class Forward:
    """What an inference plays.

    Args:
        cycle: of two programs: the setup, with what this needs of it, and `infer`.
        rows: the value whose rows are asked for.
    """

    cycle: Cycle
    rows: str

    @property
    def value(self) -> Value:
        """The same with its space and width."""
        return self.cycle.values[self.rows]


@dataclass(frozen=True)
class ForwardPrediction:
    """What an inference is predicted to take: seconds of playing it once, and each worker's peak bytes."""

    seconds: float
    peak_bytes: tuple[int, ...]


def forward_of(cycle: Cycle, of: str = "") -> Forward:
    """The forward half that makes the logits, or what another operator of the evaluation writes.

    Args:
        of: an operator's key, as `gnnplan show` prints it (empty: the logits, or what pairs are scored by).

    Raises:
        UserError: there is no such operator, or its rows are not vertices of the workers' own.
    """
    program = cycle.programs[EVALUATE]
    rows = _written_by(cycle, program, of) if of else _logits(program)
    kept, needed = _needed(program, {rows})
    setup, _ = _needed(cycle.programs.get(SETUP, ()), needed)
    programs = {INFER: kept, **({SETUP: setup} if setup else {})}
    values = dict(cycle.values)
    values[rows] = replace(values[rows], role="temporary" if values[rows].role == "cell" else values[rows].role)
    return Forward(replace(cycle, programs=programs, order=(INFER,), results=frozenset({rows})), rows)


def _logits(program: Program) -> str:
    return next(op.attributes.get("of") or op.reads[0] for op in program if op.kind in EVALUATING)


def predict_forward(forward: Forward, placement: Placement) -> ForwardPrediction:
    """What an inference takes on a plan's workers."""
    cycle = forward.cycle
    memory = [estimate_memory(cycle, rank, placement.profile_of(rank)).peak_bytes for rank in cycle.workers]
    trace = predicted_trace(schedule_of(cycle, INFER, placement), "", tuple(memory), (0,) * cycle.num_workers)
    return ForwardPrediction(trace.epoch_s[0], tuple(memory))


def _needed(program: Program, wanted: set[str]) -> tuple[Program, set[str]]:
    """The operators that make values, and all that these and the values are made of."""
    kept, needed = [], set(wanted)
    for op in reversed(program):
        if needed.intersection(op.writes):
            kept.append(op)
            needed.update(op.reads)
    return tuple(reversed(kept)), needed


def _written_by(cycle: Cycle, program: Program, key: str) -> str:
    found = next((op for op in program if op.key == key), None)
    keys = [op.key for op in program if _is_of_vertices(cycle, op.writes[0]) and op.kind not in _BY_SLICE]
    if found is None or found.key not in keys:
        why = "there is no such operator" if found is None else "its rows are not the vertices of the graph"
        raise UserError(f"--of {key}: {why} in the plan's evaluation; name one of {', '.join(keys)}")
    return found.writes[0]


def _is_of_vertices(cycle: Cycle, name: str) -> bool:
    """Whether every vertex is a worker's own row of a value, and it is no view of columns in another order."""
    value = cycle.values[name]
    space = cycle.spaces[value.space]
    return space.is_of_vertices and value.layout == "dense" and bool(space.num_own) and value.tier == "device"
