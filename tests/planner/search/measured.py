"""Measured stages of mini-batches, made up."""

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.measured_batches import MeasuredBatches, MeasuredWorker, ThreadSplit
from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.planner.plan import GraphFacts

JOB = Job(schema_version=1, name="tiny", graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(10, 5)))
FACTS = GraphFacts(name="sbm", fingerprint="f", num_nodes=700, num_edges=7000, num_features=16, num_classes=4)
STAGES = ("cpu_batch", "gpu_batch", "transfer", "train")


def split(cpu, gpu, dma, model, threads=(1, 1)):
    """A way to share out threads; seconds of the stages in milliseconds."""
    times = {"cpu_batching_s": cpu, "gpu_batching_s": gpu, "dma_s": dma, "model_s": model}
    return ThreadSplit(
        num_loaders=threads[0],
        num_training_threads=threads[1],
        times=StageTimes(**{name: ms / 1e3 for name, ms in times.items()}),
        variation=dict.fromkeys(STAGES, 0.1),
    )


def worker(*splits, num_batches=9, **changes):
    """One that has 10 MB before its first batch, of 1 GB."""
    fields = {
        "num_batches": num_batches,
        "splits": splits,
        "gpu_slots": 2,
        "held_bytes": 10**7,
        "loading_bytes": 10**7,
        "step_bytes": 4096,
        "memory_bytes": 10**9,
        "num_threads": 2,
    }
    return MeasuredWorker(**fields | changes)


def measured(*workers, device_kind="cpu"):
    """By these workers, on batches of 450 vertices."""
    return MeasuredBatches(
        graph=FACTS, device_kind=device_kind, device_name="some", batch_nodes=450, batch_edges=800, workers=workers
    )
