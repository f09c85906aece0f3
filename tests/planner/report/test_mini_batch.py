"""The table of a mini-batch run says what was measured, planned and learned."""

from rich.console import Console

from gnnplan.planner.job import Job, MiniBatchSpec, SbmGraph
from gnnplan.planner.minibatch.record import MiniBatchEpoch, MiniBatchRun
from gnnplan.planner.minibatch.stages import SideBySide, StageTimes
from gnnplan.planner.report.mini_batch import mini_batch_table


def shown(num_epochs, **changes):
    """The table's text."""
    epoch = MiniBatchEpoch(
        route="collective",
        cpu_slots=4,
        gpu_slots=2,
        num_batches=10,
        num_gpu_made=3,
        predicted_s=0.5,
        measured_s=0.6,
        gap=0.02,
        loss=1.25,
    )
    run = MiniBatchRun(
        schema_version=1,
        job=Job(schema_version=1, graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(10, 5))),
        num_workers=1,
        device="cpu",
        num_cpu_threads=2,
        times=StageTimes(cpu_batching_s=0.02, gpu_batching_s=0.03, dma_s=0.001, model_s=0.004),
        variation={"cpu_batch": 0.1, "transfer": 0.2, "gpu_batch": 0.3, "train": 0.4},
        epochs=(epoch,) * num_epochs,
        accuracy={"test": 0.75},
    )
    console = Console(width=200)
    with console.capture() as capture:
        console.print(mini_batch_table(run.model_copy(update=changes)))
    return capture.get()


def test_everything_is_there():
    """Fan-outs, stages, the plan beside the time it took, accuracy."""
    text = shown(2)
    for words in ("10-5", "20 ms", "collective", "3 of 10", "4/2", "500 ms", "600 ms", "2.0%", "1.250", "test 75.00%"):
        assert words in text, words
    assert "kept on the device" not in text


def test_of_many_epochs_the_first_and_last_are_shown():
    """Eight of twenty."""
    text = shown(20)
    assert text.count("collective") == 8
    assert "12 epochs in between not shown" in " ".join(text.split())


def test_cache_is_said():
    """In bytes one can read."""
    assert "3 MiB" in shown(1, cached_bytes=3 * 2**20)


def test_steps_of_gpu_only_epochs_are_shown_where_they_were_measured():
    """Beside those that share the machine with the CPU's threads."""
    assert "GPU only" not in shown(1)
    times = StageTimes(cpu_batching_s=0.02, gpu_batching_s=0.03, dma_s=0.001, model_s=0.004, model_alone_s=0.0072)
    assert "training step, GPU only" in shown(1, times=times)
    assert "7.2 ms" in shown(1, times=times)


def test_what_stages_take_beside_the_other_sides_is_shown_where_it_was_measured():
    """In a column of its own."""
    both = SideBySide(cpu_batching_s=0.0333, gpu_batching_s=0.0444, dma_s=0.0011, model_s=0.0055)
    times = StageTimes(cpu_batching_s=0.02, gpu_batching_s=0.03, dma_s=0.001, model_s=0.004, together=both)
    text = shown(2, times=times)
    assert "CPU and GPU side by side" in text
    assert all(words in text for words in ("33.3 ms", "44.4 ms", "1.1 ms", "5.5 ms"))
    assert "side by side" not in shown(2)


def test_a_limit_without_a_device_is_said_to_be_of_no_effect():
    """The CPU's memory is not shared out."""
    spec = MiniBatchSpec(fan_outs=(10, 5), device_bytes=10**9)
    limited = Job(schema_version=1, graph=SbmGraph(source="sbm"), mini_batch=spec)
    words = "of no effect: there is no CUDA device here"
    assert words in shown(1, job=limited)
    assert words not in shown(1, job=limited, device="cuda")
    assert words not in shown(1)
