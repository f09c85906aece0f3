"""How far shadow prices are off: a resource is moved by 5%, and the whole plan is simulated on the new machines."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.cluster import Placement
from gnnplan.planner.explain import faster
from gnnplan.planner.explain.explain import explain_plan
from gnnplan.planner.explain.prices import BETTER
from gnnplan.planner.lowering import lower_cycle
from gnnplan.planner.plan import Plan
from gnnplan.planner.readers.sustained import long_run_epoch_s
from gnnplan.profiles.machine import MachineProfile

_LEAST_SHARE = 0.005  # of an epoch: what moves it by less is no price that anybody reads


def worst_shadow_error(plan: Plan) -> float | None:
    """The largest error of a plan's prices, as a share of what was said (None: nothing has a price)."""
    said = {price.resources[0]: price.moved_s for price in explain_plan(plan).prices}
    epoch_s = long_run_epoch_s(lower_cycle(plan))
    errors = []
    for words, placement in _better(plan.placement):
        if abs(said.get(words, 0.0)) >= _LEAST_SHARE * epoch_s:
            moved_s = long_run_epoch_s(lower_cycle(plan.model_copy(update={"placement": placement}))) - epoch_s
            errors.append(abs(moved_s / said[words] - 1))
    return max(errors, default=None)


def _better(placement: Placement) -> Iterator[tuple[str, Placement]]:
    """By the words of a price, machines that are described anew: profiled again, or with other links."""
    hosts = list(dict.fromkeys(worker.host for worker in placement.workers))
    if len(placement.workers) > 1:
        yield "compute of all workers", _profiled(placement, set(placement.profiles))
    for rank, worker in enumerate(placement.workers):
        if sum(other.profile == worker.profile for other in placement.workers) == 1:
            yield f"compute of worker {rank} ({worker.host})", _profiled(placement, {worker.profile})
    if len(hosts) > 1:
        yield "links of all hosts", faster.links(hosts)(placement, BETTER)
        yield "latency of all links", faster.latency(placement, BETTER)


def _profiled(placement: Placement, names: set[str]) -> Placement:
    """Some profiles as if every operator took less; what was measured between hosts stays."""
    profiles = {name: _quicker(each) if name in names else each for name, each in placement.profiles.items()}
    return placement.model_copy(update={"profiles": profiles})


def _quicker(profile: MachineProfile) -> MachineProfile:
    tables = {}
    for name, table in profile.operators.items():
        points = tuple(point.model_copy(update={"median_s": point.median_s / BETTER}) for point in table.points)
        tables[name] = table.model_copy(update={"points": points})
    own = BETTER if profile.device_kind == "cpu" else 1.0  # a GPU's launches are its host's work
    overheads = {"host_overhead_s": profile.host_overhead_s / own, "step_overhead_s": profile.step_overhead_s / own}
    return profile.model_copy(update={"operators": tables, **overheads})
