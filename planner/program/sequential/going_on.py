"""Workers that go on without each other, as a policy says: late rows, and steps by some of the workers.

A policy is a pure function, so the same run can be played again, by this executor and by any other one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnplan.planner.program.cycle import Program
from gnnplan.planner.program.group import scales
from gnnplan.planner.program.parts import Operator

if TYPE_CHECKING:
    from gnnplan.planner.program.sequential.executor import Context


class Policy:
    """Who goes on without whom. This one waits for all; others override it."""

    def version(self, operator: Operator, epoch: int, sender: int, receiver: int) -> int:
        """The epoch of the rows of a sender that a receiver uses in an epoch."""
        return epoch

    def members(self, number: int, num_workers: int) -> tuple[int, ...]:
        """Workers that take part in a round, ascending: the step that ends the epoch of its number."""
        return tuple(range(num_workers))


IN_STEP = Policy()


class GoingOn:
    """Where every worker is in its epochs, and what others have of it.

    A member of a round begins the epoch after it. Who is missing stays where it is: it computes nothing anew, and takes
    part in a later round with the gradient that it has. All workers take every step, for who is missing takes the same
    one later, before it computes again.

    Args:
        here: of every worker, whether it plays the present operator.
    """

    def __init__(self, policy: Policy, num_workers: int) -> None:
        self._policy, self._size, self._epoch = policy, num_workers, 0
        self._members = tuple(range(num_workers))
        self.here = [True] * num_workers
        self._sent: dict[tuple[str, int, int], dict[int, Tensor]] = defaultdict(dict)
        self._grads: list[Tensor] = [torch.empty(0)] * num_workers
        self._added: list[Tensor] = [torch.empty(0)] * num_workers

    def begin(self, program: Program, epoch: int) -> None:
        """A program begins; one without a group's sum is played by all."""
        self._epoch = epoch
        has_group = any(op.attributes.get("group") for op in program)
        self.here = [not has_group or worker in self._members for worker in range(self._size)]

    def waits_for_few(self, op: Operator) -> bool:
        """Whether an operator goes on with what is there."""
        return bool(op.attributes.get("late") or op.attributes.get("group"))

    def collective(self, context: Context, op: Operator, reads: list[Tensor | None]) -> list[Tensor | None]:
        """What such an operator writes on every worker; None on those that are not here."""
        return self._exchange(context, op, reads) if op.attributes.get("late") else self._sum(op, reads)

    def _exchange(self, context: Context, op: Operator, sent: list[Tensor | None]) -> list[Tensor | None]:
        counts = context.cycle.routes[op.attributes["route"]].sent(back=op.attributes.get("back", False))
        for sender, rows in enumerate(sent):
            for receiver, part in enumerate(rows.split(counts[sender].tolist()) if rows is not None else ()):
                self._sent[op.key, sender, receiver][self._epoch] = part.clone()
        return [self._received(op, receiver) if self.here[receiver] else None for receiver in range(self._size)]

    def _received(self, op: Operator, receiver: int) -> Tensor:
        parts = []
        for sender in range(self._size):
            version, of = self._version(op, sender, receiver), self._sent[op.key, sender, receiver]
            assert self._epoch - version <= op.attributes["max_staleness"], (op.key, self._epoch, version)
            parts.append(of[version])
            for older in [epoch for epoch in of if epoch < version]:  # rows that come are never older than before
                del of[older]
        return torch.cat(parts)

    def _version(self, op: Operator, sender: int, receiver: int) -> int:
        if sender == receiver:  # nobody waits for himself
            return self._epoch
        return self._policy.version(op, self._epoch, sender, receiver)

    def _sum(self, op: Operator, reads: list[Tensor | None]) -> list[Tensor | None]:
        """The gradient of a round, which everybody takes a step along."""
        for worker, grad in enumerate(reads):
            if grad is not None:
                self._grads[worker] = grad.clone()
        members = self._policy.members(self._epoch, self._size)
        for member in members:
            self._added[member] = self._grads[member]
        self._members, self.here = members, [True] * self._size
        total = self._total(op, members)
        return [total.clone() for _ in range(self._size)]

    def _total(self, op: Operator, members: tuple[int, ...]) -> Tensor:
        if len(members) == self._size or op.attributes["absent"] == "reuse":
            return torch.stack(self._added).sum(0)
        total = torch.stack([self._added[member] for member in members]).sum(0)
        by_layer = scales(op.attributes["contributing"], members)
        parts = zip(total.split(list(op.attributes["sizes"]), 1), op.attributes["layers"], strict=True)
        return torch.cat([part * by_layer[layer] for part, layer in parts], 1)
