"""Source chunks: steps and passes a second, accuracy and memory with B chunks, beside two known ways to send less.

Every row (graph, model) is trained exactly, in 2, 5, 10 and 20 chunks, with a tenth of the halo rows (BNS-GCN) and with
rows of the epoch before (PipeGCN), in one engine and on one partition of four workers. All take as many steps as exact
training has epochs. A pass is B steps; the paper's tables count steps as epochs. An accuracy is that of the test
vertices at the best validation.

A row's trainings are the same on every network, so they run once, on four workers of this machine as it is. Then some
steps of each variant are timed on four emulated hosts, at 1 Gbit/s and at 200 Mbit/s. Time to accuracy is the steps
until validation is within half a point of exact training's best, times the median step there. The quick form has two
workers of this machine.

Fewer hosts may be faster than all. So exact training is timed once more on one to four of them, and so is each variant
that comes to that accuracy and ends within half a point of exact training's. A variant's `soonest_s` is its time to
accuracy on as many hosts as serve it best; on one host both baselines are exact training.

`graphs_2x` counts rows, network by network, in which some B comes to that accuracy in half the time of exact training,
each on as many hosts as serve it best, and to within half a point of its test accuracy; `graphs_better_than_baselines`
those in which it is sooner than both baselines. `by_network` counts graphs in place of rows, and `on_all_hosts` has the
same counts with every variant on all of the hosts. `worst_share_error` is how far edges and halo rows of a step are
from 1/B of an epoch's, `worst_prediction_error` how far predicted steps are from measured ones. Every training, and
every row's timing on a network, is kept when it has ended, and is not run again under the same settings; `missing`
names what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import _chunks_graphs
from benchmarks._chunks_results import near_enough, summary
from benchmarks._chunks_settings import BASELINES, EXACT, NETWORKS, NUM_HOSTS, Row, hosts_of, rows_of, variants
from benchmarks._common import OUT, chosen, fingerprint_of, num_workers_of, on_workers, this_machine, why_absent
from benchmarks._emulated import inside, loaded, profiled, started_fast
from benchmarks._results import Parts
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.trace import Trace

NUM_WORKERS = 2  # of the quick form
_FILE = "source_chunks"
_NUM_EVALUATIONS, _TIMED_STEPS = 50, 24
OnEvent = Callable[[dict], None]


@dataclass(frozen=True)
class Hosts:
    """Where rows are timed.

    Args:
        started: what starts a run; it gives the run's `on_event`.
    """

    cluster: Cluster
    started: Callable[[], AbstractContextManager[OnEvent | None]]


Known = Callable[[], Hosts]
"""Hosts with a profile that is not too old."""


def main(quick: bool) -> dict:
    """Runs all rows whose graph is here."""
    rows, folder = rows_of(quick), OUT / ("source_chunks_quick" if quick else "source_chunks")
    if quick:
        rmtree(folder, ignore_errors=True)
    networks, names = (None,) if quick else NETWORKS, list(variants((1, 2, 5)) if quick else variants())
    here = [row for row in rows if not why_absent(row.name, row.graph)]
    skipped = [reason for row in rows if (reason := why_absent(row.name, row.graph))]
    for name in {row.graph_name for row in here if isinstance(row.graph, NpzGraph)}:
        _chunks_graphs.write(name)
    of_trainings = {_of(row, name): row.fingerprint(name) for row in here for name in names}
    timed = {_on(row, mbit): _print_of_times(row, names) for mbit in networks for row in here}
    parts = Parts(_FILE, {"trained": of_trainings, "timed": timed, "by_count": timed}, summary, is_kept=not quick)
    cluster = unlimited(NUM_WORKERS if quick else NUM_HOSTS)
    for row in here:
        for name in names:
            parts.add("trained", _of(row, name), partial(trained, row, name, cluster, folder / "trained"))
    for mbit in networks:
        place = folder / (str(mbit) if mbit else "here")
        missing = [row for row in here if not all(parts.has(kind, _on(row, mbit)) for kind in ("timed", "by_count"))]
        with _hosts(mbit, place, quick) if missing else nullcontext() as known:
            for row in missing:
                near = near_enough({name: parts.found["trained"][_of(row, name)] for name in names})
                parts.add("timed", _on(row, mbit), partial(_timed, row, names, known, place))
                parts.add("by_count", _on(row, mbit), partial(_by_count, row, near, known, place))
    record = parts.record()
    _show(record["rows"])
    return record | {"skipped": skipped}


def unlimited(num_workers: int) -> Cluster:
    """This machine with so many workers, though it has fewer cores: what is trained there is not timed."""
    cluster = this_machine(NUM_WORKERS, quick=True, folder=OUT)
    (here,) = cluster.hosts
    devices = tuple(each.model_copy(update={"count": num_workers}) for each in here.devices)
    return cluster.model_copy(update={"hosts": (here.model_copy(update={"devices": devices}),)})


def _of(row: Row, variant: str) -> str:
    return f"{row.name}, {variant}"


def _on(row: Row, mbit: int | None) -> str:
    return f"{row.name}, {mbit} Mbit/s" if mbit else row.name


def _print_of_times(row: Row, names: Sequence[str]) -> str:
    return fingerprint_of([_TIMED_STEPS, [row.fingerprint(name) for name in names]])


@contextmanager
def _hosts(mbit: int | None, folder: Path, quick: bool) -> Iterator[Known]:
    """Where rows run, with profiles as they are needed."""
    if mbit is None:
        here = Hosts(this_machine(NUM_WORKERS, quick=quick, folder=OUT), nullcontext)
        yield lambda: here
        return
    cluster = hosts_of(mbit)
    with inside(cluster) as emulation:
        yield lambda: Hosts(profiled(cluster, folder), lambda: started_fast(*emulation))


def trained(row: Row, name: str, cluster: Cluster, place: Path) -> dict:
    """One variant's best validation accuracy, the test accuracy there, and the steps at which validation was better."""
    curve: list[tuple[int, float, float]] = []

    def on_event(event: dict) -> None:
        accuracy = event.get("accuracy")  # others tell of checkpoints
        if accuracy and (not curve or accuracy["val"] > curve[-1][1]):
            curve.append((event["epoch"] + 1, accuracy["val"], accuracy["test"]))

    plan, at = _plan(row, name, row.steps, cluster, place)
    api.run(at, at.parent, graph=loaded(row.graph), num_evaluations=_NUM_EVALUATIONS, on_event=on_event)
    _, val, test = curve[-1]
    return {"row": row.name, "variant": name, "num_chunks": _num_chunks(plan), "val": val, "test": test, "curve": curve}


