"""What `source_chunks` says of its trainings and timings: times to accuracy, and rows in which chunks are sooner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks._chunks_settings import BASELINES, EXACT, PAPER_SPEEDUPS

_NEAR = 0.005  # of an accuracy: half a point


def near_enough(trainings: Mapping[str, dict]) -> list[str]:
    """Exact training, and whoever comes to its accuracy and ends within half a point; no other can be sooner."""
    exact = trainings[EXACT]
    return [
        name
        for name, of in trainings.items()
        if _steps_to(of, exact) is not None and _gap_pct(of, exact) <= 100 * _NEAR
    ]


def summary(parts: Mapping[str, Mapping[str, dict]]) -> dict:
    """Figures over all rows that are timed, each variant on as many hosts as serve it best; and on all of them."""
    results = _rows(parts)
    return {
        **_counted([_at_soonest(each) for each in results if "soonest_s" in each["variants"][EXACT]]),
        "on_all_hosts": _counted(results),
        **_worst_errors(results),
        "steps_at_10_over_exact": {each["row"]: _at_10(each, "steps_per_s") for each in results},
        "paper_speedups": PAPER_SPEEDUPS,
        "memory_at_10_over_exact": {each["row"]: _at_10(each, "peak_bytes") for each in results},
        "rows": results,
    }


def _rows(parts: Mapping[str, Mapping[str, dict]]) -> list[dict]:
    """Of every row and network that is timed and whose variants are all trained, each variant's figures."""
    of_rows: dict[str, dict[str, dict]] = {}
    for each in parts["trained"].values():
        of_rows.setdefault(each["row"], {})[each["variant"]] = each
    return [
        _row(timed, trainings, parts["by_count"].get(timed["part"]))
        for timed in parts["timed"].values()
        if (trainings := of_rows.get(timed["row"], {})).keys() >= timed["variants"].keys()
    ]


def _row(timed: dict, trainings: Mapping[str, dict], by_count: dict | None) -> dict:
    exact, found = trainings[EXACT], {}
    for name, each in timed["variants"].items():
        of, steps = trainings[name], _steps_to(trainings[name], exact)
        found[name] = {
            **each,
            "val": of["val"],
            "test": of["test"],
            "gap_pct": _gap_pct(of, exact),
            "to_accuracy_s": None if steps is None else steps * each["step_s"],
            **({} if by_count is None else _soonest(name, trainings, by_count["step_s"])),
        }
    return {"row": timed["part"], "needed_val": exact["val"] - _NEAR, "variants": found}


def _gap_pct(of: dict, exact: dict) -> float:
    return 100 * (exact["test"] - of["test"])


def _steps_to(of: dict, exact: dict) -> int | None:
    """Steps until a validation accuracy is first told that is near enough; None where it never is."""
    return next((steps for steps, val, _ in of["curve"] if val >= exact["val"] - _NEAR), None)


def _soonest(name: str, trainings: Mapping[str, dict], step_s: Mapping[str, Mapping[str, float]]) -> dict:
    """A variant's time to accuracy on as many hosts as serve it best; None where it was not near enough to be timed."""
    found = list(_on_counts(name, trainings, step_s))
    if name in BASELINES:  # one host has no halo rows to leave out: there it is exact training
        found += [each for each in _on_counts(EXACT, trainings, step_s) if each[1] == 1]
    seconds, count = min(found, default=(None, None))
    return {"soonest_s": seconds, "soonest_on": count}


def _on_counts(
    name: str, trainings: Mapping[str, dict], step_s: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[float, int]]:
    """Seconds to the accuracy, and on how many hosts."""
    steps = _steps_to(trainings[name], trainings[EXACT])
    for count, each_s in step_s.get(name, {}).items():
        if steps is not None:
            yield steps * each_s, int(count)


def _at_soonest(result: dict) -> dict:
    """The row with every variant on as many hosts as serve it best."""
    of = {name: each | {"to_accuracy_s": each["soonest_s"]} for name, each in result["variants"].items()}
    return result | {"variants": of}


def _at_10(result: dict, figure: str) -> float | None:
    """A figure at B = 10 over exact training's (None in the quick form, which has no such B)."""
    of = result["variants"]
    return of["B = 10"][figure] / of[EXACT][figure] if "B = 10" in of else None


def _counted(results: Sequence[dict]) -> dict:
    chunked = {result["row"]: _best(result) for result in results}
    return {
        "graphs": len(results),
        "graphs_2x": sum(_is_sooner(chunked[r["row"]], r, [EXACT], 2.0) for r in results),
        "graphs_better_than_baselines": sum(_is_sooner(chunked[r["row"]], r, list(BASELINES)) for r in results),
        "by_network": _by_network(results, chunked),
        "worst_accuracy_gap_pct": max(best["gap_pct"] for best in chunked.values()) if chunked else None,
    }


def _worst_errors(results: Sequence[dict]) -> dict:
    of_all = [each for result in results for each in result["variants"].values()]
    return {
        "worst_share_error": max(each["share_error"] for each in of_all) if of_all else None,
        "worst_prediction_error": max(abs(each["prediction_error"]) for each in of_all) if of_all else None,
        "worst_memory_error": max(each["memory_error"] for each in of_all) if of_all else None,
    }


def _by_network(results: Sequence[dict], chunked: Mapping[str, dict]) -> dict[str, dict]:
    """The same counts of graphs, on each network: a graph counts where some model's row on it does."""
    found: dict[str, dict[str, set[str]]] = {}
    for result in results:
        row, _, network = result["row"].partition(", ")
        graph, best = row.rpartition(" on ")[2], chunked[result["row"]]
        of = found.setdefault(network or "here", {"graphs": set(), "graphs_2x": set(), "better_than_baselines": set()})
        of["graphs"].add(graph)
        of["graphs_2x"] |= {graph} if _is_sooner(best, result, [EXACT], 2.0) else set()
        of["better_than_baselines"] |= {graph} if _is_sooner(best, result, list(BASELINES)) else set()
    return {network: {name: len(graphs) for name, graphs in of.items()} for network, of in found.items()}


def _best(result: dict) -> dict:
    """The B that comes to the accuracy soonest; where none does, the one with the least gap."""
    chunks = [each for name, each in result["variants"].items() if name.startswith("B = ")]
    return min(chunks, key=lambda each: (each["to_accuracy_s"] is None, each["to_accuracy_s"] or each["gap_pct"]))


def _is_sooner(best: dict, result: dict, others: Sequence[str], factor: float = 1.0) -> bool:
    """Whether it comes to the accuracy `factor` times as soon as all others that do, and ends within half a point."""
    if best["to_accuracy_s"] is None or best["gap_pct"] > 100 * _NEAR:
        return False
    theirs = [result["variants"][name]["to_accuracy_s"] for name in others]
    return all(seconds is None or best["to_accuracy_s"] * factor <= seconds for seconds in theirs)
