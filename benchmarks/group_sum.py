"""The sum of partial reduce's groups beside gloo's all-reduce on emulated hosts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, ROOT
from benchmarks._emulated import inside
from benchmarks._fluctuation_settings import FULL
from gnnplan.profiles.launch import hosts_here, launch

_SIDES = ("mailbox", "gloo")


def main(quick: bool) -> dict:
    """Both sides add up the same vectors in turn, over all hosts of the `fluctuation` benchmark; quick over two."""
    cluster, folder = (replace(FULL, num_hosts=2) if quick else FULL).cluster(), OUT / "group_sum"
    with inside(cluster):
        launch(
            "benchmarks._group_sum_worker",
            [str(folder), str(3 if quick else 40)],
            hosts=hosts_here({host.name: 1 for host in cluster.hosts}, 1),
            folder=folder,
            environment={"PYTHONPATH": str(ROOT)},
        )
    rows = json.loads((folder / "group_sum.json").read_text())
    _show(rows)
    ratios = [row["mailbox_s"] / row["gloo_s"] for row in rows]
    return {"over_gloo": float(np.exp(np.mean(np.log(ratios)))), "rows": rows}


def _show(rows: list[dict]) -> None:
    table = Table(title="one sum over all workers, from the last one's coming to the last one's end")
    for column in ("MB", "by mailbox", "gloo", "mailbox / gloo"):
        table.add_column(column, justify="right")
    for row in rows:
        sides = (f"{row[f'{s}_s'] * 1e3:.1f} ms (spread {row[f'{s}_spread_s'] / row[f'{s}_s']:.0%})" for s in _SIDES)
        table.add_row(
            f"{row['num_bytes'] / 1e6:.2f}",
            *sides,
            f"{row['mailbox_s'] / row['gloo_s']:.2f}x",
        )
    Console().print(table)
