"""Losses and parameters that are NaN or infinite: training ends at that epoch, and says where they came from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.errors import NotFiniteError
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.over_workers import NOWHERE, least
from gnnplan.runtime.program_trainer import ProgramTrainer

_ADVICE = "lower learning_rate, or look at the features"


class FiniteWatch:
    """Looks at every epoch's loss and parameters, which NaN and infinity anywhere else soon come to.

    While they are finite it costs a copy of the parameters and a norm of them. Where they are not, the epoch is played
    a second time from that copy, operator by operator, up to the optimizer's step. Workers in step have the same loss
    and parameters, so all of them find it at once.

    Args:
        can_replay: workers are in step, so that all play the epoch again together.
    """

    def __init__(self, trainer: ProgramTrainer, *, can_replay: bool = True) -> None:
        self._trainer, self._can_replay = trainer, can_replay
        self._parameters = [parameter.detach() for parameter in trainer.net.parameters()]
        self._before = [torch.empty_like(parameter) for parameter in self._parameters]

    def begin(self) -> None:
        """An epoch begins."""
        torch._foreach_copy_(self._before, self._parameters)

    def end(self, record: EpochRecord) -> None:
        """It has ended; `NotFiniteError` where it has made what is no number."""
        if math.isfinite(record.loss) and are_finite(self._parameters):
            return
        what = f"the loss is {record.loss}" if not math.isfinite(record.loss) else "parameters are NaN or infinite"
        where = self._first_operator(record.epoch) if self._can_replay else "where it came from is not known"
        raise NotFiniteError(f"epoch {record.epoch}: {what}; {where}; {_ADVICE}")

    def _first_operator(self, epoch: int) -> str:
        torch._foreach_copy_(self._parameters, self._before)
        rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        found: list[tuple[int, Operator]] = []
        operators: list[Operator] = []

        def look(op: Operator, written: Sequence[object]) -> None:
            floats = [each for each in written if isinstance(each, Tensor) and each.is_floating_point()]
            if not found and not are_finite(floats):
                found.append((len(operators), op))
            operators.append(op)

        self._trainer.replay(epoch, look)
        first = least(found[0][0] * size + rank if found else NOWHERE)
        if first == NOWHERE:
            return "every operator before the optimizer's step was finite, which makes it the first that was not"
        op = operators[first // size]
        return f"worker {first % size} made the first such value in {op.key}"


def are_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether all their values are; a norm tells in one pass, and where it overflows values are looked at."""
    norms = torch.stack(torch._foreach_norm(list(tensors))) if tensors else torch.zeros(1)
    return bool(norms.isfinite().all()) or all(bool(tensor.isfinite().all()) for tensor in tensors)
