"""Which level's rows every step of a program works on, and whether its rows are own ones alone."""

from __future__ import annotations

from dataclasses import dataclass

from gnnplan.planner.steps import Program, Step

_GATHERS = ("aggregate", "attend")  # an attention's exchange only brings its rows together


@dataclass(frozen=True)
class StepLevels:
    """Levels by step name.

    Args:
        rows: of the rows that a step reads; a gather writes those of the next level, other steps the same.
        kept: of the rows that an aggregation passes on for a product after the layer's last gather.
        count: the level of the logits, which only owners have.
    """

    rows: dict[str, int]
    kept: dict[str, int]
    count: int

    def written(self, step: Step) -> int:
        """The level of the rows that a step writes."""
        return self.rows[step.name] + (step.op in _GATHERS)


def step_levels(program: Program, first: int) -> StepLevels:
    """Follows a program from the lowest level at which rows travel: the level rises with every gather."""
    rows, kept, level = {}, {}, first
    for step in program.steps:
        rows[step.name] = level
        level += step.op in _GATHERS
    for step in program.steps:
        if step.keep:
            kept[step.name] = next(rows[reader.name] for reader in program.steps if step.keep in reader.inputs)
    return StepLevels(rows, kept, level)
