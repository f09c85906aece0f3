"""Reads or generates the graph a job names."""

from __future__ import annotations

from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import (
    EdgeListGraph,
    GraphSpec,
    MemoryGraph,
    NpzGraph,
    OgbGraph,
    PygGraph,
    RmatGraph,
    StatisticsGraph,
)
from gnnplan.profiles.errors import UserError


def load_graph(spec: GraphSpec) -> Graph:
    """Loads or generates the graph of a job, with every `GraphOptions` applied, and validates it.

    Raises:
        UserError: any malformed input, in one line that starts with the file.
    """
    if isinstance(spec, MemoryGraph):
        raise UserError("graph: this job's graph was given in memory; pass it again, as graph=")
    if isinstance(spec, StatisticsGraph):
        raise UserError(f"{spec.path}: these are a graph's statistics, not the graph; only gnnplan whatif takes them")
    # Imported here: PyG alone takes seconds to import, and `gnnplan.planner.generate` needs this package.
    if isinstance(spec, NpzGraph):
        from gnnplan.planner.loaders.npz import load_npz

        return load_npz(spec).validate()
    if isinstance(spec, PygGraph):
        from gnnplan.planner.loaders.pyg import load_pyg

        return load_pyg(spec).validate()
    if isinstance(spec, OgbGraph):
        from gnnplan.planner.loaders.ogb import load_ogb

        return load_ogb(spec).validate()
    if isinstance(spec, EdgeListGraph):
        from gnnplan.planner.loaders.edge_list import load_edge_list

        return load_edge_list(spec).validate()
    from gnnplan.planner.generate import generate_rmat, generate_sbm

    graph = generate_rmat(spec) if isinstance(spec, RmatGraph) else generate_sbm(spec)
    return graph.validate()
