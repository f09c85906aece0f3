"""The file that curves are kept in, and which of them have to be made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gnnplan.planner.job import Job
from gnnplan.planner.pilot.contract import Pilots
from gnnplan.planner.pilot.run import DEFAULT_EPOCHS, run_pilots
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.launch import Event


def kept_pilots(
    jobs: Sequence[Job],
    graph: str,
    path: Path,
    *,
    epochs: int = DEFAULT_EPOCHS,
    accuracy: float = 1.0,
    on_event: Callable[[Event], None] | None = None,
) -> Pilots:
    """The curves of a file, with those that it lacks trained and written to it.

    A curve that is there is trained again only where it is shorter than `epochs` and did not come to the accuracy.

    Args:
        jobs, epochs, accuracy, on_event: as `run_pilots` takes them.
        graph: fingerprint of the jobs' graph.

    Raises as `run_pilots` does.
    """
    kept = Pilots.load(path) if path.exists() else None

    def is_short(job: Job) -> bool:
        curve = kept.of(job, graph) if kept else None
        return curve is None or (len(curve.accuracies) < epochs and curve.best < accuracy)

    if short := [job for job in jobs if is_short(job)]:
        check_writable(path)
        kept = run_pilots(short, kept, epochs=epochs, accuracy=accuracy, on_event=on_event)
        kept.save(path)
    assert kept is not None, "no job"
    return kept
