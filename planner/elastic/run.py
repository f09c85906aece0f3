"""`--elastic`: where workers are lost, plans for who is left, and goes on from the last checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnnplan.planner.checkpoints import CheckpointOptions, checkpoints_in
from gnnplan.planner.cluster import Placement
from gnnplan.planner.elastic.left import Left, in_words
from gnnplan.planner.elastic.replan import plan_for
from gnnplan.planner.elastic.watch import Watch
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import save_plan
from gnnplan.planner.report.units import seconds
from gnnplan.planner.run import run_plan
from gnnplan.planner.run_files import PLAN_FILE
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.errors import LostWorkersError, NoPlanFitsError, RunFailedError, UserError
from gnnplan.profiles.folder import holding
from gnnplan.profiles.launch import Event, answers
from gnnplan.profiles.limits import MAX_RESTARTS

DEFAULT_NUM_RESTARTS = 3


@dataclass(frozen=True)
class Elastic:
    """That a run goes on without workers that are lost.

    Args:
        num_restarts: the most; the next loss ends the run.
        placement: of the workers that may take part (None: those of the plan).
    """

    num_restarts: int = DEFAULT_NUM_RESTARTS
    placement: Placement | None = None

    @classmethod
    def of(cls, given: bool | int) -> Elastic | None:
        """From what a user gives: whether at all, or how many restarts; `UserError` where that is none."""
        if given is False or given is None:
            return None
        if given is not True and not 1 <= given <= MAX_RESTARTS:
            raise UserError(f"elastic must be true, or 1 to {MAX_RESTARTS} restarts, got {given}")
        return cls() if given is True else cls(given)


def run_elastic(
    plan_path: Path,
    folder: Path,
    elastic: Elastic,
    *,
    graph: Graph | None = None,
    module: Any = None,
    checkpoints: CheckpointOptions | None = None,
    on_event: Callable[[Event], None] | None = None,
    timeout_s: float = 300.0,
    **options: Any,
) -> Trace:
    """Runs a plan as `run_plan` does, and goes on with another where workers are lost.

    A worker is lost that is killed, or silent for longer than the timeout, or whose host is cut off. Another plan is
    made for who is left, shards are cut anew, and training goes on from the last whole checkpoint. The folder has the
    last plan, and the trace is of its workers. Losses are told by `on_event` as `Watch` says.

    Args:
        timeout_s: as `run_plan` takes it; measuring mini-batches again for who is left waits no longer either.
        options: as `run_plan` takes them.

    Raises as `run_plan` does; `LostWorkersError` where no restart is left, nobody is, or no plan is for them.
    """
    plan = load_plan(plan_path, module)
    if graph is None and plan.mini_batch is None:
        graph = load_graph(plan.job.graph)
    watch, kept = Watch(on_event), checkpoints or CheckpointOptions()
    options |= {"graph": graph, "module": module, "timeout_s": timeout_s}
    left = Left(elastic.placement or plan.placement, answers)
    going_on = _GoingOn(plan.job, graph, folder, left, watch, timeout_s)
    for restart in range(elastic.num_restarts + 1):
        try:
            return run_plan(plan_path, folder, checkpoints=kept, on_event=watch, **options)
        except LostWorkersError as error:
            if restart == elastic.num_restarts:
                words = f"; restarts so far: {restart}, which are all that were allowed" if restart else ""
                raise LostWorkersError(f"{error}{words}", error.ranks) from None
            kept = replace(kept, resume=kept.resume or watch.has_checkpoint)
            plan_path, plan = going_on.after(error, plan, resume=kept.resume)
    raise AssertionError("the last restart returns or raises")


@dataclass(frozen=True)
class _GoingOn:
    """What becomes of a run that loses workers.

    Args:
        job: as the first plan has it.
        timeout_s: of the run, and of what is measured for another plan.
    """

    job: Job
    graph: Graph | None
    folder: Path
    left: Left
    watch: Watch
    timeout_s: float

    def after(self, error: LostWorkersError, plan: Plan, *, resume: bool) -> tuple[Path, Plan]:
        """The next plan, which lies in the folder.

        Args:
            plan: in which they were lost.
            resume: there may be a checkpoint to go on from.
        """
        lost, how = [plan.placement.workers[rank] for rank in error.ranks], str(error).split(";")[0]
        who = f"lost {in_words(lost)}: {how}" if lost else how
        self.watch.note(f"{who}; planning for who is left")
        placement = self.left.without(lost)
        if placement is None:
            raise LostWorkersError(f"{error}; nobody is left who answers", error.ranks) from None
        made = self._planned(placement, error, plan.partition_file)
        epoch_s = seconds(made.prediction.expected_epoch_s)
        words = f"{who}; going on with {in_words(made.placement.workers)}, {epoch_s} an epoch predicted"
        self.watch.lose(words, _next_epoch(self.folder) if resume else 0)
        return self.folder / PLAN_FILE, made

    def _planned(self, placement: Placement, error: LostWorkersError, partition_file: str) -> Plan:
        try:
            made, partition = plan_for(self.job, placement, self.graph, timeout_s=self.timeout_s)
        except (UserError, NoPlanFitsError, RunFailedError) as fault:
            words = f"there is no plan for {in_words(placement.workers)}: {fault}"
            raise LostWorkersError(f"{error}; {words}", error.ranks) from None
        made = made.model_copy(update={"partition_file": partition_file})
        with holding(self.folder):
            save_plan(made, partition, self.folder / PLAN_FILE)
        return made


def _next_epoch(folder: Path) -> int:
    """From which a run in the folder goes on."""
    whole, _ = checkpoints_in(folder)
    return whole[0].epoch if whole else 0
