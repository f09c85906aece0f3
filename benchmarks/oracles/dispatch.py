"""The collective batching and scheduling problem itself (MorphGL, definition 1), by CP-SAT: for a score of batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnplan.planner.minibatch.bound import epoch_bound
from gnnplan.planner.minibatch.stages import StageTimes

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar, IntVar, LiteralT

_TICKS = 100_000  # that the longest stage is divided into; stages are rounded down, so that no bound is too high


@dataclass(frozen=True)
class ExactEpoch:
    """The shortest epoch found, and what none can be shorter than.

    Args:
        num_gpu_batches: how many the GPU makes in it; -1 where the solver found none.
    """

    seconds: float
    bound_s: float
    num_gpu_batches: int

    @property
    def is_optimal(self) -> bool:
        """Whether the two meet, to the tick."""
        return self.bound_s >= self.seconds * (1 - 1 / _TICKS)


def solve(
    times: StageTimes, cpu_slots: int, gpu_slots: int, num_batches: int, *, at_most_s: float, limit_s: float = 10.0
) -> ExactEpoch:
    """Routes and start times of every stage that end an epoch soonest, with the buffers of `Buffers`.

    Args:
        at_most_s: an epoch known to be possible; returned where the solver finds none shorter in time.
        limit_s: of solving; then the best so far and its bound are returned.
    """
    from ortools.sat.python import cp_model  # takes a third of a second

    tick_s = max(times.cpu_batching_s, times.gpu_batching_s, times.dma_s, times.model_s) / _TICKS
    least_s = epoch_bound(times, num_batches).seconds
    problem = _Problem(cp_model.CpModel(), times, tick_s, num_batches, at_most_s)
    problem.limit_slots(cpu_slots, gpu_slots)
    problem.break_symmetry()
    problem.model.add(problem.makespan >= int(least_s / tick_s) - 1)
    problem.model.minimize(problem.makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(problem.model)
    # Not a proof that nothing is shorter: rounded down, a possible epoch stays possible.
    assert status != cp_model.INFEASIBLE, f"no epoch takes {at_most_s} s at most"
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ExactEpoch(at_most_s, min(at_most_s, least_s), -1)
    num_gpu = num_batches - sum(solver.value(on_cpu) for on_cpu in problem.on_cpu)
    seconds = min(at_most_s, solver.objective_value * tick_s)
    return ExactEpoch(seconds, min(seconds, max(least_s, solver.best_objective_bound * tick_s)), num_gpu)


class _Problem:
    """Variables of definition 1; the first batches are the CPU's, for one is like another."""

    def __init__(self, model: CpModel, times: StageTimes, tick_s: float, num_batches: int, at_most_s: float) -> None:
        self.model, self.size = model, num_batches
        self.horizon = int(at_most_s / tick_s) + 4 * num_batches  # simulated epochs are rounded to nanoseconds
        cpu, gpu, dma, train = (
            int(seconds / tick_s)
            for seconds in (times.cpu_batching_s, times.gpu_batching_s, times.dma_s, times.model_s)
        )
        self.on_cpu = [model.new_bool_var(f"on_cpu_{i}") for i in range(num_batches)]
        on_gpu = [on.negated() for on in self.on_cpu]
        self.batch, cpu_work = self._stages("batch", cpu, self.on_cpu)
        self.transfer, dma_work = self._stages("transfer", dma, self.on_cpu)
        self.gpu_batch, uva_work = self._stages("gpu_batch", gpu, on_gpu)
        self.train, training = self._stages("train", train, [True] * num_batches)
        model.add_no_overlap(cpu_work)
        model.add_no_overlap(dma_work + uva_work)
        model.add_no_overlap(uva_work + training)
        self.makespan = model.new_int_var(0, self.horizon, "makespan")
        for i in range(num_batches):
            model.add(self.transfer[i] >= self.batch[i] + cpu).only_enforce_if(self.on_cpu[i])
            model.add(self.train[i] >= self.transfer[i] + dma).only_enforce_if(self.on_cpu[i])
            model.add(self.train[i] >= self.gpu_batch[i] + gpu).only_enforce_if(on_gpu[i])
            model.add(self.makespan >= self.train[i] + train)

    def _stages(self, name: str, length: int, present: list) -> tuple[list[IntVar], list[IntervalVar]]:
        starts = [self.model.new_int_var(0, self.horizon, f"{name}_{i}") for i in range(self.size)]
        work = [
            self.model.new_optional_fixed_size_interval_var(start, length, here, f"{name}_work_{i}")
            for i, (start, here) in enumerate(zip(starts, present))
        ]
        return starts, work

    def limit_slots(self, cpu_slots: int, gpu_slots: int) -> None:
        """Constraint 4: a slot is held from the begin of one stage to the begin of the next."""
        held_cpu, held_gpu = [], []
        for i, on_cpu in enumerate(self.on_cpu):
            arrival = self.model.new_int_var(0, self.horizon, f"arrival_{i}")
            self.model.add(arrival == self.transfer[i]).only_enforce_if(on_cpu)
            self.model.add(arrival == self.gpu_batch[i]).only_enforce_if(on_cpu.negated())
            held_cpu.append(self._held(f"cpu_slot_{i}", self.batch[i], self.transfer[i], on_cpu))
            held_gpu.append(self._held(f"gpu_slot_{i}", arrival, self.train[i], True))
        self.model.add_cumulative(held_cpu, [1] * self.size, cpu_slots)
        self.model.add_cumulative(held_gpu, [1] * self.size, gpu_slots)

    def _held(self, name: str, begin: IntVar, end: IntVar, present: LiteralT) -> IntervalVar:
        length = self.model.new_int_var(0, self.horizon, f"{name}_length")
        return self.model.new_optional_interval_var(begin, length, end, present, name)

    def break_symmetry(self) -> None:
        """Batches of one route go through every stage in order of their index."""
        for i in range(self.size - 1):
            same_cpu, same_gpu = [self.on_cpu[i], self.on_cpu[i + 1]], [on.negated() for on in self.on_cpu[i : i + 2]]
            self.model.add_implication(self.on_cpu[i + 1], self.on_cpu[i])
            for starts in (self.batch, self.transfer, self.train):
                self.model.add(starts[i] <= starts[i + 1]).only_enforce_if(same_cpu)
            for starts in (self.gpu_batch, self.train):
                self.model.add(starts[i] <= starts[i + 1]).only_enforce_if(same_gpu)
