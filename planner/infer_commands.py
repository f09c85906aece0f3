"""The verb `infer`."""

from __future__ import annotations

import argparse
import json

from rich.console import Console

from gnnplan.planner.infer_verb import infer as infer_job
from gnnplan.planner.inference.forward import ForwardPrediction
from gnnplan.planner.report.output import print_plain, print_wrote
from gnnplan.planner.report.progress import steps
from gnnplan.planner.report.units import seconds


def infer(arguments: argparse.Namespace) -> None:
    """`gnnplan infer`."""
    notes = Console(stderr=True)

    def say(predicted: ForwardPrediction) -> None:
        most = max(predicted.peak_bytes) / 2**20
        words = f"the forward half is predicted to take {seconds(predicted.seconds)} and {most:,.0f} MiB a worker"
        print_plain(words, notes)

    with steps(notes, "reading the plan") as on_step:
        made = infer_job(
            arguments.plan,
            arguments.weights,
            arguments.output,
            of=arguments.of,
            timeout_s=arguments.timeout,
            on_step=on_step,
            on_prediction=say,
        )
    facts = {
        "output": str(made.path),
        "shape": list(made.shape),
        "seconds": made.seconds,
        "predicted_s": made.predicted.seconds,
        "predicted_peak_bytes": list(made.predicted.peak_bytes),
    }
    if arguments.json:
        print(json.dumps(facts))
        return
    rows, columns = made.shape
    words = f"{rows:,} rows of {columns} in {seconds(made.seconds)} ({seconds(made.predicted.seconds)} predicted)"
    print_plain(words)
    print_wrote(arguments, made.path)
