"""The least seconds that an epoch of some workers can take, whatever is chosen for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gnnplan.planner.beside import paces_beside
from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.cost import sums_s
from gnnplan.planner.readers.scaled import on_columns, on_share
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.readers.sustained import sustained_s
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.search.work import SharedWork
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.techniques.registry import technique

_ROUNDING = 1e-6  # relative: the engine counts whole nanoseconds
Frees = Callable[[Operator], bool]


@dataclass(frozen=True)
class Least:
    """Bounds by sets of workers.

    A set's bound has two parts, one after the other. Its workers share the work out without loss, each at the least
    seconds that any choice needs alone, and without any halo. Then they add up the gradients of the weights, which
    nobody has before its work is done. Where plans have to be exact nothing is left out, so what a worker computes
    however little it has is counted as well (`gnnplan.planner.search.work`).

    Under quotas of processor time the bound is of an epoch of a long run, in the mean: single ones may be shorter.
    While workers sum, their quotas fill up, and afterwards they compute without pauses. So the two parts follow one
    another in processor time alone. In the long run there pass, beside it, all pauses that the quotas ask for: those of
    the work, and of what the sum uses of the processor. The bound is the larger of the two.

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
        weights = trained_parameters(base.forward)
        shared = SharedWork(alone) if base.job.most.kind == "exact" else None
        return cls(base.placement, bare_s, sum(base.forward.num_bytes(name, 0) for name in weights), shared)

    def seconds(self, ranks: Sequence[int]) -> float:
        """No plan of exactly these workers has shorter epochs, in the mean of a long run."""
        return max(self.without_pauses_s(ranks), self._sustained_s(ranks))

    def without_pauses_s(self, ranks: Sequence[int]) -> float:
        """No plan of exactly these workers has a shorter epoch, also where it is one that quotas do not stop."""
        return max(self._compute_s(ranks, [self._share(rank) for rank in ranks])) + self._sum_s(ranks)

    def without_sum_s(self, ranks: Sequence[int]) -> float:
        """No plan of exactly these workers has an epoch that is shorter in half of all cases.

        A collective is priced by its mean, and half of them take less. So the sum of the gradients is left out.
        """
        return max(self._compute_s(ranks, [self._share(rank) for rank in ranks]))

    def _sustained_s(self, ranks: Sequence[int]) -> float:
        """With all pauses; 0 where a worker has none."""
        if all(self._share(rank) == 1 for rank in ranks):
            return 0.0
        return max(self._compute_s(ranks, [1.0] * len(ranks))) + self._summing_s(ranks)

    def _share(self, rank: int) -> float:
        """Of the time, in which a worker's quota lets it run."""
        quota = self.placement.profile_of(rank).cpu_quota
        return quota.share if quota else 1.0

    def _summing_s(self, ranks: Sequence[int]) -> float:
        """What the sum uses of any of these workers' processors at least, as its quota has it; 0 where one has none."""
        place = self.placement.of(ranks)
        paces = paces_beside(place)
        # Who is slower than its quota lets it be has no pauses.
        if len(ranks) == 1 or any(self._share(rank) >= paces[self.placement.workers[rank].profile] for rank in ranks):
            return 0.0
        network = Network(place)
        ring = network.all_reduce_processor(float(self.gradient_bytes))
        direct = network.all_to_all_processor(network.to_everyone(float(self.gradient_bytes)))
        return min(
            min(one.seconds, other.seconds) / self.placement.profile_of(rank).num_threads / self._share(rank)
            for rank, one, other in zip(ranks, ring, direct, strict=True)
        )

    def _compute_s(self, ranks: Sequence[int], of_time: Sequence[float]) -> tuple[float, float]:
        """By proportion, and with what is fixed.

        Args:
            of_time: by worker, what share of its sustained seconds counts.
        """
        sustained_s = [self.bare_s[rank] for rank in ranks]
        counted_s = together_s(share * each for share, each in zip(of_time, sustained_s, strict=True))
        if self.shared is None or len(ranks) == 1:
            return counted_s, 0.0
        profiles = [self.placement.workers[rank].profile for rank in ranks]
        return counted_s, self.shared.seconds(profiles, sustained_s, of_time)

    def _sum_s(self, ranks: Sequence[int]) -> float:
        if len(ranks) == 1:
            return 0.0
        return Network(self.placement.of(ranks)).least_sum_s(float(self.gradient_bytes))

    def bound_of_any(self) -> Bound:
        """No plan of any set of the workers has shorter epochs, in the mean of a long run."""
        words = f"balanced compute of up to {len(self.bare_s)} workers, without their gradients' sum"
        return Bound(together_s(self.bare_s), words)

    def bound(self, sets: Iterable[Sequence[int]]) -> Bound:
        """No plan of any of these sets of workers has shorter epochs."""
        best = min(sets, key=self.seconds)
        is_sustained = self._sustained_s(best) > self.without_pauses_s(best)
        proportional_s, fixed_s = self._compute_s(best, [1.0 if is_sustained else self._share(rank) for rank in best])
        with_fixed = " and what is fixed" if fixed_s > proportional_s else ""
        then = "and what their gradients' sum uses, under quotas" if is_sustained else "then their gradients' sum"
        words = f"balanced compute of {len(best)} workers{with_fixed}, {then}"
        return Bound(self.seconds(best), words if len(best) > 1 else f"compute of {self._host(best[0])} alone")

    def _host(self, rank: int) -> str:
        return self.placement.workers[rank].host


