"""Steps that not all workers take together: joining one, and taking those that went on without this worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from gnnplan.runtime.partial.gradients import GroupGradient
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.reduction import sum_over, sum_without
from gnnplan.runtime.partial.rounds import Rounds

TakeStep = Callable[[int, Tensor], None]
"""Takes the step of a round along its gradient [P + 1]."""


@dataclass
class GroupSteps:
    """One worker's way from step to step.

    Args:
        timeout_s: longest wait for a part of a sum.
        catch_up: takes a step that the others have taken without this worker.
    """

    lateness: Lateness
    rounds: Rounds
    gradient: GroupGradient
    timeout_s: float
    catch_up: TakeStep

    def join(self, flat: Tensor) -> Tensor:
        """The gradient [P + 1] in host memory of the first round that this worker is a member of.

        Before it come the steps that were taken without it, by the sums that it was sent.

        Args:
            flat: this worker's own gradient and loss, [P + 1] in host memory; nobody may change it afterwards.
        """
        late, box = self.lateness, self.lateness.mailbox
        group = self.rounds.join(late.epoch, late.is_expected, late.pace)
        for number, members in self.rounds.missed.items():
            summed = sum_without(box, members, number, flat.numel(), self.timeout_s)
            self.catch_up(number, self.gradient.of_sum(summed, members, box.size))
        total = self.gradient.of(flat, group.members, box.size, self._sum)
        late.took_part = [rank in group.members for rank in range(box.size)]
        return total

    def _sum(self, flat: Tensor) -> Tensor:
        rounds = self.rounds
        return sum_over(self.lateness.mailbox, rounds.group.members, rounds.number, flat, self.timeout_s)
