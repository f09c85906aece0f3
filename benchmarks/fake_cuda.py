"""Programs of plans for GPUs, played on GPUs that are only pretended: devices, waiting, order of streams, and bytes.

No GPU is needed: tensors say that they lie on one and compute on the CPU, so the runtime takes the ways that it takes
with CUDA. The losses are compared with those of the same plan on the CPU. Plans in which sparse rows are aggregated in
every epoch are left out: no search makes them.
"""

from __future__ import annotations

from dataclasses import asdict

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._fake_plans import Planned, cases, planned
from benchmarks._fake_training import Seen, train_on_cpu, train_on_fakes
from gnnplan.planner.search.evaluate import is_played
from gnnplan.runtime.execution.table import EXECUTIONS

DEVICE = "v100"


def main(quick: bool) -> dict:
    """Every model and technique, on 1 to 4 workers."""
    torch.set_num_threads(1)
    kinds: set[str] = set()
    rows = []
    for case, size in cases(quick):
        plan = planned(case, size, DEVICE)
        if not is_played(plan.plan.cycle.cycle()):
            continue
        fake = train_on_fakes(plan)
        kinds |= {kind for seen in fake for kind in seen.kinds}
        rows.append(row_of(plan, fake, train_on_cpu(plan)))
    _show(rows)
    return {"kinds_not_played": sorted(set(EXECUTIONS) - kinds), **totals(rows), "rows": rows}


def totals(rows: list[dict]) -> dict:
    """What counts of many rows."""
    return {
        "programs": sum(row["programs"] for row in rows),
        **{name: sum(row[name] for row in rows) for name in ("wrong_device", "synchronisations", "unordered")},
        "worst_memory_error": max((row["memory_error"] for row in rows), key=abs),
        "worst_loss_error": max(row["loss_error"] for row in rows),
    }


def row_of(plan: Planned, fake: list[Seen], right: list[Seen]) -> dict:
    """What was seen of a plan's workers, and of those on the CPU; of errors the worst worker's."""
    # Executors alone are played: nobody looks at what they make.
    epoch_bytes = [_epoch_peak_bytes(plan, rank) for rank in range(len(fake))]
    pairs = zip(
        [memory.peak_bytes - memory.before_bytes for memory in plan.memory] + epoch_bytes,
        [seen.peak_bytes for seen in fake] + [seen.epoch_peak_bytes for seen in fake],
        strict=True,
    )
    return {
        **asdict(plan.case),
        "num_workers": len(fake),
        "programs": len(plan.plan.cycle.programs) * len(fake),
        "wrong_device": sum(len(seen.wrong_device) for seen in fake),
        "synchronisations": sum(seen.synchronisations.total() for seen in fake),
        "unordered": sum(len(seen.unordered) for seen in fake),
        "faults": _faults(fake),
        "memory_error": max((said / found - 1 for said, found in pairs), key=abs),
        "loss_error": max(
            abs(ours - theirs) / abs(theirs)
            for seen, other in zip(fake, right, strict=True)
            for ours, theirs in zip(seen.losses, other.losses, strict=True)
        ),
    }


def _epoch_peak_bytes(plan: Planned, rank: int) -> int:
    """What a worker's executor is said to need while it trains, its setup left out."""
    said = plan.memory[rank]
    return said.peak_bytes - said.before_bytes - max(said.epoch_bytes, said.setup_bytes) + said.epoch_bytes


def _faults(fake: list[Seen]) -> list[str]:
    """In words, each once."""
    words = [line for seen in fake for line in (*seen.wrong_device, *seen.unordered)]
    words += [f"{operator or 'an epoch'} waits: {what}" for seen in fake for operator, what in seen.synchronisations]
    return sorted(set(words))


def _show(rows: list[dict]) -> None:
    table = Table(title="programs on GPUs that are only pretended; planned over counted bytes, the worst worker's")
    for column in ("model", "techniques", "workers", "wrong device", "synchronisations", "unordered", "bytes", "loss"):
        table.add_column(column, justify="left" if column in ("model", "techniques") else "right")
    for row in rows:
        table.add_row(
            row["model"],
            ", ".join(row["techniques"]) or "-",
            str(row["num_workers"]),
            *(str(row[name]) for name in ("wrong_device", "synchronisations", "unordered")),
            f"{row['memory_error']:+.1%}",
            f"{row['loss_error']:.0e}",
        )
    Console().print(table)