def _timed(row: Row, names: Sequence[str], known: Known, place: Path) -> dict:
    """Seconds of a step, memory, and what was predicted, by variant."""
    hosts, found, cycles = known(), {}, {}
    for name in names:
        plan, at = _plan(row, name, _TIMED_STEPS, hosts.cluster, place)
        with hosts.started() as on_event:
            measured = api.run(at, at.parent, graph=loaded(row.graph), on_event=on_event)
        found[name], cycles[name] = _figures(plan, measured), plan.cycle.cycle()
    for name, each in found.items():
        each["share_error"] = _share_error(cycles[name], cycles[EXACT], each["num_chunks"])
    return {"row": row.name, "variants": found}


def _by_count(row: Row, names: Sequence[str], known: Known, place: Path) -> dict:
    """Seconds of a step by variant and number of workers; on one worker a baseline is exact training."""
    hosts = known()
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for count in range(1, num_workers_of(hosts.cluster) + 1):
        for name in names:
            if count > 1 or name not in BASELINES:
                _, at = _plan(row, name, _TIMED_STEPS, hosts.cluster, place, count)
                with hosts.started() as on_event:
                    measured = api.run(at, at.parent, graph=loaded(row.graph), on_event=on_event)
                found[name][str(count)] = measured.median_epoch_s
    return {"row": row.name, "step_s": found}


def _plan(
    row: Row, name: str, steps: int, cluster: Cluster, place: Path, count: int | None = None
) -> tuple[Plan, Path]:
    """A plan on so many workers (None: all)."""
    workers = count or num_workers_of(cluster)
    folder = f"{_of(row, name).replace(' ', '_').replace('%', '_pct')}-{row.fingerprint(name)}"
    at = place / (folder if count is None else f"{folder}-on_{count}") / "plan.json"
    return api.plan(on_workers(row.job(name, steps), workers), cluster, at, graph=loaded(row.graph)), at


def _num_chunks(plan: Plan) -> int:
    return (chosen(plan, "source_chunks") or {"num_chunks": 1})["num_chunks"]


def _figures(plan: Plan, measured: Trace) -> dict:
    num_chunks, step_s = _num_chunks(plan), measured.median_epoch_s
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
    }


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


def _show(results: Sequence[dict]) -> None:
    table = Table(title="source chunks beside exact training and two baselines")
    columns = ("row", "variant", "steps/s", "passes/s", "to accuracy", "best hosts", "test", "peak MB", "predicted")
    for column in columns:
        table.add_column(column, justify="left" if column in ("row", "variant") else "right")
    for result in results:
        for name, each in result["variants"].items():
            soonest = each.get("soonest_s")
            table.add_row(
                result["row"],
                name,
                f"{each['steps_per_s']:.1f}",
                f"{each['passes_per_s']:.1f}",
                _seconds(each["to_accuracy_s"]),
                "" if soonest is None else f"{_seconds(soonest)} on {each['soonest_on']}",
                f"{each['test']:.3f}",
                f"{each['peak_bytes'] / 1e6:.0f}",
                f"{each['prediction_error']:+.0%}",
            )
    Console(width=120).print(table)


def _seconds(of: float | None) -> str:
    return "never" if of is None else f"{of:.2f} s"
