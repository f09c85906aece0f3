"""Half precision as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import Fidelity
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.half_precision.halve import halve
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import PinnedOutError

_TABLES = ("matmul_half_forward", "matmul_half_grad_input", "matmul_half_grad_weight", "spmm_half")


class Halves(Contract):
    """Nothing is to be decided: it is done or not."""


class HalfPrecision(Technique[Halves]):
    """Rows of vertices are bfloat16, two bytes a number; parameters, their gradients and the loss stay float32."""

    name = "half_precision"
    Decision = Halves
    claims = frozenset({"rows:format"})
    costs = "approximate"
    least = Fidelity("approximate")

    def fidelity(self, decision: Halves) -> Fidelity:
        return Fidelity("approximate")

    def hooks(self) -> Mapping[Stage, Hook[Halves]]:
        return {Stage.STORAGE: _halve}

    def words(self, decision: Halves) -> str:
        return "Rows of vertices are bfloat16, and weights float32; accuracy was not tried."

    def brief(self, decision: Halves) -> str:
        return "bfloat16"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        halves, fault, is_asked = Choice(self.name, Halves()), _fault(setting), setting.job.pin.asked.get(self.name)
        if is_asked and fault:
            raise PinnedOutError(f"pin.techniques.{self.name}: {fault}")
        if is_asked:
            return (halves,)
        return (None,) if fault or setting.job.most.kind != "approximate" else (None, halves)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return _fault(setting)


def _fault(setting: Setting) -> str | None:
    for name, profile in sorted(setting.placement.profiles.items()):
        if profile.device_kind == "cuda":
            return f"rows of two bytes are computed with by CPUs alone so far, and {name} is a GPU"
        if lacking := [table for table in _TABLES if table not in profile.operators]:
            return f"profile {name} has no {lacking[0]}; profile again"
    return None


def _halve(cycle: Cycle, decision: Halves, situation: Situation) -> Cycle:
    return halve(cycle)
