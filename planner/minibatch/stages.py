"""How long the stages of a mini-batch take, and what they occupy."""

from __future__ import annotations

from pydantic import NonNegativeFloat, PositiveFloat

from gnnplan.profiles.contract import Contract


class SideBySide(Contract):
    """Stages while both CPU and GPU make batches: they read the same memory, over the same PCIe. As in `StageTimes`."""

    cpu_batching_s: PositiveFloat
    gpu_batching_s: PositiveFloat
    dma_s: NonNegativeFloat
    model_s: PositiveFloat


class StageTimes(Contract):
    """Mean seconds of each stage of one mini-batch (MorphGL, section 4.2.1).

    A batch made by the CPU is batched (CPU), transferred (PCIe) and trained (GPU); one made by the GPU
    reads the host's memory while it batches (GPU and PCIe at once) and is then trained (GPU).

    Args:
        cpu_batching_s: from one batch to the next with all sampling threads at work.
        gpu_batching_s: sampling and gathering over UVA; the paper's T_GBT and T_UVA together.
        dma_s: copy of a batch from pinned memory.
        model_s: forward, backward and optimizer step, while the CPU's threads make batches.
        resident_batching_s: GPU batching with graph and features in device memory, which leaves PCIe alone;
            None: they do not fit.
        model_alone_s: a step while these threads rest, as they do where the GPU makes all batches; None: as `model_s`.
        together: where both make batches; None: as where one makes all.
    """

    cpu_batching_s: PositiveFloat
    gpu_batching_s: PositiveFloat
    dma_s: NonNegativeFloat
    model_s: PositiveFloat
    resident_batching_s: PositiveFloat | None = None
    model_alone_s: PositiveFloat | None = None
    together: SideBySide | None = None

    @property
    def gpu_only_model_s(self) -> float:
        """A training step in plans in which the GPU makes all batches."""
        return self.model_s if self.model_alone_s is None else self.model_alone_s

    @property
    def where_both_make(self) -> StageTimes:
        """The times of plans in which CPU and GPU both make batches."""
        if self.together is None:
            return self
        return self.model_copy(update={**self.together.model_dump(), "together": None})
