"""The shapes the profiler times: a quick grid for a first look, a full one to plan by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

from gnnplan.profiles.operators import OPERATORS
from gnnplan.profiles.over_edges import OF_HEADS, OF_ROWS, OF_SCORES

Shape = tuple[float, ...]
Axes = dict[str, tuple[float, ...]]

_ATTENTION = (*OF_ROWS, *OF_SCORES)
_TEMPORARIES = 4  # of the largest kind beside which attention fits a GPU; it has three at once


@dataclass(frozen=True)
class Grid:
    """Values per axis name, the seconds spent on each point, and the passes over the collectives' points.

    Collectives are few points that weigh much, and a second pass over them is cheap; operators are many, and
    making their inputs on a share of a core takes longer than timing them. `own_axes` has the values of
    operators that have others.
    """

    axes: Axes
    collective_bytes: tuple[float, ...]
    budget_s: float
    num_collective_passes: int = 2
    own_axes: dict[str, Axes] = field(default_factory=dict)

    def axes_of(self, operator: str) -> Axes:
        """The values of each of the operator's axes, in its order."""
        values = self.axes | self.own_axes.get(operator, {})
        return {axis: values[axis] for axis in OPERATORS[operator].axes}

    def shapes(self, operator: str) -> list[Shape]:
        """Every combination of the operator's axis values."""
        return list(product(*self.axes_of(operator).values()))

    def within(self, memory_bytes: float) -> Grid:
        """For a GPU: without as many rows of attention as its temporaries, a row of each edge, have no room for."""
        own_axes = dict(self.own_axes)
        for operator in _ATTENTION:
            axes = self.axes_of(operator)
            _, *others = (values[-1] for values in axes.values())
            most_bytes = [temporary_bytes((rows, *others)) for rows in axes["num_rows"]]
            num_fitting = sum(size * _TEMPORARIES <= memory_bytes for size in most_bytes)
            own_axes[operator] = axes | {"num_rows": axes["num_rows"][: max(2, num_fitting)]}
        return replace(self, own_axes=own_axes)


def temporary_bytes(shape: Shape) -> float:
    """Of one of the temporaries that `gnnplan.profiles.kernels.edges` makes on a GPU: [E, H * C] or [E, H]."""
    num_rows, degree, width = shape
    return 4 * num_rows * degree * width


# Words in a document, and in all documents a hop away.
_FEATURES: dict[str, Axes] = {"spmm_features": {"degree": (4, 32, 256)}}
_FEWER_FEATURES: dict[str, Axes] = {"spmm_features": {"degree": (4, 32, 128)}}

_KIB, _MIB = 1024.0, 1024.0**2
_FEW_WIDTHS: Axes = {"width": (8, 64, 512)}
_HEADS = (1, 8)

# What these take a row grows by up to five times as rows and results leave the caches, sooner the more workers share
# them: one size more lies where that happens.
_GATHERING = ("spmm", "spmm_half", "spmm_transposed", *OF_ROWS, "gather_rows", "scatter_add_rows")

_FEW = (*OF_HEADS, "pack_columns")  # which take next to nothing of an epoch

# Of a slice of narrow rows. An edge takes next to as long with 2 columns as with 8, for a line of memory has 16: what
# wider rows tell of it is up to six times too short.
_NARROW = {"spmm": 2, "spmm_half": 2, "spmm_transposed": 2, **dict.fromkeys(OF_ROWS, 4)}  # of heads a channel each


def _own_axes(features: dict[str, Axes], widths: tuple[float, ...], *num_rows: float) -> dict[str, Axes]:
    """Scores are a few numbers an edge or a row, which fewer sizes tell of; seconds of tiles are nearly linear."""
    first, second, *_, last = num_rows
    tiled: Axes = {"num_rows": (12288, last), "degree": (25, 128), "width": (128, 512)}
    few: Axes = {"num_rows": (first, second, last)}
    gathering: dict[str, Axes] = {operator: {"num_rows": num_rows} for operator in _GATHERING}
    for operator, narrow in _NARROW.items():
        gathering[operator]["width"] = (narrow, *widths)
    own = features | gathering | {"spmm_tiled": tiled}
    return own | dict.fromkeys(OF_SCORES, few) | dict.fromkeys(_FEW, few | _FEW_WIDTHS)


