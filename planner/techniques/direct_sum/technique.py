"""Direct sums as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import PositiveInt

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.readers.cost_rows import summed_bytes
from gnnplan.planner.techniques.direct_sum.kinds import DIRECT_SUM, seconds
from gnnplan.profiles.contract import Contract

_RING = "all_reduce"
_ANY_SUM_BYTES = 2**62


class Direct(Contract):
    """Which sums are direct.

    Args:
        most_bytes: sums of no more.
    """

    most_bytes: PositiveInt = _ANY_SUM_BYTES


class DirectSum(Technique[Direct]):
    """Small sums over all workers take one step: everyone sends its part to everyone.

    A ring of W workers sends 2 (W - 1) / W of the bytes, but in 2 (W - 1) steps that wait for each other. A direct sum
    sends W - 1 times the bytes in one step. NCCL chooses for itself, so GPUs are left alone.
    """

    name = "direct_sum"
    Decision = Direct
    claims = frozenset({"sums"})
    pins = frozenset({"most_bytes"})

    def hooks(self) -> Mapping[Stage, Hook[Direct]]:
        return {Stage.SCHEDULE: _direct}

    def words(self, decision: Direct) -> str:
        return f"Sums of up to {decision.most_bytes:,} bytes are sent to everyone in one step."

    def brief(self, decision: Direct) -> str:
        return "direct sums"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        if setting.job.pin.asked.get(self.name):
            fields = setting.job.pin.decisions.get(self.name, {})
            return (Choice(self.name, Direct.model_validate(fields)),)
        if so_far is None or any(profile.device_kind != "cpu" for profile in setting.placement.profiles.values()):
            return (None,)
        network = Network(setting.placement)
        pays = {size: seconds(network, size) < network.all_reduce(size).seconds for size in sums_bytes(so_far.cycle)}
        paying = [size for size in pays if all(pays[other] for other in pays if other <= size)]
        return (None, Choice(self.name, Direct(most_bytes=max(paying)))) if paying else (None,)


def sums_bytes(cycle: Cycle) -> set[int]:
    """Of every sum over all workers in an epoch, in either way."""
    return {summed_bytes(cycle, op) for op in cycle.operators_of_epochs() if op.kind in (_RING, DIRECT_SUM.name)}


def _direct(cycle: Cycle, decision: Direct, situation: Situation) -> Cycle:
    if cycle.num_workers == 1:
        return cycle

    def small(program: Program) -> Program:
        return tuple(
            replace(op, kind=DIRECT_SUM.name, attributes={**op.attributes, "num_workers": cycle.num_workers})
            if op.kind == _RING and summed_bytes(cycle, op) <= decision.most_bytes
            else op
            for op in program
        )

    programs = {name: small(program) if name in cycle.order else program for name, program in cycle.programs.items()}
    return replace(cycle, programs=programs)
