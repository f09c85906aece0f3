"""Models and pairs of techniques against one PyG process; stale and approximate ones against the sequential executor.

Logits after 1 step and loss after 20 (quick: 8), relative L2. A pair acts where both techniques changed the program.

What has run for a number of workers is kept under `out/`, and is not run again by the same code: an interrupted
benchmark goes on.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from operator import itemgetter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from benchmarks._exactness_cases import HALVES, LAYOUTS, is_allowed, needed
from benchmarks._results import code
from gnnplan.planner.techniques.registry import ours
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.launch import launch

ROOT = Path(__file__).parent.parent


def main(quick: bool) -> dict:
    """Runs all cases, one torchrun launch per number of workers."""
    rows = [row for num_workers in ((2,) if quick else (1, 2, 3, 4)) for row in rows_of(num_workers, quick)]
    show(rows)
    return {**worst(rows), "cases": len(rows), **_pairs(rows), "rows": rows}


def worst(rows: list[dict]) -> dict[str, float]:
    """The largest error of all cases, and of those whose rows are float32 and sent as they are.

    A number halfway between two that a compressed row may hold is rounded up by one sum's last bit and down by
    another's. Where a model's rows grow, as GIN's do, 20 steps make much of that. Rows of two bytes are rounded
    everywhere, so a bound of theirs is in tests of their own, and their cases do not count here.
    """
    rows = [row for row in rows if HALVES not in row["chosen"]]
    errors = {id(row): max(row["logits_rel_l2"], row["loss_rel"]) for row in rows}
    plain = [errors[id(row)] for row in rows if "compression" not in row["chosen"]]
    return {
        "max_rel_l2": max(errors.values()),
        "max_rel_l2_uncompressed": max(plain),
        "cases_above_1e5": sum(error > 1e-5 for error in errors.values()),
    }


def rows_of(num_workers: int, quick: bool, cases: str = "all") -> list[dict]:
    """Those of so many workers; of the full form what this code has run before is read.

    Args:
        cases: one of `_exactness_cases.SETS`.
    """
    at = OUT / "exactness" / f"{cases}_{num_workers}_workers-{code()}.json"
    if not quick and at.exists():
        return json.loads(at.read_text())
    with tempfile.TemporaryDirectory(prefix="gnnplan-exactness-") as folder:
        launch(
            "benchmarks._exactness_worker",
            [folder, f"--cases={cases}", *(["--quick"] if quick else [])],
            hosts=[HostGroup(num_workers)],
            folder=Path(folder),
            environment={"PYTHONPATH": str(ROOT)},
            on_event=lambda event: _say(num_workers, **event),
        )
        rows = _in_order(sorted(Path(folder).glob("rows_*.json")))
    if not quick:
        at.parent.mkdir(parents=True, exist_ok=True)
        with replacing(at) as temporary:
            temporary.write_text(json.dumps(rows))
    return rows


def _in_order(paths: Sequence[Path]) -> list[dict]:
    """The rows that the workers have compared, in the order of their cases."""
    found = sorted((row for path in paths for row in json.loads(path.read_text())), key=itemgetter(0))
    if [place for place, _ in found] != [*range(len(found))]:
        raise RuntimeError("a case was compared twice, or not at all")
    return [row for _, row in found]


def _say(num_workers: int, num_done: int, num_cases: int) -> None:
    print(f"{num_workers} workers: {num_done} of {num_cases} cases", file=sys.stderr, flush=True)


def _pairs(rows: list[dict]) -> dict[str, int]:
    """Pairs of techniques: how many there are, may go together, were trained, and both changed the program.

    A pair is trained where nothing else is chosen but what it needs, and what every plan must have: a layout and an
    order of operators.
    """
    pairs = [frozenset(pair) for pair in combinations(ours(), 2)]
    allowed = [pair for pair in pairs if is_allowed(pair)]
    tested, acting = set(), set()
    for row in (row for row in rows if row["num_workers"] > 1):
        chosen, acts = frozenset(row["chosen"]), set(row["acting"])
        for pair in allowed:
            if pair <= chosen and chosen - pair <= {*LAYOUTS, "operator_order", *needed(pair)}:
                tested.add(pair)
                acting |= {pair} if pair <= acts else set()
    return {
        "pairs": len(pairs),
        "pairs_allowed": len(allowed),
        "pairs_tested": len(tested),
        "pairs_acting": len(acting),
    }


def show(rows: list[dict]) -> None:
    """The worst of every model and number of workers, as a table."""
    table = Table(title="largest relative difference from the reference, over all cases of a row")
    for column in ("model", "workers", "cases", "logits after 1 step", "loss after the last"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for key in sorted({(row["model"], row["num_workers"]) for row in rows}):
        group = [row for row in rows if (row["model"], row["num_workers"]) == key]
        logits, loss = (max(row[name] for row in group) for name in ("logits_rel_l2", "loss_rel"))
        table.add_row(key[0], str(key[1]), str(len(group)), f"{logits:.1e}", f"{loss:.1e}")
    Console().print(table)
