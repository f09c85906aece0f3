"""Which workers step together: decided once for each round, by whoever first finds that the ready ones may.

Workers tell each other when they are ready. Whoever sees that the rule is met writes the group into the store of
torch.distributed, where the first to write a round's key wins, and tells all others. So no worker leads, and one that
is stopped holds up nobody who may go on without it. There is one group a round, so there is one sequence of weights:
who was missing takes the same steps when it comes back.

NeutronCloud, section 5.3; where it departs is said in docs/partial_reduce.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch.distributed as dist
from pydantic import NonNegativeInt

from gnnplan.planner.partial import rule
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.profiles.contract import Contract
from gnnplan.runtime.partial.mailbox import Kind, Mailbox, PeerError
from gnnplan.runtime.partial.pace import Pace


class Group(Contract):
    """Who steps in a round.

    Args:
        members: ranks, ascending.
        last_rounds: by worker, the last round it took part in, this one included (-1: none).
    """

    members: tuple[NonNegativeInt, ...]
    last_rounds: tuple[int, ...]

    def then(self, number: int, members: tuple[int, ...]) -> Group:
        """The group of round `number`, the one after this."""
        last = (number if rank in members else before for rank, before in enumerate(self.last_rounds))
        return Group(members=members, last_rounds=tuple(last))


class Rounds:
    """Joins this worker to the first group that it is ready for.

    Args:
        store: this run's own, in which a round's group is written by the first that proposes one.
        timeout_s: longest wait for workers that cannot be done without.
        interval: epochs from one that refreshes kept rows to the next.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        decision: PartialReduceDecision,
        store: dist.Store,
        num_epochs: int,
        timeout_s: float,
        interval: int = 1,
    ) -> None:
        self._interval = interval
        self._mailbox, self._decision, self._store = mailbox, decision, store
        self._timeout_s, self.first_epoch, self.refresh_until = timeout_s, 0, 0
        self._closing_from = decision.closing_from(num_epochs)
        everyone = tuple(range(mailbox.size))
        self.number, self.group = -1, Group(members=everyone, last_rounds=(-1,) * mailbox.size)
        self.missed: dict[int, tuple[int, ...]] = {}

    def join(self, epoch: int, is_expected: Callable[[int], bool], pace: Pace) -> Group:
        """The first group from round `epoch` on that this worker is a member of; `number` says of which round.

        `missed` has the members of the rounds before that it has taken no part in, in their order.

        Args:
            is_expected: whether a peer is worth waiting for in round `epoch`.
            pace: until when.

        Raises `PeerError` where workers that cannot be done without are not ready in time.
        """
        number, previous = epoch, self.group
        self.missed = {}
        while True:
            group = self._group_of(number, previous, is_expected if number == epoch else None, pace)
            if self._mailbox.rank in group.members:
                break
            self.missed[number] = group.members
            number, previous = number + 1, group
        self.number, self.group = number, group
        self._mailbox.forget_groups(number)
        return group

    def _group_of(self, number: int, previous: Group, is_expected: Callable[[int], bool] | None, pace: Pace) -> Group:
        box = self._mailbox
        box.ready[box.rank] = number
        box.post(self._peers, Kind.READY, number)
        is_warm = number - self.first_epoch >= rule.WARM_UP_EPOCHS
        # All begin an epoch that sends kept rows together, also one that does so since a training goes on.
        is_before_refresh = number + 1 < self.refresh_until
        most = self._decision.max_staleness if is_warm and not is_before_refresh else 0
        absence = rule.absence_of(number, self._closing_from, most, self._interval)
        deadline_s = pace.step_deadline_s(None if is_expected else box.group_known_s.get(number - 1))
        until_s = time.monotonic() + self._timeout_s

        def may_step() -> bool:
            expected = is_expected or (lambda peer: peer in previous.members)
            return self._may_step(number, previous, expected, absence, time.monotonic() >= deadline_s)

        def is_settled() -> bool:
            # Who is ready for a later round has seen the group of this one: it is in the store, though not told yet.
            return number in box.groups or max(box.ready) > number or may_step()

        if not box.wait(is_settled, min(deadline_s, until_s)) and not box.wait(is_settled, until_s):
            missing = tuple(rank for rank in range(box.size) if box.ready[rank] < number)
            raise PeerError(
                f"Timed out after {self._timeout_s:.0f} s: worker {', '.join(map(str, missing))} was not ready for "
                f"step {number}; max_staleness {self._decision.max_staleness} lets no worker be missing longer",
                missing,
            )
        if number not in box.groups:
            self._propose(number, previous)
        return Group.model_validate(box.groups[number])

    @property
    def _peers(self) -> list[int]:
        return [rank for rank in range(self._mailbox.size) if rank != self._mailbox.rank]

    def _may_step(
        self, number: int, previous: Group, is_expected: Callable[[int], bool], absence: int, past_deadline: bool
    ) -> bool:
        box = self._mailbox
        absent = [rank for rank in range(box.size) if box.ready[rank] != number]
        return rule.may_step(
            box.size - len(absent),
            self._decision.min_group,
            not any(rule.is_overdue(previous.last_rounds[rank], number, absence) for rank in absent),
            not any(is_expected(rank) for rank in absent),
            past_deadline,
        )

    def _propose(self, number: int, previous: Group) -> None:
        """Writes a group unless another was written first, and tells all of the one that holds."""
        box = self._mailbox
        with box.changed:
            members = tuple(rank for rank in range(box.size) if box.ready[rank] == number)
        mine = previous.then(number, members).model_dump_json()
        held = bytes(self._store.compare_set(f"group/{number}", "", mine))
        box.know_group(number, json.loads(held))
        box.post(self._peers, Kind.GROUP, number, held)
