"""The main job on an embedded default: measure, plan, simulate, run, compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gnnplan.planner import api
from gnnplan.planner.compare import Comparison
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.here import cluster_of_profile
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.report.tables import plan_table, profile_table
from gnnplan.planner.training_spec import TrainingSpec

EPOCHS = 60


def demo_job() -> Job:
    """A two-layer GCN on a generated graph whose labels can be learnt."""
    return Job(
        schema_version=1,
        name="demo",
        graph=SbmGraph(source="sbm", num_nodes=50_000, average_degree=20.0, num_classes=8, num_features=128),
        model=ModelSpec(kind="gcn", num_layers=2, hidden_channels=128),
        training=TrainingSpec(epochs=EPOCHS),
    )


def run_demo(
    folder: Path,
    num_workers: int,
    bar: Callable[[str, str], Any],
    epochs_bar: Callable[[], Any],
    say: Callable[[RenderableType], None],
) -> tuple[Comparison, dict[str, Path]]:
    """Runs all six steps into `folder`; returns the comparison and the files by what they are."""
    files = {"job": folder / "job.json", "cluster": folder / "cluster.json", "profile": folder / "profile.json"}
    with bar("measuring this machine", "points") as on_progress:
        profile = api.profile_machine(num_workers=num_workers, quick=True, on_progress=on_progress)
    profile.save(files["profile"])
    say(profile_table(profile))

    cluster_of_profile(profile, Path(files["profile"].name)).save(files["cluster"])
    job = demo_job().model_copy(update={"pin": PinnedDecisions(num_workers=num_workers)})
    job.save(files["job"])
    with epochs_bar() as on_event:
        trained = api.train(
            job, files["cluster"], folder, on_plan=lambda plan: say(plan_table(plan)), on_event=on_event
        )
    return trained.comparison, files | trained.files
