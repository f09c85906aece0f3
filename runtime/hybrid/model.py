"""Executes a program whose rows at every level are a worker's own and the replicas of its split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.hybrid.sizes import LevelSize, ReplicaSizes, most_levels
from gnnplan.planner.hybrid.split import Split
from gnnplan.planner.hybrid.staging import Staged
from gnnplan.planner.hybrid.steps import step_levels
from gnnplan.planner.job import Job
from gnnplan.planner.joint_cache.decision import CacheDecision
from gnnplan.planner.plan import Plan
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import Program, Step
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.host_region import HostRegion
from gnnplan.runtime.hybrid.blocks import LevelBlock, LevelEdges, Pair
from gnnplan.runtime.hybrid.exchanger import LevelExchanger
from gnnplan.runtime.hybrid.operators import ExchangeLevel, GatherLevel
from gnnplan.runtime.model import WorkerModel, block_of, own_inputs
from gnnplan.runtime.operators import Attend, SparseInput
from gnnplan.runtime.precompute import input_value


@dataclass(frozen=True)
class _Own:
    """What stays of a shard whatever the split.

    Args:
        local, remote: CSR [n, n] and [n, h]; `local` only for an attention, whose edges are made of it.
        pair: own rows over own rows on the device, but for an attention.
    """

    local: sp.csr_matrix | None
    remote: sp.csr_matrix
    pair: Pair | None

    def block(
        self, rows: sp.csr_matrix, split: Split, level: int, later: int | None, part: LevelExchanger
    ) -> LevelBlock | LevelEdges:
        """The gather of a level under a split."""
        if self.local is not None:
            return LevelEdges.of(self.local, self.remote, rows, split, level, part)
        assert self.pair is not None
        return LevelBlock.of(self.pair, self.remote, rows, split, level, later, part)


class HybridModel(WorkerModel):
    """A `WorkerModel` that makes the rows of its split itself and fetches the rest of its halo.

    Args:
        staged: what it may make rows from; it begins with the planned split.
        adjusts: whether the split changes while it runs: only then what was staged is kept.
    """

    def __init__(
        self, job: Job, program: Program, shard: Shard, device: torch.device, staged: Staged, *, adjusts: bool = False
    ) -> None:
        self.steps = step_levels(program, staged.first)
        self._staged: Staged | None = staged
        self._adjusts = adjusts
        self.blocks: dict[int, LevelBlock | LevelEdges] = {}
        self._room: dict[str, Tensor] = {}
        self._own: _Own | None = None
        self._vertices: dict[int, Tensor] = {}
        super().__init__(job, program, shard, device)
        self._set_up(staged.cached)
        if not adjusts:
            self._staged = self._own = None
            self._room.clear()

    @classmethod
    def of_plan(cls, plan: Plan, shard: Shard, staged: Staged, device: torch.device) -> HybridModel:
        """The model of a plan's worker."""
        adjusts = plan.layered.dependencies.adjust == "online"
        return cls(plan.job, plan.program(), shard, device, staged, adjusts=adjusts)

    def _exchanger(self, shard: Shard, cache: CacheDecision, region: HostRegion | None) -> LevelExchanger:
        assert not cache.keeps_any, "kept rows are no replicas"
        self.whole = LevelExchanger.whole(shard, self.recorder)
        return self.whole

    def _load(self, shard: Shard, overlap: bool) -> None:
        device = self.recorder.device
        if self.job.model.kind == "gat":
            self._own = _Own(shard.local, shard.remote, None)  # its edges are made anew with every split
            self.inputs = own_inputs(shard, self.program, None, device)
            return
        block = block_of(shard, self.whole)
        self.inputs = own_inputs(shard, self.program, block, device)
        self._own = _Own(None, shard.remote, Pair(block.local, block.local_t))

    def apply(self, cached: np.ndarray) -> None:
        """Makes the rows of these dependencies from now on, bool [l, h]. Every worker must call it at the same time."""
        if (cached == self.split.cached).all():
            self._send_as_told(self.whole.agree(~cached))
        else:
            self._set_up(cached)

    def _set_up(self, cached: np.ndarray) -> None:
        assert self._staged is not None, "the split of this model never changes"
        assert self._own is not None
        split = self.split = self._staged.split(cached)
        told = self.whole.agree(~cached)
        # Rows come in other numbers now: buffers of the old sizes would only lie there.
        self.blocks.clear()
        pool.release()
        later = self._later()
        for level in range(split.first, self.steps.count):
            part = self._part(told, level)
            self.blocks[level] = self._own.block(self._staged.rows, split, level, later.get(level), part)
        self._place_rows(self._staged, split)

    def _send_as_told(self, told: np.ndarray) -> None:
        """The split stays; others want other rows."""
        for level, block in self.blocks.items():
            part, before = self._part(told, level), len(block.exchanger.send_rows)
            widths = {step.in_width for step in self.program.steps if self.steps.rows[step.name] == level}
            if before != len(part.send_rows):
                pool.release(4 * before * width for width in widths)
            self.blocks[level] = replace(block, exchanger=part)

    def _part(self, told: np.ndarray, level: int) -> LevelExchanger:
        index = level - self.split.first
        return self.whole.part(told[index], ~self.split.cached[index], times_arrivals=self._adjusts)

    def _later(self) -> dict[int, int]:
        """By level: the level whose rows its gather passes on."""
        return {self.steps.rows[name]: kept for name, kept in self.steps.kept.items()}

    def _place_rows(self, staged: Staged, split: Split) -> None:
        """Input rows of the replicas below the own ones, and whose rows each level has."""
        places, device = split.replicas(split.first), self.recorder.device
        width = staged.inputs.shape[1] // max(1, len(self.inputs))
        wanted = np.searchsorted(staged.input_places, places)
        for index, name in enumerate(sorted(self.inputs, key=lambda name: int(name[1:] or 0))):
            value, of_hop = self.inputs[name], slice(index * width, (index + 1) * width)
            if isinstance(value, Tensor) and self._adjusts:
                self.inputs[name] = self._in_room(name, value, staged.inputs[:, of_hop], wanted)
            else:
                self.inputs[name] = _with_rows(value, len(self.vertices), staged.inputs[wanted][:, of_hop], device)
        for level in range(split.first, self.steps.count + 1):
            others = torch.from_numpy(staged.vertices[split.replicas(level)]).to(device)
            self._vertices[level] = torch.cat([self.vertices, others])

    def _in_room(self, name: str, value: Tensor, staged: np.ndarray, wanted: np.ndarray) -> Tensor:
        """Own rows and some of those staged below them, where there is room for all of these: own ones stay."""
        n, device = len(self.vertices), value.device
        if name not in self._room:
            self._room[name] = pool.empty(device, n + len(staged), value.shape[1])
            self._room[name][:n].copy_(value)
            self._room[name][n:].zero_()  # no page is waited for later
        room, rows = self._room[name][: n + len(wanted)], torch.from_numpy(staged)
        if device.type == "cpu":
            torch.index_select(rows, 0, torch.from_numpy(wanted), out=room[n:])
        else:
            room[n:].copy_(rows[wanted])
        return room

    def exchanger_of(self, step: Step) -> HaloExchanger:
        """What exchanges the rows of a step's level."""
        return self.blocks[self.steps.rows[step.name]].exchanger

    def exchange_through(self, over: Callable[[HaloExchanger], HaloExchanger]) -> None:
        """Has rows exchanged by what `over` makes of every level's exchanger, until another split is set up."""
        self.exchanger = over(self.whole)  # which is told when an epoch begins
        for level, block in self.blocks.items():
            self.blocks[level] = replace(block, exchanger=over(block.exchanger))

    def rows_of(self, step: Step) -> Tensor:
        """Global ids of own rows and replicas at the level of a step."""
        return self._vertices[self.steps.rows[step.name]]

    def input_rows(self) -> Tensor:
        """Global ids of own rows and replicas at the lowest level."""
        return self._vertices[self.split.first]

    def _run(self, step: Step, values: dict[str, Any], epoch: int, training: bool) -> tuple[Tensor, ...]:
        if step.op not in ("aggregate", "exchange", "attend"):
            return super()._run(step, values, epoch, training)
        block, first = self.blocks[self.steps.rows[step.name]], values[step.inputs[0]]
        if isinstance(block, LevelBlock):
            out = GatherLevel.apply(step, block, first, values[step.base] if step.base else None)
            return out if step.keep else (out,)
        if step.op == "exchange":
            return (ExchangeLevel.apply(first, block, step.name),)
        weights = [self.weights[key] for key in step.weights]
        return (Attend.apply(step, block.edges, self.recorder, first, *weights),)

    def sizes(self) -> ReplicaSizes:
        """What the split amounts to."""
        levels = []
        for level in range(self.split.first, self.steps.count):
            block = self.blocks[level]
            # An attention's edges are not told apart: for the work they are, it is all one.
            near, made, far = (
                (block.near, block.made, block.far) if isinstance(block, LevelBlock) else (None, None, None)
            )
            num_edges = [0 if pair is None else pair.forward._nnz() for pair in (near, made, far)]
            if isinstance(block, LevelEdges):
                num_edges[0] = len(block.edges.source)
            levels.append(
                LevelSize(
                    num_replicas=len(self.split.replicas(level)),
                    num_fetched=block.exchanger.num_halo,
                    num_sent=len(block.exchanger.send_rows),
                    near_edges=num_edges[0],
                    made_edges=num_edges[1],
                    far_edges=num_edges[2],
                )
            )
        return ReplicaSizes(levels=tuple(levels), input_entries=())

    def most_levels(self) -> tuple[LevelSize, ...]:
        """No fewer rows and entries of any kind than under any split that it may change to."""
        assert self._staged is not None, "the split of this model never changes"
        assert self._own is not None
        may_cache, num_sent = self._staged.may_cache, len(self.whole.send_rows)
        union, none = self._staged.split(may_cache), self._staged.split(np.zeros_like(may_cache))
        return most_levels(self._own.remote, self._staged.rows, union, none, num_sent)

    @property
    def num_own_edges(self) -> int:
        """Entries of own rows over own rows, where they are not among an attention's edges."""
        return self._own.pair.forward._nnz() if self._own and self._own.pair else 0


def _with_rows(value: Tensor | SparseInput, num_own: int, extra: Any, device: torch.device) -> Tensor | SparseInput:
    """The first `num_own` rows of an input, dense or CSR, and others below them."""
    if not extra.shape[0] and _num_rows(value) == num_own:
        return value
    if isinstance(value, Tensor):
        return torch.cat([value[:num_own], torch.from_numpy(np.ascontiguousarray(extra)).to(device)])
    rows = value.rows.cpu()
    crow = rows.crow_indices().numpy()[: num_own + 1]
    end = int(crow[-1])
    parts = (rows.values().numpy()[:end], rows.col_indices().numpy()[:end], crow)
    own = sp.csr_matrix(parts, shape=(num_own, rows.shape[1]))
    return input_value(sp.vstack([own, sp.csr_matrix(extra)], format="csr"), device)


def _num_rows(value: Tensor | SparseInput) -> int:
    return len(value) if isinstance(value, Tensor) else value.rows.shape[0]
