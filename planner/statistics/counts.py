"""From statistics to what every worker has of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.model_spec import ModelKind
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.search.entries import hops_of
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.halo import Halos

WITH_LOOPS: frozenset[ModelKind] = frozenset({"gcn", "gat", "gin", "sgc", "appnp", "decoupled_gat"})
"""Whose matrix has one of every vertex."""


def counts_of(halos: Halos, kind: ModelKind, shares: Sequence[float], alike: Sequence[int]) -> Counts:
    """What workers have that share a graph out.

    Of several that are alike the busiest part stands for all.

    Args:
        shares: of the graph, [R] of one worker each.
        alike: [R], how many workers each stands for.
    """
    of = halos.of
    loops = of.num_nodes if kind in WITH_LOOPS else 0
    factors = [_factors(halos, share, count) for share, count in zip(shares, alike, strict=True)]
    even = [of.num_nodes * share for share in shares]
    own = tuple(_some(rows * most_own) for rows, (most_own, _) in zip(even, factors, strict=True))
    halo = tuple(round(halos.rows(share) * most) for share, (_, most) in zip(shares, factors, strict=True))
    edges = [(of.num_edges * share, of.num_edges * share * halos.remote_edges(share)) for share in shares]
    with_loops = [rows * bool(loops) for rows in own]
    return Counts(
        num_nodes=of.num_nodes,
        num_edges=of.num_edges + loops,
        num_workers=sum(alike),
        shares=tuple(shares),
        own=own,
        received=halo,
        sent=halo,
        local_edges=tuple(round(e - far + more) for (e, far), more in zip(edges, with_loops, strict=True)),
        remote_edges=tuple(round(far) for _, far in edges),
        split=tuple(tuple(_some(rows * f) for rows in own) for f in _fractions(of)),  # type: ignore[arg-type]
        even_own=tuple(map(_some, even)),
        busiest=tuple(most for _, most in factors),
        touched=partial(halos.touched, has_loops=bool(loops)),
    )


def _fractions(of: Statistics) -> tuple[float, float, float]:
    return of.train_fraction, of.val_fraction, of.test_fraction


def _factors(halos: Halos, share: float, count: int) -> tuple[float, float]:
    """How many times the own and the halo rows of an even part the busiest of some workers has; alone it is even."""
    most_own, most_halo = (halos.largest(share, name) if count > 1 else 1.0 for name in ("largest_own", "largest_halo"))
    return most_own, most_halo


def _some(rows: float) -> int:
    """A whole number of rows, of which there is one at least."""
    return max(1, round(rows))


def with_entries(cycle: Cycle, of: Statistics) -> Cycle:
    """The cycle whose sparse features have as many entries as the statistics say.

    The first aggregation is measured or, as all further ones, estimated: an entry is zero where those of all rows that
    are summed are, each by itself.
    """
    hops, values = hops_of(cycle), dict(cycle.values)
    for name, value in cycle.values.items():
        if value.layout == "csr":
            density = _density(of, hops.get(name, 0))
            sizes = cycle.spaces[value.space].sizes
            entries = (round(rows * value.num_columns(worker) * density) for worker, rows in enumerate(sizes))
            values[name] = replace(value, num_entries=tuple(entries))
    return replace(cycle, values=values)


def with_use(cycle: Cycle, share: float) -> Cycle:
    """The cycle of whose rows such a share is in use, back too (`gnnplan.planner.program.in_use`)."""
    return replace(cycle, blocks={n: replace(block, in_use=(share, share)) for n, block in cycle.blocks.items()})


def _density(of: Statistics, hop: int) -> float:
    if hop == 0:
        return of.feature_density
    if of.aggregated_density is not None and hop == 1:
        return of.aggregated_density
    summed = (1 + of.num_edges / of.num_nodes) ** hop
    return 1 - (1 - of.feature_density) ** summed
