"""Sparse features as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.models.forward import FEATURES
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

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pinned, stored = setting.job.pin.sparse_features, Choice(self.name, AsCsr())
        if pinned and not _may_be_sparse(setting.forward):
            raise UserError(
                f"{setting.job.name}: pin.sparse_features: this model does more with its features than {_ABLE}"
            )
        if not _may_be_sparse(setting.forward):
            return (None,)
        if pinned is not None:
            return (stored,) if pinned else (None,)
        return (stored, None) if setting.graph.has_sparse_features else (None,)


_ABLE = "multiply and aggregate them; leave it out"


def _may_be_sparse(forward: Cycle) -> bool:
    """Whether every operator that reads the features, or what is as sparse as they are, can read CSR."""
    for program in forward.programs.values():
        sparse = {FEATURES}
        for op in program:
            if sparse.isdisjoint(op.reads):
                continue
            if op.kind not in ("filter", "multiply", "aggregate", "dropout"):
                return False
            if op.kind in ("aggregate", "dropout"):
                sparse.update(op.writes)
    return True


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
