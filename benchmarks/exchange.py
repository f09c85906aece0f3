"""The exchange against gloo's own all-to-all on an emulated cluster: same rows, in turn, workers coming unevenly."""

from __future__ import annotations

import json

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, ROOT
from benchmarks._emulated import inside
from benchmarks._prediction_settings import clusters
from gnnplan.profiles.launch import hosts_here, launch

CLUSTERS = ("two uneven", "three uneven", "four uneven")


def main(quick: bool) -> dict:
    """Both sides exchange the same rows in turn on every cluster."""
    rows = []
    for name in CLUSTERS[: 1 if quick else None]:
        cluster, folder = clusters()[name], OUT / "exchange"
        with inside(cluster):
            hosts = hosts_here({host.name: 1 for host in cluster.hosts}, 1)
            launch(
                "benchmarks._exchange_worker",
                [str(folder), str(4 if quick else 24)],
                hosts=hosts,
                folder=folder,
                environment={"PYTHONPATH": str(ROOT)},
            )
        rows += [{"cluster": name, **row} for row in json.loads((folder / "exchange.json").read_text())]
    _show(rows)
    return {"speedup": float(np.exp(np.mean(np.log([row["speedup"] for row in rows])))), "rows": rows}


def _show(rows: list[dict]) -> None:
    table = Table(title="one exchange: receives posted first, and gloo's all-to-all")
    for column in ("cluster", "rows of", "MB a worker", "ours", "gloo's", "gloo's / ours"):
        table.add_column(column, justify="left" if column in ("cluster", "rows of") else "right")
    for row in rows:
        table.add_row(
            row["cluster"],
            row["pattern"],
            f"{row['num_bytes'] / 1e6:.2f}",
            f"{row['ours_s'] * 1e3:.1f} ms (spread {row['ours_spread_s'] / row['ours_s']:.0%})",
            f"{row['gloo_s'] * 1e3:.1f} ms (spread {row['gloo_spread_s'] / row['gloo_s']:.0%})",
            f"{row['speedup']:.2f}x",
        )
    Console().print(table)
