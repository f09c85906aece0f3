"""The large tensors of one epoch of a worker that replicates, as `gnnplan.runtime.hybrid` makes and drops them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gnnplan.planner.buffers import Buffers, Epoch
from gnnplan.planner.hybrid.sizes import LevelSize, Replicas
from gnnplan.planner.hybrid.steps import StepLevels, step_levels
from gnnplan.planner.joint_cache.decision import NO_CACHE
from gnnplan.planner.plan import Plan
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program, Step


def hybrid_buffers(
    program: Program,
    shape: WorkerShape,
    num_classes: int,
    replicas: Replicas,
    rank: int,
    *,
    on_cuda: bool = False,
) -> Buffers:
    """The buffers of one epoch of the worker `rank`, whose own share has `shape`; every epoch has the same."""
    size = len(replicas.workers)
    epoch = HybridEpoch(program, shape, num_classes, size, NO_CACHE, rank, on_cuda=on_cuda, replicas=replicas)
    epoch.play()
    return epoch.buffers


def most_buffers(plan: Plan, rank: int, levels: tuple[LevelSize, ...]) -> Buffers:
    """The buffers of one epoch of a plan's worker, on a CPU, if its levels were of these sizes.

    What travels between others is no buffer of its own, so theirs stay as planned.
    """
    assert plan.replicas is not None
    workers = list(plan.replicas.workers)
    workers[rank] = workers[rank].model_copy(update={"levels": levels})
    replicas = plan.replicas.model_copy(update={"workers": tuple(workers)})
    return hybrid_buffers(plan.program(), plan.shapes[rank], plan.graph.num_classes, replicas, rank)


@dataclass
class HybridEpoch(Epoch):
    """An epoch in which every level has own rows, replicas and fetched rows."""

    replicas: Replicas = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._own = self.shape
        self._levels: StepLevels = step_levels(self.program, self.replicas.first)

    def _forward(self, step: Step) -> None:
        if step.op not in ("aggregate", "exchange"):
            self.shape = self.replicas.step_shape(self.rank, self._own, step, self._levels)
            super()._forward(step)
            self.shape = self._own
            return
        own, size, width = self._own.num_local, self._size(step), step.in_width
        packed = self._make(size.num_sent, width)
        halo = self._make(size.num_fetched, width)
        self.buffers.drop(packed)
        if step.op == "exchange":
            self.values[step.outputs[0]] = self._make(own + size.num_replicas + size.num_fetched, width)
        else:
            made = self.replicas.num_replicas(self.rank, self._levels.written(step))
            self.values[step.outputs[0]] = self._make(own + made, width)
        if step.keep:
            num_kept = self.replicas.num_replicas(self.rank, self._levels.kept[step.name])
            source = self.values.get(step.inputs[0])
            self.values[step.keep] = self._make(own + num_kept, width) if num_kept else self.buffers.hold(source)
        self.buffers.drop(halo)

    def _backward(self, step: Step) -> None:
        if step.op not in ("aggregate", "exchange"):
            self.shape = self.replicas.step_shape(self.rank, self._own, step, self._levels)
            super()._backward(step)
            self.shape = self._own
            return
        own, size, width = self._own.num_local, self._size(step), step.in_width
        grad = self.grads.pop(step.outputs[0], None)
        if step.base:
            self.grads[step.base] = self._make(own + size.num_replicas, width)
        if not step.constant:
            kept = self.grads.pop(step.keep, None) if step.keep else None
            self.grads[step.inputs[0]] = self._make(own + size.num_replicas, width)
            halo = self._make(size.num_fetched, width)
            self.buffers.drop(self._make(size.num_sent, width), halo, kept)
        self.buffers.drop(grad)

    def _size(self, step: Step) -> LevelSize:
        return self.replicas.size(self.rank, self._levels.rows[step.name])
