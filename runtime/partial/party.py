"""All that one worker of a program needs to go on without the others: assembled in one place."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.project import Projection
from gnnplan.runtime.partial.gradients import GroupGradient
from gnnplan.runtime.partial.group_steps import GroupSteps, TakeStep
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import Mailbox
from gnnplan.runtime.partial.mesh import Mesh, connect_all
from gnnplan.runtime.partial.peers import PartialWorkers, slots_of
from gnnplan.runtime.partial.rounds import Rounds
from gnnplan.runtime.recorder import Recorder

_runs = itertools.count()  # workers make theirs in the same order, so they agree on a run's number
_CLOSE_S = 10.0  # in which what was posted is still sent


@dataclass
class Party:
    """One worker's mailbox, and what decides over it; close it at the end, after the last step or an error.

    Args:
        timeout_s: longest wait for a worker that cannot be done without.
    """

    mailbox: Mailbox
    lateness: Lateness
    rounds: Rounds
    peers: PartialWorkers
    timeout_s: float
    mesh: Mesh | None = None

    @classmethod
    def of(
        cls,
        projection: Projection,
        decision: PartialReduceDecision,
        recorder: Recorder,
        *,
        num_epochs: int,
        timeout_s: float,
        catch_up: TakeStep,
    ) -> Party:
        """Before the first epoch of a run; every worker must call it, and connect then.

        Args:
            catch_up: takes a step that the others have taken without this worker.
        """
        is_pinned = recorder.device.type == "cuda"
        mailbox = Mailbox(projection.rank, projection.num_workers, slots_of(projection), is_pinned=is_pinned)
        lateness = Lateness.of(mailbox, decision, num_epochs, timeout_s)
        store = dist.PrefixStore(f"partial_reduce/program/{next(_runs)}", _get_default_store())
        rounds = Rounds(mailbox, decision, store, num_epochs, timeout_s, len(projection.cycle.order))
        steps = GroupSteps(lateness, rounds, _gradient(projection.cycle, decision), timeout_s, catch_up)
        return cls(mailbox, lateness, rounds, PartialWorkers(recorder, lateness, steps.join), timeout_s)

    def connect(self) -> None:
        """Opens a connection to every other worker."""
        self.mesh = Mesh(connect_all(self.timeout_s), self.mailbox)
        self.mailbox.open(self.mesh)

    def begin_at(self, epoch: int, refresh_until: int) -> None:
        """Says which epoch is the first of this run, and up to which one all send what is kept."""
        self.rounds.refresh_until = refresh_until
        self.lateness.first_epoch = self.lateness.pace.first_epoch = self.rounds.first_epoch = epoch

    def close(self) -> None:
        """Ends the threads and connections."""
        if self.mesh is not None:
            self.mesh.close(min(self.timeout_s, _CLOSE_S))


def group_sum(cycle: Cycle, program: str) -> Operator | None:
    """The operator of a program that adds gradients up over some of the workers (None: over all of them)."""
    return next((op for op in cycle.programs[program] if op.attributes.get("group")), None)


def _gradient(cycle: Cycle, decision: PartialReduceDecision) -> GroupGradient:
    sums = group_sum(cycle, cycle.order[0])
    sizes, layers = (sums.attributes[name] if sums else () for name in ("sizes", "layers"))
    return GroupGradient(decision, sizes, layers)
