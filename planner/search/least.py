"""The least seconds that an epoch of some workers can take, whatever is chosen for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Program
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.scaled import on_columns, on_share
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.search.work import SharedWork
from gnnplan.planner.simulator.steady import play_epochs

Frees = Callable[[Operator], bool]


@dataclass(frozen=True)
class Least:
    """Bounds by sets of workers.

    A set's bound has two parts, one after the other. Its workers share the work out without loss, each at the least
    seconds that any choice needs alone, and without any halo. Then they add up the gradients of the weights, which
    nobody has before its work is done. Where plans have to be exact nothing is left out, so what a worker computes
    however little it has is counted as well (`gnnplan.planner.search.work`).

    Args:
        bare_s: of every worker the least seconds per whole graph, without what a plan of the job may leave out.
        gradient_bytes: of all weights.
        shared: what workers compute together (None: something may be left out).
    """

    placement: Placement
    bare_s: tuple[float, ...]
    gradient_bytes: int
    shared: SharedWork | None = None

    @classmethod
    def of(cls, base: Setting, alone: Mapping[str, Sequence[Candidate]]) -> Least:
        """Of a setting of all workers.

        Args:
            alone: by profile, candidates of one such worker that has all of the graph.
        """
        bare_s = rates_s(base.placement, alone, _left_out(base))
        weights = (name for name, value in base.forward.values.items() if value.role == "parameter")
        shared = SharedWork(alone) if base.job.most.kind == "exact" else None
        return cls(base.placement, bare_s, sum(base.forward.num_bytes(name, 0) for name in weights), shared)

    def seconds(self, ranks: Sequence[int]) -> float:
        """No plan of exactly these workers has shorter epochs."""
        return max(self._compute_s(ranks)) + self._sum_s(ranks)

    def _compute_s(self, ranks: Sequence[int]) -> tuple[float, float]:
        """By proportion, and with what is fixed."""
        rates_s = [self.bare_s[rank] for rank in ranks]
        if self.shared is None or len(ranks) == 1:
            return together_s(rates_s), 0.0
        profiles = [self.placement.workers[rank].profile for rank in ranks]
        return together_s(rates_s), self.shared.seconds(profiles, rates_s)

    def _sum_s(self, ranks: Sequence[int]) -> float:
        if len(ranks) == 1:
            return 0.0
        return Network(self.placement.of(ranks)).least_sum_s(float(self.gradient_bytes))

    def bound(self, sets: Iterable[Sequence[int]]) -> Bound:
        """No plan of any of these sets of workers has shorter epochs."""
        best = min(sets, key=self.seconds)
        proportional_s, fixed_s = self._compute_s(best)
        with_fixed = " and what is fixed" if fixed_s > proportional_s else ""
        words = f"balanced compute of {len(best)} workers{with_fixed}, then their gradients' sum"
        return Bound(self.seconds(best), words if len(best) > 1 else f"compute of {self._host(best[0])} alone")

    def _host(self, rank: int) -> str:
        return self.placement.workers[rank].host


def together_s(rates_s: Iterable[float]) -> float:
    """Seconds in which workers of these rates work through the graph, if each has its part without loss."""
    return 1 / sum(1 / rate_s for rate_s in rates_s)


def rates_s(
    placement: Placement, alone: Mapping[str, Sequence[Candidate]], frees: Frees = lambda _: False
) -> tuple[float, ...]:
    """Of every worker the least seconds per whole graph.

    Args:
        alone: as `Least.of` takes them.
        frees: operators that take no time.
    """
    size = len(placement.workers)
    rate_of = {profile: _least_rate_s(each, size, frees) for profile, each in alone.items()}
    return tuple(rate_of[worker.profile] for worker in placement.workers)


def _left_out(setting: Setting) -> Frees:
    """Which operators a plan may leave out, at most.

    Where edges may be left out these are all sums over them; where rows are reused, the sums backward.
    """
    if setting.may_prune:
        return lambda op: "block" in op.attributes or "blocks" in op.attributes
    if setting.refresh_interval > 1:
        return lambda op: "block" in op.attributes and bool(op.attributes.get("back"))
    return lambda _: False


def _least_rate_s(alone: Sequence[Candidate], num_workers: int, frees: Frees) -> float:
    """Least seconds per whole graph at which a worker works through a share of it, over shares and choices."""
    shares = [1.0]
    while shares[-1] > 1 / (4 * num_workers):
        shares.append(shares[-1] / 2)
    return min(_share_s(candidate, share, frees) / share for candidate in alone for share in shares)


def _share_s(candidate: Candidate, share: float, frees: Frees) -> float:
    """Simulated seconds of an epoch of one worker on a share of the graph that has no halo.

    What sums over edges takes the less of two: a share of the edges, or all of them for a share of the columns.
    """
    setting, seconds = candidate.setting, 0.0
    by_rows, by_columns = on_share(candidate.cycle, share), on_columns(candidate.cycle, share)
    for name, of_all in candidate.shares.items():
        over_rows, over_columns = (
            schedule_of(cycle, name, setting.placement, setting.costs) for cycle in (by_rows, by_columns)
        )
        schedule = _least(over_rows, over_columns, by_rows.programs[name], frees)
        seconds += of_all * play_epochs(schedule).median_epoch_s
    return seconds


def _least(over_rows: Schedule, over_columns: Schedule, program: Program, frees: Frees) -> Schedule:
    """The first schedule, in which sums over edges take no longer than in the second, and some operators no time."""
    free = {op.key for op in program if frees(op)}
    sums = {op.key for op in program if "block" in op.attributes}
    tasks = []
    for task, sliced in zip(over_rows.tasks, over_columns.tasks, strict=True):
        least_s = min(task.seconds, sliced.seconds) if task.key in sums else task.seconds
        tasks.append(replace(task, seconds=0.0 if task.key in free else least_s))
    return Schedule(over_rows.num_workers, tasks, over_rows.quotas)
