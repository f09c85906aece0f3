"""The real search on some points of a sweep: how far statistics are off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gnnplan.planner.cluster import Placement
from gnnplan.planner.graph import Graph
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.search.decide import decide
from gnnplan.planner.sweep.machines import Asked
from gnnplan.planner.sweep.points import Swept
from gnnplan.profiles.errors import NoPlanFitsError, PinnedOutError

_MOST_WORKERS = 64  # of a point that is checked: the search looks at every worker


def checked(swept: Sequence[Swept], count: int, graph: Graph, on_step: Callable[[str], None]) -> list[Swept]:
    """The points, of which as many as wanted have the seconds of a plan that was searched on the graph itself.

    Those on Pareto fronts come first, the fastest of these first. All workers of a point have to take part, as in what
    was priced, and the shortest epoch is looked for. Where no plan fits, the point stays as it is.
    """
    candidates = [at for at, each in enumerate(swept) if each.point.fits and each.point.num_workers <= _MOST_WORKERS]
    candidates.sort(key=lambda at: (not swept[at].point.is_on_front, swept[at].point.epoch_s))
    found = list(swept)
    for at in candidates[:count]:
        on_step(f"searching for a plan: {swept[at].point.model} on {swept[at].point.machine}")
        found[at] = _checked(swept[at], graph)
    return found


def _checked(swept: Swept, graph: Graph) -> Swept:
    pin = swept.job.pin.model_copy(update={"num_workers": swept.point.num_workers})
    shortest = ObjectiveSpec(memory_margin=swept.job.objective.memory_margin)
    job = swept.job.model_copy(update={"pin": pin, "objective": shortest})
    try:
        best = decide(job, every_worker(swept.asked), graph).best
    except (NoPlanFitsError, PinnedOutError):
        return swept
    return replace(swept, point=swept.point.model_copy(update={"checked_epoch_s": best.epoch_s}))


def every_worker(asked: Asked) -> Placement:
    """All workers of a machine, one by one."""
    if asked.placement is not None:
        return asked.placement
    (one,) = asked.machine.placement.workers
    workers = tuple(
        one.model_copy(update={"host": f"host-{host}", "host_index": host, "device_index": device})
        for host in range(asked.num_hosts)
        for device in range(asked.per_host)
    )
    return asked.machine.placement.model_copy(update={"workers": workers})
