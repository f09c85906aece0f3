"""Statistics of a graph as a table."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from gnnplan.planner.report.layout import new_table
from gnnplan.planner.statistics.contract import Statistics


def statistics_table(of: Statistics) -> RenderableType:
    """Sizes in a line, and what was cut."""
    density = f", {of.feature_density:.2%} not zero" if of.feature_density < 1 else ""
    sizes = (
        f"{of.name}: {of.num_nodes:,} vertices, {of.num_edges:,} edges, {of.num_features:,} features{density}, "
        f"{of.num_classes:,} classes"
    )
    columns = ("parts", "remote edges", "halo rows / N", "largest halo", "largest part")
    table = new_table(f"cut by {of.partitioner}", *columns, words=())
    for cut in of.cuts:
        rows = (f"{cut.remote_edges:.1%}", f"{cut.halo_rows:.2f}", f"{cut.largest_halo:.2f}", f"{cut.largest_own:.2f}")
        table.add_row(str(cut.num_parts), *rows)
    return Group(Text(sizes), table)