def together_s(rates_s: Iterable[float]) -> float:
    """Seconds in which workers of these rates work through the graph, if each has its part without loss."""
    first_s, *others_s = rates_s
    return 1 / sum(1 / rate_s for rate_s in (first_s, *others_s)) if others_s else first_s  # to the bit


def rates_s(
    placement: Placement, alone: Mapping[str, Sequence[Candidate]], frees: Frees = lambda _: False
) -> tuple[float, ...]:
    """Of every worker the least seconds per whole graph, in the mean of many epochs.

    Args:
        alone: as `Least.of` takes them.
        frees: operators that take no time.
    """
    size = len(placement.workers)
    rate_of = {profile: _least_rate_s(each, size, frees) for profile, each in alone.items()}
    return tuple(rate_of[worker.profile] for worker in placement.workers)


def trained_parameters(forward: Cycle) -> set[str]:
    """Parameters that the loss is made of: others have no gradient that is summed."""
    needed: set[str] = set()
    for name in reversed(forward.order):
        for op in reversed(forward.programs[name]):
            if op.kind == "loss" or needed.intersection(op.writes):
                needed.update(op.reads)
    return {name for name in needed if forward.values[name].role == "parameter"}


def _left_out(setting: Setting) -> Frees:
    """Which operators a plan may leave out, at most.

    Where edges may be left out these are all sums over them; where rows are reused, the sums backward.
    """
    asked = (technique(name) for name, is_on in setting.job.pin.asked.items() if is_on)
    if setting.may_prune or any(each.drops_edges for each in asked):
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
    seconds, memo = 0.0, candidate.setting.memo
    # Asked for with operators left out and without; with the candidate, whose place in memory is its name.
    _, parts = memo.lasting(("on a share", id(candidate), share), lambda: (candidate, _on_share(candidate, share)))
    for name, (over_rows, over_columns_s) in parts.items():
        schedule = _least(over_rows, over_columns_s, candidate.cycle.programs[name], frees)
        seconds += candidate.shares[name] * _in_long_run_s(schedule)
    return seconds


def _on_share(candidate: Candidate, share: float) -> dict[str, tuple[Schedule, Mapping[str, float]]]:
    """By program its schedule on a share of the edges, and seconds of all sums in a share of the columns."""
    place, costs = candidate.setting.placement, candidate.setting.costs
    by_rows, by_columns = on_share(candidate.cycle, share), on_columns(candidate.cycle, share)
    return {
        name: (schedule_of(by_rows, name, place, costs), sums_s(by_columns, name, 0, place, costs))
        for name in candidate.shares
    }


def _in_long_run_s(schedule: Schedule) -> float:
    """Of one worker: it computes one operator at a time, and pauses as its quota has it."""
    if all(quota.share == 1 for quota in schedule.quotas.values()):
        return play_epochs(schedule).median_epoch_s
    return float(sustained_s(schedule).max()) * (1 - _ROUNDING)


def _least(over_rows: Schedule, over_columns_s: Mapping[str, float], program: Program, frees: Frees) -> Schedule:
    """The schedule, in which sums over edges take no longer than in columns, and some operators no time."""
    least_s = {**over_columns_s, **{op.key: 0.0 for op in program if frees(op)}}
    tasks = [
        replace(task, seconds=least_s[task.key]) if least_s.get(task.key, task.seconds) < task.seconds else task
        for task in over_rows.tasks
    ]
    return Schedule(over_rows.num_workers, tasks, over_rows.quotas)
