"""Sparse features as a technique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gnnplan.planner.contracts.technique import Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import UserError


class AsCsr(Contract):
    """Nothing is to be decided: it is done or not."""


class SparseFeatures(Technique[AsCsr]):
    """Input features that are mostly zeros are stored as CSR, so the first product costs their entries alone."""

    name = "sparse_features"
    Decision = AsCsr
    claims = frozenset({"features:storage"})

    def hooks(self) -> Mapping[Stage, Hook[AsCsr]]:
        return {Stage.FORWARD: _store_as_csr}

    def words(self, decision: AsCsr) -> str:
        return "The input features are stored as CSR, for most of them are zero."


def _store_as_csr(cycle: Cycle, decision: AsCsr, situation: Situation) -> Cycle:
    entries = cycle.arrays.entries if cycle.arrays else {}
    if not entries:
        raise UserError("sparse_features: this graph's features are not sparse; leave the technique out")
    emitter = Emitter(cycle)
    for name, per_row in entries.items():
        dense = cycle.values[name]
        emitter.add_value(replace(dense, layout="csr", num_entries=(int(per_row.sum()),)))
    for name, program in cycle.programs.items():  # again, for what is made of sparse rows may be sparse too
        emitter.begin()
        for op in program:
            emitter.append(op)
        emitter.end(name)
    return emitter.cycle
