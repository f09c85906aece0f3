"""A mini-batch run as a table: the stages, then every epoch's plan beside what it took."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from gnnplan.planner.minibatch.record import MiniBatchRun
from gnnplan.planner.report.units import seconds, size

_STAGES = {
    "cpu_batch": ("CPU makes a batch", "cpu_batching_s"),
    "transfer": ("copy to the device", "dma_s"),
    "gpu_batch": ("GPU makes a batch", "gpu_batching_s"),
    "train": ("training step", "model_s"),
}
_NUM_EPOCHS_SHOWN = 8


def mini_batch_table(run: MiniBatchRun) -> RenderableType:
    """Stages, epochs (the first and last few of many) and accuracy."""
    spec = run.job.mini_batch
    assert spec is not None
    head = Table.grid(padding=(0, 2))
    head.add_row("job", run.job.name)
    fan_outs = "-".join(str(fan_out) for fan_out in spec.fan_outs)
    head.add_row("batches", f"fan-outs {fan_outs}, {spec.batch_size} training vertices each")
    makers = f"{run.num_cpu_threads} sampling thread(s) each"
    head.add_row("workers", f"{run.num_workers} on {'CUDA' if run.device == 'cuda' else 'the CPU'}, {makers}")
    if run.cached_bytes:
        head.add_row("kept on the device", f"{size(run.cached_bytes)} of graph and features")
    if spec.device_bytes is not None and run.device == "cpu":
        head.add_row("device_bytes", "of no effect: there is no CUDA device here")
    head.add_row("accuracy", ", ".join(f"{name} {value:.2%}" for name, value in run.accuracy.items()))
    return Group(head, _stages_table(run), _epochs_table(run))


def _stages_table(run: MiniBatchRun) -> Table:
    table = Table(title="stages of a batch, as measured", title_justify="left")
    both = run.times.together
    for column in ("stage", "mean", "variation", *(["CPU and GPU side by side"] if both else [])):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage, (words, field) in _STAGES.items():
        beside = [seconds(getattr(both, field))] if both else []
        table.add_row(words, seconds(getattr(run.times, field)), f"{run.variation[stage]:.0%}", *beside)
    if run.times.model_alone_s is not None:
        table.add_row("training step, GPU only", seconds(run.times.model_alone_s), "")
    if run.device == "cpu":
        table.caption = "without a GPU its batches are made by the CPU, in the GPU's turn"
    return table


def _epochs_table(run: MiniBatchRun) -> Table:
    table = Table(title="epochs", title_justify="left")
    for column in ("epoch", "route", "by GPU", "slots", "predicted", "took", "gap", "loss"):
        table.add_column(column, justify="left" if column == "route" else "right")
    last = len(run.epochs) - 1
    for number, epoch in enumerate(run.epochs):
        if _NUM_EPOCHS_SHOWN // 2 <= number <= last - _NUM_EPOCHS_SHOWN // 2:
            continue
        table.add_row(
            str(number),
            epoch.route,
            f"{epoch.num_gpu_made} of {epoch.num_batches}",
            f"{epoch.cpu_slots}/{epoch.gpu_slots}",
            seconds(epoch.predicted_s),
            seconds(epoch.measured_s),
            f"{max(epoch.gap, 0):.1%}",
            f"{epoch.loss:.3f}",
        )
    table.caption = "route: who makes the batches; slots: of the CPU's and the GPU's buffer; gap: to the bound"
    if last >= _NUM_EPOCHS_SHOWN:
        table.caption += f"; {last + 1 - _NUM_EPOCHS_SHOWN} epochs in between not shown"
    return table
