"""Plans of small jobs on catalog devices and on hosts of which every second is known, made once."""

from functools import cache

from gnnplan.planner.cluster import Placement
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.make import plan_of
from tests.planner.search.searched import GRAPHS, job_of, placement_of

SLOW = 1e9  # bytes/s, at which exchanges take about what computing takes


def planned(placement: Placement, graph="skewed", *, fidelity="exact", **pin) -> tuple[Plan, Partition]:
    """The plan of a two-layer GCN."""
    job = job_of(ModelSpec(hidden_channels=32), fidelity, **pin)
    return plan_of(job, GRAPHS[graph], decide(job, placement, GRAPHS[graph]))


@cache
def plan_on(name, *, bytes_per_s=SLOW, fidelity="exact", **pin) -> Plan:
    """On one of the clusters of `tests.planner.search.searched`."""
    return planned(placement_of(name, bytes_per_s=bytes_per_s), fidelity=fidelity, **pin)[0]


@cache
def plan_on_three(**pin) -> Plan:
    """On all three of unequal hosts, whose rows all travel."""
    return plan_on("mixed", num_workers=3, dependencies="communicate", **pin)
