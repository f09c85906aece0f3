"""Predicted against measured median epoch on this machine: the demo and six more settings.

Plans are made from one quick profile of this machine, taken before anything is run; nothing is
fitted to the runs. The spread of the measured epochs stands beside each error.
"""

from __future__ import annotations

from benchmarks._common import OUT, this_machine
from benchmarks._prediction_table import predict_and_run
from gnnplan.planner.demo import demo_job
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, RmatGraph, SbmGraph, TrainingSpec

NUM_WORKERS = 2
_EVERYONE = PinnedDecisions(balance="refined")  # all on one worker would be the easier plan to predict


def settings(quick: bool) -> dict[str, Job]:
    """The demo, then each model on other graphs, widths and depths."""
    sbm = SbmGraph(source="sbm", num_nodes=30_000, average_degree=30, num_features=200, num_classes=16)
    small = SbmGraph(source="sbm", num_nodes=8_000, average_degree=12, num_features=64)
    rmat = RmatGraph(source="rmat", num_nodes=40_000, num_edges=800_000, num_features=128)
    chosen = {
        "gcn, 3 layers, 256, sbm": (sbm, ModelSpec(kind="gcn", num_layers=3, hidden_channels=256)),
        "sage, 3 layers, 128, rmat": (rmat, ModelSpec(kind="sage", num_layers=3, hidden_channels=128)),
        "gat, 2 layers, 128, sbm": (sbm, ModelSpec(kind="gat", num_layers=2, hidden_channels=128)),
        "gin, 2 layers, 64, small": (small, ModelSpec(kind="gin", num_layers=2, hidden_channels=64)),
        "tagcn, 2 layers, 64, rmat": (rmat, ModelSpec(kind="tagcn", num_layers=2, hidden_channels=64)),
        "gcn, 4 layers, 64, dropout, rmat": (
            rmat,
            ModelSpec(kind="gcn", num_layers=4, hidden_channels=64, dropout=0.5),
        ),
    }
    jobs = {"demo": demo_job()}
    for name, (graph, model) in chosen.items():
        jobs[name] = Job(
            schema_version=1, name=name, graph=graph, model=model, training=TrainingSpec(epochs=30), pin=_EVERYONE
        )
    return dict(list(jobs.items())[: 2 if quick else None])


def main(quick: bool) -> dict:
    """Plans, runs and compares every setting."""
    folder = OUT / "prediction_here"
    cluster = this_machine(NUM_WORKERS, quick=True, folder=folder)
    title = f"predicted against measured median epoch, {NUM_WORKERS} workers"
    return predict_and_run(settings(quick), cluster, folder, title)
