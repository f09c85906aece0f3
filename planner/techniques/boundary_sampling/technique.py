"""Boundary sampling as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field, NonNegativeInt

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import Fidelity
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.boundary_sampling.counts import with_counts_of_draws
from gnnplan.planner.techniques.boundary_sampling.sample import sample_halos
from gnnplan.profiles.contract import Contract


class Sampled(Contract):
    """Which halo rows travel.

    Args:
        probability: p, with which each one does; the paper's is 0.1.
        num_draws: draws that epochs take in turn; each has tables of its own. Of 10 at p = 0.1 each halo row is in none
            with a chance of 35%, and of 40 with one of 1.5%.
        seed: of the draws.
        correction: weights of edges from drawn rows are divided by p, as in the paper. Attention has no such weights.
    """

    probability: Annotated[float, Field(gt=0, le=1)] = 0.1
    num_draws: Annotated[int, Field(ge=1, le=100)] = 10
    seed: NonNegativeInt = 0
    correction: bool = True


class BoundarySampling(Technique[Sampled]):
    """In every epoch a random share of the halo rows travels, and edges from all others are left out.

    It is BNS-GCN, to compare others with. It is asked for by `pin.techniques`, or with figures by `pin.decisions`.
    """

    name = "boundary_sampling"
    Decision = Sampled
    claims = frozenset({"rows:made", "rows:kept", "rows:dropped", "step rule", "pace"})
    pins = frozenset(Sampled.model_fields)
    sums_only = True
    drops_edges = True
    needs = frozenset({"halo rows"})
    costs = "approximate"
    least = Fidelity("approximate")

    def fidelity(self, decision: Sampled) -> Fidelity:
        return Fidelity("approximate")

    def hooks(self) -> Mapping[Stage, Hook[Sampled]]:
        return {Stage.SPLIT: _sample}

    def counted_on(self, cycle: Cycle, counts: Counts, decision: Sampled) -> Cycle:
        return with_counts_of_draws(cycle, counts, decision.probability)

    def words(self, decision: Sampled) -> str:
        return f"In every epoch {decision.probability:.0%} of the halo rows travel; edges from the others are left out."

    def brief(self, decision: Sampled) -> str:
        return f"{decision.probability:.0%} of halo rows drawn"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pin = setting.job.pin
        if setting.num_workers == 1 or not pin.asked.get(self.name):
            return (None,)
        fields = {"seed": setting.job.training.seed, **pin.decisions.get(self.name, {})}
        return (Choice(self.name, Sampled.model_validate(fields)),)


def drawn(decision: Sampled, number: int, worker: int, vertices: np.ndarray) -> np.ndarray:
    """Bool: which vertices' rows a worker is sent in a draw, each by itself."""
    rng = np.random.default_rng([decision.seed, number, worker])
    return rng.random(int(vertices.max(initial=-1)) + 1)[vertices] < decision.probability


def _sample(cycle: Cycle, decision: Sampled, situation: Situation) -> Cycle:
    factor = 1 / decision.probability if decision.correction else 1.0
    return sample_halos(cycle, decision.num_draws, partial(drawn, decision), factor)