QUICK = Grid(
    axes={
        "num_rows": (256, 4096, 32768),
        "in_width": (8, 64, 512),
        "out_width": (8, 64, 512),
        "width": (8, 64, 512),
        "degree": (0.25, 4, 64),
        "num_elements": (2**12, 2**18, 3 * 2**20, 2**23),
        "heads": _HEADS,
        "num_classes": (2, 7, 8, 15, 16, 64),
        "num_bytes": (4 * _KIB, 1 * _MIB, 64 * _MIB),
    },
    collective_bytes=(4.0, 64 * _KIB, 1 * _MIB, 16 * _MIB),
    budget_s=0.03,
    num_collective_passes=1,
    own_axes=_own_axes(_FEATURES, (8, 64, 512), 256, 4096, 12288, 32768),
)

FULL = Grid(
    axes={
        "num_rows": (256, 2048, 16384, 65536),
        "in_width": (8, 64, 256, 1024),
        "out_width": (8, 64, 256, 512),
        "width": (8, 32, 128, 256, 512),
        "degree": (0.25, 2, 8, 32, 64),
        "num_elements": (2**10, 2**14, 2**18, 2**22, 2**25),
        "heads": _HEADS,
        "num_classes": (2, 7, 8, 15, 16, 128),
        "num_bytes": (4 * _KIB, 64 * _KIB, 1 * _MIB, 16 * _MIB, 256 * _MIB),
    },
    collective_bytes=(4.0, 4 * _KIB, 64 * _KIB, 512 * _KIB, 4 * _MIB, 32 * _MIB),
    budget_s=0.1,
    own_axes=_own_axes(_FEATURES, (8, 32, 128, 256, 512), 256, 2048, 6144, 16384, 65536),
)

# Temporaries of 8 GiB at most.
_CUDA_ATTENTION: Axes = {
    "num_rows": (256, 4096, 32768, 131072),
    "degree": (0.25, 4, 32),
    "width": (8, 32, 128, 512),
    "heads": _HEADS,
}

# Drawing more words takes longer than timing them; beyond these an entry is taken to cost what it costs here.
_CUDA_FEATURES: Axes = {"num_rows": (256, 4096, 32768, 262144), "degree": (4, 32, 128)}

# A GPU needs larger shapes before it is busy, and has the speed to time them.
CUDA = Grid(
    axes={
        **FULL.axes,
        "num_rows": (256, 4096, 32768, 262144, 1048576),
        "degree": (0.25, 4, 16, 64),
        "width": (8, 32, 128, 256, 512),
        "num_elements": (2**12, 2**16, 2**20, 2**24, 2**28),
    },
    collective_bytes=(4.0, 64 * _KIB, 1 * _MIB, 16 * _MIB, 128 * _MIB, 512 * _MIB),
    budget_s=0.05,
    own_axes=dict.fromkeys(_ATTENTION, _CUDA_ATTENTION)
    | dict.fromkeys(_FEW, _FEW_WIDTHS)
    | {"spmm_features": _CUDA_FEATURES},
)

# Every tile passes over all rows of the result, which no cache holds where there are so many.
_LARGE_TILED: Axes = {"num_rows": (12288, 24576, 98304), "degree": (25, 128), "width": (128, 512)}

# The largest shapes are left out, which would take minutes on a small share of a core.
QUOTA = Grid(
    axes={
        "num_rows": (256, 4096, 24576),
        "in_width": (8, 64, 256, 768),
        "out_width": (8, 64, 256, 512),
        "width": (8, 64, 256, 512),
        "degree": (0.25, 4, 32),
        "num_elements": (2**12, 2**16, 2**20, 3 * 2**20, 2**23),
        "heads": _HEADS,
        "num_classes": (2, 7, 8, 15, 16, 64),
        "num_bytes": (4 * _KIB, 256 * _KIB, 4 * _MIB, 12 * _MIB, 32 * _MIB),
    },
    collective_bytes=(4.0, 16 * _KIB, 64 * _KIB, 256 * _KIB, 1 * _MIB, 4 * _MIB, 16 * _MIB),
    budget_s=0.15,
    own_axes=_own_axes(_FEWER_FEATURES, (8, 64, 256, 512), 256, 4096, 12288, 24576) | {"spmm_tiled": _LARGE_TILED},
)

GRIDS = {
    "quick": QUICK,
    "full": FULL,
    "cuda": CUDA,
    "quota": QUOTA,
    "quick_quota": replace(QUICK, budget_s=QUOTA.budget_s, own_axes=QUICK.own_axes | _FEWER_FEATURES),
}
