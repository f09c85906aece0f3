"""Plans that are decided layer by layer, whatever their job asks for."""

from gnnplan.planner.cluster import resolve
from gnnplan.planner.search.layered import make_layered_plan


def make_plan(job, cluster, graph, on_step=lambda _: None):
    """As `gnnplan.planner.search.make_plan` makes plans of what is no choice yet."""
    return make_layered_plan(job, resolve(cluster), graph, on_step)
