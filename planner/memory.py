"""Peak bytes of one worker, before anything runs: the program is walked and what lives is counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.costs import FLOAT_BYTES, input_entries
from planner.program import Program, Step
from planner.shapes import WorkerShape
from profiles.machine import MachineProfile

_INDEX_BYTES = 4  # torch CSR tensors and shards hold int32 column indices
_LONG_BYTES = 8


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak bytes of a worker and what they are made of.

    Args:
        base_bytes: the process itself.
        graph_bytes: the aggregation matrix and its transpose.
        input_bytes: features, dense or CSR with transpose.
        parameter_bytes: weights, gradients, optimizer state, reduce buffer.
        activation_bytes: most that lives at once in forward and backward, receive buffers included.
        setup_bytes: peak while loading and precomputing, which may exceed training.
    """

    base_bytes: int
    graph_bytes: int
    input_bytes: int
    parameter_bytes: int
    activation_bytes: int
    setup_bytes: int

    @property
    def peak_bytes(self) -> int:
        """The larger of the setup's and the training's peak."""
        held = self.graph_bytes + self.input_bytes + self.parameter_bytes
        return self.base_bytes + max(held + self.activation_bytes, self.setup_bytes)


def estimate_memory(
    program: Program,
    shape: WorkerShape,
    profile: MachineProfile,
    *,
    num_features: int,
    num_classes: int,
    has_optimizer_state: bool,
) -> MemoryEstimate:
    """Peak memory of one worker on the device of `profile`."""
    sparse = any(step.sparse for step in program.steps)
    graph_bytes = _graph_bytes(program, shape)
    features = _features_bytes(shape.hop_entries[0], shape.num_local, num_features, sparse)
    hops = program.precomputed or ("x",)
    input_bytes = sum(
        _features_bytes(shape.hop_entries[int(name[1:] or 0)], shape.num_local, num_features, sparse) for name in hops
    )
    copies = 5 if has_optimizer_state else 3  # weight, gradient, reduce buffer; two moments
    labels = shape.num_local * (num_classes * FLOAT_BYTES + 2 * _LONG_BYTES + 3)
    return MemoryEstimate(
        base_bytes=profile.process_base_bytes,
        graph_bytes=graph_bytes,
        input_bytes=input_bytes + labels,
        parameter_bytes=copies * program.num_parameters * FLOAT_BYTES,
        activation_bytes=_Walk(program, shape, num_classes).peak(),
        setup_bytes=graph_bytes
        + features
        + labels
        + (input_bytes + _halo_features(shape, num_features, sparse) if program.precomputed else 0),
    )


def _graph_bytes(program: Program, shape: WorkerShape) -> int:
    pointers = 2 * shape.num_local + 2 * shape.num_halo + 4
    if any(step.op == "attend" for step in program.steps):
        # EdgeBlock: source, target and by-source edge as int64, two row pointers; the shard's own CSR.
        return shape.num_edges * 3 * _LONG_BYTES + pointers * _LONG_BYTES
    return 2 * shape.num_edges * (FLOAT_BYTES + _INDEX_BYTES) + pointers * _INDEX_BYTES


def _features_bytes(entries: int, num_rows: int, width: int, sparse: bool) -> int:
    if not sparse:
        return num_rows * width * FLOAT_BYTES
    return 2 * entries * (FLOAT_BYTES + _INDEX_BYTES) + (num_rows + width + 2) * _INDEX_BYTES


def _halo_features(shape: WorkerShape, width: int, sparse: bool) -> int:
    entries_per_row = shape.hop_entries[0] / max(1, shape.num_local)
    row_bytes = entries_per_row * (FLOAT_BYTES + _LONG_BYTES) if sparse else width * FLOAT_BYTES
    return int((shape.num_halo + shape.num_sent) * row_bytes)


