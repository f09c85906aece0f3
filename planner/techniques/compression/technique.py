"""Compressed exchanges as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import Fidelity
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.compression.compress import compress_exchanges
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.kernels.compressed import Format

_PROPOSED: tuple[Format, ...] = ("int8", "float16")  # a bfloat16 takes a float16's bytes and seconds


class Compressed(Contract):
    """In what rows travel.

    Args:
        format: of a number; `int8` has a float32 scale a row beside.
    """

    format: Format = "int8"


class Compression(Technique[Compressed]):
    """Halo rows, and the gradients returned for them, travel in fewer bytes; what they lack is sent with the next."""

    name = "compression"
    Decision = Compressed
    claims = frozenset({"transport:format"})
    pins = frozenset({"format"})
    needs = frozenset({"halo rows"})
    costs = "approximate"
    least = Fidelity("approximate")

    def fidelity(self, decision: Compressed) -> Fidelity:
        return Fidelity("approximate")

    def hooks(self) -> Mapping[Stage, Hook[Compressed]]:
        return {Stage.TRAVEL: _compress}

    def words(self, decision: Compressed) -> str:
        return f"Rows travel as {decision.format}, and what they lack is added to the next; accuracy was not tried."

    def brief(self, decision: Compressed) -> str:
        return f"rows sent as {decision.format}"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pin = setting.job.pin
        if setting.num_workers == 1 or (setting.job.most.kind != "approximate" and not pin.asked.get(self.name)):
            return (None,)
        if fields := pin.decisions.get(self.name):
            return (Choice(self.name, Compressed.model_validate(fields)),)
        proposed = tuple(Choice(self.name, Compressed(format=form)) for form in _PROPOSED)
        return proposed if pin.asked.get(self.name) else (None, *proposed)


def _compress(cycle: Cycle, decision: Compressed, situation: Situation) -> Cycle:
    return compress_exchanges(cycle, decision.format)
