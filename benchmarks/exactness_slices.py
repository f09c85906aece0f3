"""Feature slices against one PyG process: every model, in one group of workers and in two, in chunks, with a pipeline.

Logits after 1 step and loss after 20 (quick: 8), relative L2, on 1 to 4 workers; two groups need 2 or 4. A loss after
some steps holds the gradients of all weights, those of attention among them.
"""

from __future__ import annotations

from benchmarks.exactness import rows_of, show, worst


def main(quick: bool) -> dict:
    """Runs all cases, one torchrun launch per number of workers."""
    rows = [row for size in ((2,) if quick else (1, 2, 3, 4)) for row in rows_of(size, quick, "slices")]
    show(rows)
    return {**worst(rows), "cases": len(rows), "rows": rows}
