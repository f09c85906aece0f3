"""Executes a program over one worker's shard with the parameters of the PyG model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.job import Job
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import Program, Step
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.profiles.kernels.attention import EdgeBlock
from gnnplan.profiles.kernels.sparse import csr_tensor
from gnnplan.runtime.comm import HaloExchange, HaloExchanger
from gnnplan.runtime.execution.sparse_rows import drop_values
from gnnplan.runtime.halo_cache import CachingExchanger
from gnnplan.runtime.host_region import HostRegion
from gnnplan.runtime.operators import (
    Activate,
    Aggregate,
    Attend,
    Block,
    Combine,
    CombineSparse,
    Multiply,
    MultiplySparse,
    SparseInput,
)
from gnnplan.runtime.precompute import input_value, precompute_hops
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.reference import INPUT_LAYER, build_pyg_model


class WorkerModel:
    """One worker's part of the model: same parameters on every worker, own rows of every value.

    Args:
        job: what is trained; the seed fixes the initial weights.
        program: the decided steps.
        shard: this worker's rows.
        device: where everything lives.
        cache: halo rows kept between epochs; the shard is cut along it.
        region: of the host, where the cache has any.
        overlap: local rows are aggregated while halo rows travel.
    """

    def __init__(
        self,
        job: Job,
        program: Program,
        shard: Shard,
        device: torch.device,
        cache: CacheDecision = NO_CACHE,
        region: HostRegion | None = None,
        *,
        overlap: bool = False,
    ) -> None:
        self.job, self.program, self.recorder = job, program, Recorder(device)
        self.net = build_pyg_model(job.model, shard.x.shape[1], shard.num_classes, job.training.seed).to(device)
        self.weights = dict(self.net.named_parameters())
        self.vertices = torch.from_numpy(shard.vertices).to(device)
        self.block: Block | None = None
        self.edges: EdgeBlock | None = None
        self.inputs: dict[str, Any] = {}
        self._last_use = {value: index for index, step in enumerate(program.steps) for value in _uses(step)}
        self.exchanger = self._exchanger(shard, cache, region)
        self._load(shard, overlap)
        self._fetch_fixed(cache)

    def _exchanger(self, shard: Shard, cache: CacheDecision, region: HostRegion | None) -> HaloExchanger:
        """What fetches the halo of a shard."""
        return CachingExchanger.of(shard, self.program, cache, self.recorder, region)

    def _load(self, shard: Shard, overlap: bool) -> None:
        """Puts the shard on the device."""
        if self.job.model.kind == "gat":
            self.edges = EdgeBlock.from_csr(_with_halo_columns(shard), self.recorder.device)
        else:
            self.block = block_of(shard, self.exchanger, overlap)
        self.inputs = own_inputs(shard, self.program, self.block, self.recorder.device)

    def exchanger_of(self, step: Step) -> HaloExchanger:
        """What exchanges the rows of a step."""
        return self.exchanger

    def exchange_through(self, over: Callable[[HaloExchanger], HaloExchanger]) -> None:
        """Has rows exchanged by what `over` makes of the present exchanger."""
        self.exchanger = over(self.exchanger)
        if self.block is not None:
            self.block = replace(self.block, exchanger=self.exchanger)

    def rows_of(self, step: Step) -> Tensor:
        """Global ids of the rows that a step works on."""
        return self.vertices

    def input_rows(self) -> Tensor:
        """Global ids of the rows of the input."""
        return self.vertices

    def forward(self, *, epoch: int, training: bool) -> Tensor:
        """Logits [n, C] of the local rows; `epoch` picks the dropout masks."""
        self.exchanger.begin(epoch if training else None)
        values = dict(self.inputs)
        if training and self.job.model.input_dropout:
            values["x"] = self._drop_input(values["x"], epoch)
        for index, step in enumerate(self.program.steps):
            for name, value in zip(_results(step), self._run(step, values, epoch, training)):
                values[name] = value
            for name in _uses(step):
                if self._last_use[name] == index:
                    values.pop(name, None)
        return values["logits"]

    @torch.no_grad()
    def _fetch_fixed(self, cache: CacheDecision) -> None:
        """Has halo rows that never change sent before the first epoch, by running the steps that read them."""
        values = dict(self.inputs)
        for step in self.program.steps:
            if step.op == "aggregate" and cache.keeps(step) and step.fixed:
                values.update(zip(_results(step), self._run(step, values, 0, False)))

    def _run(self, step: Step, values: dict[str, Any], epoch: int, training: bool) -> tuple[Tensor, ...]:
        first = values[step.inputs[0]]
        weights = [self.weights[key] for key in step.weights]
        match step.op:
            case "multiply":
                function = MultiplySparse if isinstance(first, SparseInput) else Multiply
                return function.apply(step, self.recorder, first, *weights)
            case "combine":
                inputs = tuple(values[name] for name in step.inputs)
                if isinstance(first, SparseInput):
                    return (CombineSparse.apply(step, self.recorder, inputs, *weights),)
                return (Combine.apply(step, self.recorder, *inputs, *weights),)
            case "aggregate":
                base = values[step.base] if step.base else None
                out = Aggregate.apply(step, self.block, first, base)
                return out if step.keep else (out,)
            case "exchange":
                return (first,) if self.exchanger.is_alone else (HaloExchange.apply(first, self.exchanger, step.name),)
            case "attend":
                return (Attend.apply(step, self.edges, self.recorder, first, *weights),)
            case "activate":
                assert step.bias is not None
                dropout = step.dropout if training else 0.0
                key = dropout_key(self.job.training.seed, epoch, step.layer) if dropout else 0
                bias = self.weights[step.bias]
                return (Activate.apply(step, self.recorder, first, bias, dropout, key, self.rows_of(step)),)

    def _drop_input(self, x: Tensor | SparseInput, epoch: int) -> Tensor | SparseInput:
        probability = self.job.model.input_dropout
        key = dropout_key(self.job.training.seed, epoch, INPUT_LAYER)
        scale, vertices = 1.0 / (1.0 - probability), self.input_rows()
        if isinstance(x, SparseInput):
            return SparseInput(
                drop_values(x.rows, vertices, key, probability, transposed=False),
                drop_values(x.columns, vertices, key, probability, transposed=True),
            )
        columns = torch.arange(x.shape[1], device=x.device)
        return x * keep_mask(key, vertices[:, None], columns, x.shape[1], probability) * scale


def _uses(step: Step) -> tuple[str, ...]:
    return (*step.inputs, step.base) if step.base else step.inputs


def _results(step: Step) -> tuple[str, ...]:
    return (*step.outputs, step.keep) if step.keep else step.outputs


def own_inputs(shard: Shard, program: Program, block: Block | None, device: torch.device) -> dict[str, Any]:
    """What a program starts from, for the rows of a shard: features, or what is precomputed of them."""
    if not program.num_hops_precomputed:
        return {"x": input_value(shard.x, device)}
    assert block is not None
    hops = precompute_hops(shard, block, program.num_hops_precomputed)
    return {name: hops[name] for name in program.precomputed}


def block_of(shard: Shard, exchanger: HaloExchanger, overlap: bool = False) -> Block:
    """A shard's rows of the aggregation matrix on the device of an exchanger."""
    device = exchanger.send_rows.device
    return Block(
        local=csr_tensor(shard.local, device),
        local_t=csr_tensor(shard.local.T.tocsr(), device),
        remote=csr_tensor(shard.remote, device),
        remote_t=csr_tensor(shard.remote.T.tocsr(), device),
        exchanger=exchanger,
        overlap=overlap,
    )


def _with_halo_columns(shard: Shard) -> sp.csr_matrix:
    """[local | remote] as one CSR [n, n + h]; scipy's hstack keeps repeated entries."""
    return sp.hstack([shard.local, shard.remote], format="csr")
