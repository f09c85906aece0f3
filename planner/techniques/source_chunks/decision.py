"""What is decided of source chunks."""

from __future__ import annotations

from math import lcm
from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, model_validator

from gnnplan.planner.chunks.draw import Draws
from gnnplan.profiles.contract import Contract

MAX_PROGRAMS = 400
"""Steps of a cycle, each of them a program: what a plan keeps, prices and checks."""


class Chunks(Contract):
    """How a pass over the graph is divided into steps.

    Args:
        num_chunks: B, steps of a pass; each pushes one chunk of the vertices. 1 is an exact epoch.
        seed: of the divisions.
        draws: `balanced` gives chunks as many vertices, and about as many edges; `equal` as many vertices alone;
            `independent` draws each vertex's chunk by itself.
        num_shuffles: divisions that passes take in turn; each has tables of its own.
        exact_every: passes from one whose first step pushes all sources, and so makes every state anew, to the next
            (0: never).
        follow_mean: what is left of a state moves as the mean of all rows has moved since the last step.
        fade: what is left of a sum's state counts so many times as much as the paper has it (1), and the chunk's rows
            have what it lost. Less than 1 forgets faster.
        mass_fade: so many times as much as the paper has it (1) counts what is left of a mass of attention. By default
            next to nothing is left where a chunk brings something: with more, some trainings fail.
        correction: gradients that flow back to a chunk are multiplied by B, the inverse of what share it is.
    """

    num_chunks: Annotated[int, Field(ge=1, le=100)] = 1
    seed: NonNegativeInt = 0
    draws: Draws = "balanced"
    num_shuffles: Annotated[int, Field(ge=1, le=20)] = 1
    exact_every: Annotated[int, Field(ge=0, le=100)] = 0
    follow_mean: bool = True
    fade: Annotated[float, Field(gt=0, le=1)] = 1.0
    mass_fade: Annotated[float, Field(gt=0, le=1)] = 2**-20
    correction: bool = False

    @model_validator(mode="after")
    def _is_a_cycle(self) -> Self:
        if self.num_chunks * self.num_passes > MAX_PROGRAMS:
            raise ValueError(f"num_chunks, num_shuffles and exact_every make a cycle of over {MAX_PROGRAMS} steps")
        if self.correction and self.fade < 1:
            raise ValueError("correction is for states that do not fade; leave correction or fade out")
        return self

    @property
    def num_passes(self) -> int:
        """Passes until the same steps come again."""
        return lcm(self.num_shuffles, self.exact_every or 1)

    @property
    def most_steps(self) -> int:
        """Steps within which every source pushes: B, and with divisions that take turns up to 2 B - 1."""
        return self.num_chunks if self.num_shuffles == 1 else 2 * self.num_chunks - 1
