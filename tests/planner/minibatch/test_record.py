"""A run's record says what it is, survives its file, and holds no figure that is none."""

import pytest
from pydantic import ValidationError

from gnnplan.planner.job import Job, MiniBatchSpec, SbmGraph
from gnnplan.planner.minibatch.record import MiniBatchEpoch, MiniBatchRun
from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.profiles.errors import UserError

EPOCH = {
    "route": "resident",
    "cpu_slots": 0,
    "gpu_slots": 0,
    "num_batches": 10,
    "num_gpu_made": 10,
    "predicted_s": 0.5,
    "measured_s": 0.6,
    "gap": -0.1,
    "loss": 1.25,
}


def run(**changes):
    """Of one epoch with everything on the device."""
    fields = {
        "job": Job(schema_version=1, graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(10, 5))),
        "num_workers": 1,
        "device": "cuda",
        "num_cpu_threads": 15,
        "times": StageTimes(
            cpu_batching_s=0.02, gpu_batching_s=0.03, dma_s=0.001, model_s=0.004, resident_batching_s=0.03
        ),
        "variation": {"train": 0.4},
        "epochs": (MiniBatchEpoch(**EPOCH),),
        "accuracy": {"test": 0.75},
    }
    return MiniBatchRun(schema_version=1, **(fields | changes))


def test_a_record_survives_its_file(tmp_path):
    """Equal when it is read again, and named when it is not what is asked for."""
    path = run().save(tmp_path / "record.json")
    assert MiniBatchRun.load(path) == run()
    with pytest.raises(UserError, match="this is a 'mini_batch_run' file, a 'job' file is needed here"):
        Job.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("route", "GPU"), ("num_batches", 0), ("measured_s", 0.0), ("predicted_s", -1.0), ("loss", float("nan"))],
)
def test_epochs_that_cannot_be_are_refused(name, value):
    """A loss that is no number among them: such a run has failed."""
    with pytest.raises(ValidationError, match=name):
        MiniBatchEpoch(**(EPOCH | {name: value}))


@pytest.mark.parametrize("changes", [{"epochs": ()}, {"num_workers": 0}, {"variation": {"train": -0.1}}])
def test_runs_that_cannot_be_are_refused(changes):
    """An epoch and a worker at least."""
    with pytest.raises(ValidationError, match=next(iter(changes))):
        run(**changes)
