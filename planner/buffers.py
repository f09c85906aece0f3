"""The large tensors of one epoch, in the order the runtime makes and drops them.

It follows `gnnplan.runtime.operators` call by call: what is made, what autograd keeps for the backward
pass, what ends in place. Two figures come out: the most bytes alive at once, which is what CUDA's
allocator holds, and what the CPU's pool holds, which hands a freed block only to a tensor of the
same size (`gnnplan.profiles.kernels.pool`). The two differ in GAT's attention too: fused on a CPU, on CUDA it is
torch's operators, which make rows of every edge (`gnnplan.profiles.kernels.attention`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.joint_cache.halo_buffers import HaloBuffers, kept_fixed
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program, Step
from gnnplan.profiles.kernels.pool import POOLED_BYTES, block_bytes

_FLOAT_BYTES = 4


@dataclass
class Buffers:
    """Counts bytes of buffers that are made and, at their last holder's end, dropped."""

    live_bytes: int = 0
    peak_bytes: int = 0
    _holders: Counter[int] = field(default_factory=Counter)
    _bytes_of: dict[int, int] = field(default_factory=dict)
    _live: Counter[int] = field(default_factory=Counter)
    _most: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def make(self, num_elements: int) -> int:
        """A new float32 buffer with one holder; returns its id."""
        buffer, size = len(self._bytes_of), block_bytes(num_elements * _FLOAT_BYTES)
        self._bytes_of[buffer] = size
        self._holders[buffer] = 1
        self._live[size] += 1
        self._most[size] = max(self._most[size], self._live[size])
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return buffer

    def hold(self, buffer: int | None) -> int | None:
        """One holder more; what is no buffer of an epoch (None: the input) is passed on."""
        if buffer is not None:
            self._holders[buffer] += 1
        return buffer

    def drop(self, *buffers: int | None) -> None:
        """One holder less each."""
        for buffer in buffers:
            if buffer is None:
                continue
            self._holders[buffer] -= 1
            assert self._holders[buffer] >= 0, buffer
            if self._holders[buffer] == 0:
                self._live[self._bytes_of[buffer]] -= 1
                self.live_bytes -= self._bytes_of[buffer]

    @property
    def held_bytes(self) -> int:
        """What the pool's blocks amount to, and small buffers beside them: of every size the most at once."""
        return sum(size * most for size, most in self._most.items())

    @property
    def pooled(self) -> dict[int, int]:
        """The pool's blocks alone: how many by their bytes."""
        return {size: most for size, most in self._most.items() if size >= POOLED_BYTES}

    @property
    def pooled_bytes(self) -> int:
        """The bytes of the pool's blocks."""
        return sum(size * most for size, most in self.pooled.items())


def epoch_buffers(
    program: Program,
    shape: WorkerShape,
    num_classes: int,
    num_workers: int,
    cache: CacheDecision = NO_CACHE,
    rank: int = 0,
    *,
    overlap: bool = False,
    on_cuda: bool = False,
) -> Buffers:
    """The buffers of training on one of `num_workers` workers: every epoch makes and drops the same.

    Where some epochs reuse embeddings: of a first one, one that reuses, and one that refreshes what was kept.
    """
    epoch = Epoch(program, shape, num_classes, num_workers, cache, rank, overlap, on_cuda)
    epoch.halo.have_fixed(program)
    for refresh in (True, False, True) if cache.is_stale else (True,):
        epoch.halo.refresh = refresh
        epoch.play()
    epoch.halo.release()
    return epoch.buffers


def filling_buffers(
    program: Program, shape: WorkerShape, num_workers: int, cache: CacheDecision, rank: int, *, overlap: bool = False
) -> Buffers:
    """The buffers of having halo rows sent, before training, that never change and are kept."""
    epoch = Epoch(program, shape, 0, num_workers, cache, rank, overlap)
    epoch.fill()
    return epoch.buffers


