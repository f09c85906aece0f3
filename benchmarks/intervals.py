"""How often intervals contain what was measured: set by some clusters, checked on the others.

It measures nothing: it reads what `prediction` kept, and of plans that a search chose what `planner` did. The residual
of a setting is |log(measured / predicted)| of its median epoch. Settings of one cluster miss alike, so clusters are
split and not settings. The clusters in even places set the tables that gnnplan ships
(`gnnplan.planner.interval.residuals`), the odd ones check them. So that this does not hang on one split, coverage is
also the mean over all splits into halves, or over so many of them drawn at random.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from benchmarks._results import kept
from gnnplan.planner.interval.residuals import quantile
from gnnplan.profiles.errors import UserError

LEVEL = 0.9
_PLACES = 4
_MOST_SPLITS = 300
_Residuals = Callable[[dict], Iterator[float]]


def main(quick: bool) -> dict:
    """Coverage by kind of residuals, of the shipped split and over splits."""
    del quick  # there is nothing to shorten
    found = {kind: _of_kind(clusters_of(kind), of) for kind, of in KINDS.items()}
    return {"interval_coverage": found["profiled"]["coverage"], **found}


def clusters_of(kind: str) -> list[dict]:
    """Clusters with their settings. Those of plans that a search chose were profiled and not calibrated."""
    pinned, chosen = kept("prediction").get("clusters", []), kept("planner").get("rows", [])
    if len(pinned) < 2 or not chosen:
        raise UserError(
            "intervals reads what prediction and planner kept; run python -m benchmarks prediction and planner first"
        )
    return pinned + _by_cluster(chosen) if kind == "profiled" else pinned


def _by_cluster(chosen: Sequence[dict]) -> list[dict]:
    """Rows of `planner` as `prediction` has them; only the ratio of measured to predicted is told of them."""
    found: dict[str, list[dict]] = defaultdict(list)
    for row in chosen:
        found[row["cluster"]].append({"measured_s": 1.0, "before_s": 1.0 + row["error"]})
    return [{"cluster": name, "rows": rows} for name, rows in found.items()]


def _of_kind(clusters: Sequence[dict], of: _Residuals) -> dict:
    by_cluster = [list(of(cluster)) for cluster in clusters]
    table, rest = shipped(clusters, of), [each for residuals in by_cluster[1::2] for each in residuals]
    over_splits = [_covered(*split) for split in _splits(by_cluster)]
    return {
        "table": table,
        "half_width": quantile(table, LEVEL),
        "num_set": len(table),
        "num_checked": len(rest),
        "coverage": _covered(table, rest),
        "coverage_of_half": _covered(table, rest, 0.5),
        "mean_coverage_over_splits": float(np.mean(over_splits)),
        "num_splits": len(over_splits),
    }


def shipped(clusters: Sequence[dict], of: _Residuals) -> list[float]:
    """The sorted residuals of the clusters in even places, as gnnplan ships them."""
    return sorted(round(each, _PLACES) for cluster in clusters[::2] for each in of(cluster))


def _splits(by_cluster: Sequence[Sequence[float]]) -> Iterator[tuple[list[float], list[float]]]:
    numbers = range(len(by_cluster))
    sizes = sorted({len(by_cluster) // 2, (len(by_cluster) + 1) // 2})
    splits = [setting for size in sizes for setting in combinations(numbers, size)]
    for setting in random.Random(0).sample(splits, min(len(splits), _MOST_SPLITS)):
        halves = [[e for n in numbers if (n in setting) == sets for e in by_cluster[n]] for sets in (True, False)]
        if all(halves):
            yield halves[0], halves[1]


def _covered(table: Sequence[float], checked: Sequence[float], level: float = LEVEL) -> float:
    return float(np.mean(np.array(checked) <= quantile(sorted(table), level)))


def _of(predicted_s: Callable[[dict], float | None]) -> _Residuals:
    def residuals(cluster: dict) -> Iterator[float]:
        for row in cluster["rows"]:
            if found := predicted_s(row):
                yield abs(math.log(row["measured_s"] / found))

    return residuals


def _by_others_s(row: dict) -> float | None:
    error = row["error_after_others"]
    return None if error is None else row["measured_s"] * (1 + error)


def _of_pairs(cluster: dict) -> Iterator[float]:
    """Of every two plans of one graph and model: how far the ratio of their epochs was off."""
    by_group: dict[str, list[float]] = defaultdict(list)
    for row in cluster["rows"]:
        by_group[row["group"]].append(math.log(row["measured_s"] / row["before_s"]))
    for misses in by_group.values():
        yield from (abs(one - other) for one, other in combinations(misses, 2))


KINDS: dict[str, _Residuals] = {
    "profiled": _of(lambda row: row["before_s"]),
    "calibrated": _of(lambda row: row["after_s"]),
    "calibrated elsewhere": _of(_by_others_s),
    "pairs": _of_pairs,
}
