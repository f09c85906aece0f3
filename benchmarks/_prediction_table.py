"""Plans, runs and compares jobs on one cluster: the rows that several prediction benchmarks show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import on_all
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from gnnplan.planner.report.disturbance import run_was_disturbed


def predict_and_run(jobs: Mapping[str, Job], cluster: Cluster, folder: Path, title: str) -> dict:
    """Makes, simulates and runs a plan of each job; prints the table and returns errors with their rows."""
    rows = []
    for index, (name, job) in enumerate(jobs.items()):
        path = folder / f"setting_{index}" / "plan.json"
        plan = api.plan(on_all(job, cluster), cluster, path)
        comparison = api.compare(api.simulate(plan, num_replicas=1000), api.run(path, path.parent))
        epoch = comparison.figure("epoch")
        print(f"{name}: predicted {epoch.predicted * 1e3:.1f} ms, measured {epoch.measured * 1e3:.1f} ms", flush=True)
        rows.append(
            {
                "setting": name,
                "predicted_s": epoch.predicted,
                "measured_s": epoch.measured,
                "error": epoch.error,
                "spread": comparison.epoch_spread,
                "unprofiled_tasks": len(plan.prediction.unprofiled),
                "peak_memory_error": comparison.figure("peak memory, worker 0").error,
                "worst_task": comparison.tasks[0].task,
                "worst_task_cause": comparison.tasks[0].cause,
                "notes": [*run_was_disturbed(comparison.others_share, comparison.stolen_share), *comparison.notes],
            }
        )
    _show(rows, title)
    errors = np.abs([row["error"] for row in rows])
    return {
        "mape": float(errors.mean()),
        "worst": float(errors.max()),
        "median_spread": float(np.median([row["spread"] for row in rows])),
        "settings": len(rows),
        "rows": rows,
    }


def _show(rows: list[dict], title: str) -> None:
    table = Table(title=title)
    for column in ("setting", "predicted", "measured", "error", "run's own spread", "memory error"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        table.add_row(
            row["setting"],
            f"{row['predicted_s'] * 1e3:.1f} ms",
            f"{row['measured_s'] * 1e3:.1f} ms",
            f"{row['error']:+.1%}",
            f"{row['spread']:.1%}",
            f"{row['peak_memory_error']:+.1%}",
        )
    Console().print(table)