@dataclass
class _Walk:
    """Plays allocations forward and backward. A storage lives while a value or a saved tensor holds it."""

    program: Program
    shape: WorkerShape
    num_classes: int
    storage_of: dict[str, str] = field(default_factory=dict)
    size_of: dict[str, int] = field(default_factory=dict)
    saved: dict[str, list[str]] = field(default_factory=dict)
    live: int = 0
    highest: int = 0

    def peak(self) -> int:
        """Most activation bytes at once."""
        for index, step in enumerate(self.program.steps):
            self._forward(index, step)
        logits = self.shape.num_local * self.num_classes * FLOAT_BYTES
        self._spike(2 * self.shape.num_train * self.num_classes * FLOAT_BYTES + logits)
        self._release_unsaved(set())
        gradient = logits
        self.live += gradient
        for step in reversed(self.program.steps):
            gradient = self._backward(step, gradient)
        return self.highest

    def _spike(self, extra: int) -> None:
        self.highest = max(self.highest, self.live + extra)

    def _rows(self, step: Step) -> int:
        return self.shape.num_local + (self.shape.num_halo if step.op == "exchange" else 0)

    def _forward(self, index: int, step: Step) -> None:
        exchange_bytes = 0
        if step.op in ("aggregate", "exchange"):
            exchange_bytes = (self.shape.num_halo + self.shape.num_sent) * step.in_width * FLOAT_BYTES
        if step.op == "activate":
            self.storage_of[step.outputs[0]] = self.storage_of[step.inputs[0]]
        elif step.base:
            self.storage_of[step.outputs[0]] = self.storage_of[step.base]
        else:
            for name, width in zip(step.outputs, step.out_widths):
                self._allocate(name, self._rows(step) * width * FLOAT_BYTES)
        if step.keep and step.inputs[0] in self.storage_of:
            self.storage_of[step.keep] = self.storage_of[step.inputs[0]]
        self.saved[step.name] = self._saved_by(step)
        averaged = self._rows(step) * step.in_width * FLOAT_BYTES if step.op == "attend" else 0
        self._spike(exchange_bytes + averaged)
        still_used = {v for later in self.program.steps[index + 1 :] for v in (*later.inputs, later.base) if v}
        self._release_unsaved(still_used | {"logits"})

    def _saved_by(self, step: Step) -> list[str]:
        if step.op in ("multiply", "combine"):
            return [self.storage_of[name] for name in step.inputs if name in self.storage_of]
        if step.op == "activate" and step.relu:
            return [self.storage_of[step.outputs[0]]]
        if step.op == "attend":
            scores = (2 * self.shape.num_local + self.shape.num_halo) * step.heads
            self._allocate(f"{step.name}.alpha", (self.shape.num_edges * step.heads + scores) * FLOAT_BYTES)
            return [self.storage_of[step.inputs[0]], self.storage_of[f"{step.name}.alpha"]]
        return []

    def _allocate(self, name: str, num_bytes: int) -> None:
        self.storage_of[name] = name
        self.size_of[name] = num_bytes
        self.live += num_bytes
        self._spike(0)

    def _release_unsaved(self, values: set[str]) -> None:
        held = {self.storage_of[name] for name in values if name in self.storage_of}
        held |= {storage for storages in self.saved.values() for storage in storages}
        for storage in [s for s in self.size_of if s not in held]:
            self.live -= self.size_of.pop(storage)

    def _backward(self, step: Step, gradient: int) -> int:
        """`gradient` is what lives of the gradient at the outputs; returns that at the inputs."""
        rows, halo = self.shape.num_local * FLOAT_BYTES, self.shape.num_halo * FLOAT_BYTES
        sent = self.shape.num_sent * FLOAT_BYTES
        made, spike = 0, 0
        if step.op in ("multiply", "combine"):
            made = 0 if step.constant else rows * step.in_width * (len(step.inputs))
            spike = self._product_spike(step)
        elif step.op == "aggregate" and not step.constant:
            made = rows * step.in_width
            spike = (halo + sent) * step.in_width
            if step.base:
                self.live += gradient  # the gradient at `base` stays beside the new one
        elif step.op == "exchange":
            made, spike = gradient, (sent + halo) * step.in_width
            self.live -= gradient
        elif step.op == "attend":
            made = (rows + halo) * step.in_width
            spike = self.shape.num_edges * step.heads * FLOAT_BYTES + rows * step.in_width
        elif step.op == "activate":
            made = gradient
            spike = 0
            if not step.relu:
                self.live -= gradient
        self.live += made
        self._spike(spike)
        if step.op not in ("exchange",) and not (step.op == "activate" and not step.relu):
            self.live -= gradient
        self.saved.pop(step.name, None)
        self._release_unsaved(set())
        return made

    def _product_spike(self, step: Step) -> int:
        if not step.sparse:
            return 0
        entries = input_entries(step, 0, self.shape)
        return 0 if not entries else step.in_width * max(step.out_widths) * FLOAT_BYTES