@dataclass
class Epoch:
    """Plays the epochs of one worker."""

    program: Program
    shape: WorkerShape
    num_classes: int
    num_workers: int
    cache: CacheDecision
    rank: int
    overlap: bool = False
    on_cuda: bool = False
    buffers: Buffers = field(default_factory=Buffers)
    values: dict[str, int | None] = field(default_factory=dict)
    saved: dict[str, list[int | None]] = field(default_factory=dict)
    grads: dict[str, int | None] = field(default_factory=dict)
    weight_grads: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.halo = HaloBuffers(self.buffers, self.shape, self.cache, self.rank)

    def play(self) -> None:
        last_use = {v: i for i, step in enumerate(self.program.steps) for v in (*step.inputs, step.base) if v}
        for index, step in enumerate(self.program.steps):
            self._forward(step)
            for value in {name for name in (*step.inputs, step.base) if name}:
                if last_use[value] == index:
                    self.buffers.drop(self.values.pop(value, None))
        self._loss()
        for step in reversed(self.program.steps):
            self._backward(step)
        self._reduce()

    def fill(self) -> None:
        """Runs the steps whose halo rows never change; what comes out of them lives until all have run."""
        for step in kept_fixed(self.program, self.cache):
            self._forward(step)

    def _make(self, rows: int, width: int) -> int:
        return self.buffers.make(rows * width)

    def _forward(self, step: Step) -> None:
        n, hold = self.shape.num_local, self.buffers.hold
        inputs = [self.values.get(name) for name in step.inputs]
        match step.op:
            case "multiply" | "combine":
                for name, width in zip(step.outputs, step.out_widths):
                    self.values[name] = self._make(n, width)
                    if step.sparse:
                        self.buffers.drop(self._make(step.in_width, width))
                self.saved[step.name] = [hold(buffer) for buffer in inputs]
            case "aggregate":
                self._aggregate(step)
                if step.keep:
                    self.values[step.keep] = hold(inputs[0])
            case "exchange":
                if self.num_workers == 1:
                    self.values[step.outputs[0]] = hold(inputs[0])
                    return
                halo = self.halo.fetch(step)
                self.values[step.outputs[0]] = self._make(n + self.shape.num_halo, step.in_width)
                self.buffers.drop(halo)
            case "attend":
                self._attend(step, inputs[0])
            case "activate":
                self.values[step.outputs[0]] = hold(inputs[0])
                self.saved[step.name] = [hold(inputs[0])] if step.relu else []

    def _aggregate(self, step: Step) -> None:
        """With overlap what was packed lives on beside the output, until it is sent."""
        exchanges, halo = self.num_workers > 1, None
        overlaps = exchanges and self.overlap and self.halo.lets_overlap(step)
        if exchanges:
            self.halo.begin_fetch(step)
        if exchanges and not overlaps:
            halo = self.halo.end_fetch(step)
        if step.base:
            out = self.buffers.hold(self.values[step.base])
        else:
            out = self._make(self.shape.num_local, step.in_width)
        self.values[step.outputs[0]] = out
        if overlaps:
            halo = self.halo.end_fetch(step)
        self.buffers.drop(halo)

    def _attend(self, step: Step, q: int | None) -> None:
        n, m = self.shape.num_local, self.shape.num_local + self._num_halo
        scores = []
        for rows in (m, n):
            product = self._make(rows, step.in_width)
            scores.append(self._make(rows, step.heads))
            self.buffers.drop(product)
        out = self._make(n, step.in_width)
        alpha = self._make(self.shape.num_edges, step.heads)
        if self.on_cuda:
            self._attend_by_edges(step)
        if step.out_widths[0] != step.in_width:
            averaged = self._make(n, step.out_widths[0])
            self.buffers.drop(out)
            out = averaged
        self.values[step.outputs[0]] = out
        self.saved[step.name] = [self.buffers.hold(q), *scores, alpha]

    def _attend_by_edges(self, step: Step) -> None:
        """Beside the coefficients, of torch's operators: scores and weights, then a row of each edge, twice."""
        tops_and_totals = [self._make(self.shape.num_local, step.heads) for _ in range(2)]
        scores = [self._make(self.shape.num_edges, step.heads) for _ in range(2)]
        rows = [self._make(self.shape.num_edges, step.in_width) for _ in range(2)]
        self.buffers.drop(*tops_and_totals, *scores, *rows)

    @property
    def _num_halo(self) -> int:
        return self.shape.num_halo if self.num_workers > 1 else 0

    def _loss(self) -> None:
        chosen, probability = (self._make(self.shape.num_train, self.num_classes) for _ in range(2))
        grad = self._make(self.shape.num_local, self.num_classes)
        self.buffers.drop(chosen, probability, self.values.pop("logits"))
        self.grads["logits"] = grad

    def _backward(self, step: Step) -> None:
        incoming = [self.grads.pop(name, None) for name in step.outputs]
        match step.op:
            case "multiply" | "combine":
                self._product_backward(step, incoming)
            case "aggregate":
                self._aggregate_backward(step, incoming[0])
            case "exchange":
                if self.num_workers > 1:
                    self.halo.give_back(step)
                self.grads[step.inputs[0]] = incoming[0]
            case "attend":
                self._attend_backward(step, incoming[0])
            case "activate":
                self.grads[step.inputs[0]] = incoming[0]
        self.buffers.drop(*self.saved.pop(step.name, []))

    def _product_backward(self, step: Step, incoming: list[int | None]) -> None:
        for index in range(len(step.weights)):
            width = step.out_widths[min(index, len(step.out_widths) - 1)]
            product = self._make(step.in_width, width) if step.sparse else None
            self.weight_grads.append(self._make(width, step.in_width))
            self.buffers.drop(product)
        if not step.constant:
            for name in step.inputs:
                self.grads[name] = self._make(self.shape.num_local, step.in_width)
        self.buffers.drop(*incoming)

    def _aggregate_backward(self, step: Step, grad: int | None) -> None:
        if step.base:
            self.grads[step.base] = self.buffers.hold(grad)
        if not step.constant:
            sends = self.num_workers > 1 and self.cache.travel(step, refresh=self.halo.refresh) != "none"
            halo = self._make(self.shape.num_halo, step.in_width) if sends else None
            kept = self.grads.pop(step.keep, None) if step.keep else None
            made = kept if kept is not None else self._make(self.shape.num_local, step.in_width)
            if sends:
                self.halo.give_back(step)
            self.buffers.drop(halo)
            self.grads[step.inputs[0]] = made
        self.buffers.drop(grad)

    def _attend_backward(self, step: Step, grad: int | None) -> None:
        n, m = self.shape.num_local, self.shape.num_local + self._num_halo
        averages = step.out_widths[0] != step.in_width
        spread = self._make(n, step.in_width) if averages else None
        self.grads[step.inputs[0]] = self._make(m, step.in_width)
        row_scores = [self._make(rows, step.heads) for rows in (m, n)]
        if self.on_cuda:
            self._attend_backward_by_edges(step)
        else:
            self.buffers.drop(self._make(self.shape.num_edges, step.heads))
        self.buffers.drop(spread, *row_scores, grad)

    def _attend_backward_by_edges(self, step: Step) -> None:
        """Three rows of each edge, of which the gradient's stays; then at most six scores of each beside it."""
        gradient, *rows = (self._make(self.shape.num_edges, step.in_width) for _ in range(3))
        self.buffers.drop(*rows)
        scores = [self._make(self.shape.num_edges, step.heads) for _ in range(6)]
        self.buffers.drop(gradient, *scores)

    def _reduce(self) -> None:
        if self.num_workers > 1:
            flat = self.buffers.make(self.program.num_parameters + 1)
            self.buffers.drop(flat)
        self.buffers.drop(*self.weight_grads)
        self.weight_grads.clear()
