"""Source chunks: steps and passes a second, accuracy and memory with B chunks, beside two known ways to send less.

Every row (graph, model, network) is trained exactly, in 2, 5, 10 and 20 chunks, with a tenth of the halo rows (BNS-GCN)
and with rows of the epoch before (PipeGCN), in one engine and on one partition. All take as many steps as exact
training has epochs. A pass is B steps; the paper's tables count steps as epochs. Time to accuracy is the steps until
a variant's validation accuracy is within half a point of exact training's last one, times its median step.

The full form runs on four emulated hosts, at 1 Gbit/s and at 200 Mbit/s; the quick form on two workers of this machine.
`graphs_2x` counts rows in which some B comes to that accuracy in half the time of exact training, with a final accuracy
within half a point; `graphs_better_than_baselines` those in which it is sooner than both baselines.
`worst_share_error` is how far edges and halo rows of a step are from 1/B of an epoch's, `worst_prediction_error` how
far predicted steps are from measured ones. A row is kept when its runs have ended; what is there under the same
settings is not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._chunks_settings import BASELINES, EXACT, PAPER_SPEEDUPS, Row, hosts_of, rows_of, variants
from benchmarks._common import OUT, chosen, fingerprint_of, on_all, this_machine, why_absent
from benchmarks._emulated import inside, loaded, started_fast
from benchmarks._results import about, keep, kept_parts, record_of
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.trace import Trace

NUM_WORKERS = 2  # of the quick form
_FILE = "source_chunks"
_NEAR = 0.005  # of an accuracy: half a point
_NUM_EVALUATIONS = 60
OnEvent = Callable[[dict], None]
Started = Callable[[], AbstractContextManager[OnEvent | None]]


def main(quick: bool) -> dict:
    """Runs all rows whose graph is here."""
    rows, folder = rows_of(quick), OUT / ("source_chunks_quick" if quick else "source_chunks")
    skipped = [reason for row in rows if (reason := why_absent(row.name, row.graph))]
    prints = {row.name: fingerprint_of([row.name, row.job(EXACT, 0), variants()]) for row in rows}
    results = {} if quick else kept_parts(_FILE, "rows", "row", prints)
    for mbit in dict.fromkeys(row.mbit for row in rows):
        here = [row for row in rows if row.mbit == mbit and not why_absent(row.name, row.graph)]
        missing = [row for row in here if row.name not in results]
        if not missing:
            continue
        with _cluster(mbit, folder, quick) as (cluster, started):
            for row in missing:
                found = _row(row, cluster, folder, started, quick)
                results[row.name] = {**found, "settings": prints[row.name], **about()}
                if not quick:
                    keep(_FILE, record_of(_FILE, _result(results, skipped)))
    _show([*results.values()])
    return _result(results, skipped)


def _result(results: dict[str, dict], skipped: list[str]) -> dict:
    rows = list(results.values())
    return {**_summary(rows), "skipped": skipped, "paper_speedups": PAPER_SPEEDUPS, "rows": rows}


@contextmanager
def _cluster(mbit: int | None, folder: Path, quick: bool) -> Iterator[tuple[Cluster, Started]]:
    """The hosts that a row runs on, and what starts its runs."""
    if mbit is None:
        yield this_machine(NUM_WORKERS, quick=quick, folder=folder), nullcontext
        return
    path, cluster = folder / f"profile_{mbit}" / "cluster.json", hosts_of(mbit)
    with inside(cluster) as emulation:
        if not path.exists():
            api.profile_cluster(cluster, path.parent, quick=quick)
        yield Cluster.load(path), lambda: started_fast(*emulation)


def _row(row: Row, cluster: Cluster, folder: Path, started: Started, quick: bool) -> dict:
    names = list(variants((1, 2, 5)) if quick else variants())
    found = {}
    for name in names:
        place = folder / row.name.replace(" ", "_").replace("/", "_") / name.replace(" ", "_").replace("%", "_pct")
        found[name] = _variant(row, name, cluster, place, started)
    exact, cycles = found[EXACT], {name: each.pop("cycle") for name, each in found.items()}
    needed = exact["val"] - _NEAR
    for name, each in found.items():
        each["to_accuracy_s"] = _to_accuracy_s(each, needed)
        each["gap_pct"] = 100 * (exact["test"] - each["test"])
        each["share_error"] = _share_error(cycles[name], cycles[EXACT], each["num_chunks"])
        each.pop("curve")
    return {"row": row.name, "needed_val": needed, "variants": found}


def _variant(row: Row, name: str, cluster: Cluster, place: Path, started: Started) -> dict:
    graph, curve = loaded(row.graph), []
    plan = api.plan(on_all(row.job(name, seed=0), cluster), cluster, place / "plan.json", graph=graph)
    with started() as on_epoch:

        def on_event(event: dict) -> None:
            curve.append((event["epoch"], event["accuracy"].get("val", 0.0)))
            if on_epoch:
                on_epoch(event)

        measured = api.run(place / "plan.json", place, graph=graph, num_evaluations=_NUM_EVALUATIONS, on_event=on_event)
    return {**_figures(plan, measured), "curve": curve, "cycle": plan.cycle.cycle()}


def _figures(plan: Plan, measured: Trace) -> dict:
    num_chunks = (chosen(plan, "source_chunks") or {"num_chunks": 1})["num_chunks"]
    step_s = measured.median_epoch_s
    return {
        "num_chunks": num_chunks,
        "steps_per_s": 1 / step_s,
        "passes_per_s": 1 / (step_s * num_chunks),
        "step_s": step_s,
        "prediction_error": plan.prediction.expected_epoch_s / step_s - 1,
        "memory_error": max(
            abs(load.peak_bytes / peak - 1)
            for load, peak in zip(plan.prediction.workers, measured.peak_bytes, strict=True)
        ),
        "peak_bytes": max(measured.peak_bytes),
        "val": measured.accuracy["val"],
        "test": measured.accuracy["test"],
    }


def _to_accuracy_s(of: dict, needed: float) -> float | None:
    """Seconds of training until an accuracy is first told that is near enough; None where it never is."""
    reached = [epoch for epoch, accuracy in of["curve"] if accuracy >= needed]
    if not reached and of["val"] >= needed:
        reached = [of["curve"][-1][0]]
    return (reached[0] + 1) * of["step_s"] if reached else None


def _share_error(cycle: Cycle, exact: Cycle, num_chunks: int) -> float:
    """How far the mean step's halo rows, there and back, are from 1/B of an exact epoch's; 0 where nothing moves."""
    if num_chunks == 1:
        return 0.0
    (whole,) = (_rows_sent(exact, name) for name in exact.order)
    mean = float(np.mean([_rows_sent(cycle, name) for name in cycle.order]))
    return abs(mean * num_chunks / whole - 1) if whole else 0.0


def _rows_sent(cycle: Cycle, name: str) -> int:
    ops = (op for op in cycle.programs[name] if op.kind == "exchange" and "level" in op.attributes)
    return sum(int(cycle.routes[op.attributes["route"]].counts.sum()) for op in ops)


def _summary(results: Sequence[dict]) -> dict:
    chunked = {result["row"]: _best(result) for result in results}
    of_all = [each for result in results for each in result["variants"].values()]
    return {
        "graphs": len(results),
        "graphs_2x": sum(_is_sooner(chunked[r["row"]], r, [EXACT], 2.0) for r in results),
        "graphs_better_than_baselines": sum(_is_sooner(chunked[r["row"]], r, list(BASELINES)) for r in results),
        "worst_accuracy_gap_pct": max(best["gap_pct"] for best in chunked.values()) if chunked else None,
        "worst_share_error": max(each["share_error"] for each in of_all) if of_all else None,
        "worst_prediction_error": max(abs(each["prediction_error"]) for each in of_all) if of_all else None,
        "worst_memory_error": max(each["memory_error"] for each in of_all) if of_all else None,
    }


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


def _show(results: Sequence[dict]) -> None:
    table = Table(title="source chunks beside exact training and two baselines")
    columns = ("row", "variant", "steps/s", "passes/s", "to accuracy", "test", "peak MB", "predicted")
    for column in columns:
        table.add_column(column, justify="left" if column in ("row", "variant") else "right")
    for result in results:
        for name, each in result["variants"].items():
            seconds = each["to_accuracy_s"]
            table.add_row(
                result["row"],
                name,
                f"{each['steps_per_s']:.1f}",
                f"{each['passes_per_s']:.1f}",
                "never" if seconds is None else f"{seconds:.2f} s",
                f"{each['test']:.3f}",
                f"{each['peak_bytes'] / 1e6:.0f}",
                f"{each['prediction_error']:+.0%}",
            )
    Console(width=120).print(table)
