"""The techniques that there are: one line each, and those that other packages bring.

A package elsewhere joins by an entry point of the group `gnnplan.techniques` that names its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from gnnplan.planner.contracts.technique import AnyTechnique
from gnnplan.profiles.errors import UserError

GROUP = "gnnplan.techniques"

# Within a stage hooks run in this order.
OURS = (
    "sparse_features.technique:SparseFeatures",
    "operator_order.technique:OperatorOrder",
    "source_chunks.technique:SourceChunks",
    "halo_exchange.technique:HaloExchange",
    "feature_slices.technique:FeatureSlices",
    "replicas.technique:Replicas",
    "joint_cache.technique:JointCache",
    "late_halos.technique:LateHalos",
    "boundary_sampling.technique:BoundarySampling",
    "feature_cache.technique:FeatureCache",
    "host_region.technique:HostRegion",
    "destination_chunks.technique:DestinationChunks",
    "offload.technique:Offload",  # after what it finds in ranges
    "first_aggregation.technique:FirstAggregation",
    "compression.technique:Compression",
    "direct_sum.technique:DirectSum",
    "overlap.technique:Overlap",
    "partial_reduce.technique:PartialReduce",
    "half_precision.technique:HalfPrecision",  # after all that writes rows
    "pruning.technique:Pruning",  # last: the search prunes what all others leave uneven
)

# What stands for a whole epoch of another kind: it combines with nothing, and is searched for by itself.
ALONE = ("mini_batch.technique:MiniBatch",)


@cache
def techniques() -> Mapping[str, AnyTechnique]:
    """Every technique by name: ours, then those of other packages by their names."""
    elsewhere = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return _by_name((*_points(OURS), *elsewhere))


@cache
def alone() -> Mapping[str, AnyTechnique]:
    """Those that combine with none of `techniques`, by name."""
    return _by_name(_points(ALONE))


def ours() -> Mapping[str, AnyTechnique]:
    """The techniques of this package that combine."""
    return _by_name(_points(OURS))


def technique(name: str) -> AnyTechnique:
    """A technique by its name."""
    known = {**techniques(), **alone()}
    if name not in known:
        raise UserError(f"technique {name!r} is not known; choose of {', '.join(known)}, or install the one you mean")
    return known[name]


def _points(values: Iterable[str]) -> tuple[EntryPoint, ...]:
    return tuple(EntryPoint(value, f"gnnplan.planner.techniques.{value}", GROUP) for value in values)


def _by_name(points: Iterable[EntryPoint]) -> dict[str, AnyTechnique]:
    found: dict[str, AnyTechnique] = {}
    where: dict[str, str] = {}
    for point in points:
        made = point.load()()
        if made.name in found:
            raise UserError(
                f"technique {made.name!r} is registered twice, by {where[made.name]} and by {point.value}; "
                "uninstall one of them, or rename it"
            )
        found[made.name], where[made.name] = made, point.value
    return found
