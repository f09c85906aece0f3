"""Mini-batch training by a plan: every epoch asks the policy that its prediction asked."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from gnnplan.planner.metrics import usual_metric
from gnnplan.planner.plan import Plan
from gnnplan.planner.readers.stream import stage_categories
from gnnplan.profiles.errors import NotFiniteError
from gnnplan.profiles.kernels.counter import chained_key
from gnnplan.profiles.kernels.metrics import sums_of
from gnnplan.runtime.checkpoint.module_state import ModuleState
from gnnplan.runtime.checkpoint.state import State
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.finite import are_finite
from gnnplan.runtime.mini_batch.batch_worker import BatchWorker
from gnnplan.runtime.mini_batch.device_memory import keep_rows
from gnnplan.runtime.mini_batch.distributed import joined, split
from gnnplan.runtime.mini_batch.executor import Epoch, run_epoch
from gnnplan.runtime.mini_batch.first_alone import FirstAlone
from gnnplan.runtime.over_workers import NOWHERE, least, mean

_DROPOUT = 0x64726F706F7574  # sets these keys apart from those of the loader's orders


class BatchTrainer:
    """Trains one worker's batches of a plan, in step with the others."""

    def __init__(self, plan: Plan, rank: int, device: torch.device, timeout_s: float = 300.0) -> None:
        decision = plan.mini_batch
        assert decision is not None
        self.part = decision.workers[rank]
        buffers = self.part.buffers
        torch.set_num_threads(self.part.num_training_threads)
        num_ahead = self.part.num_loaders + buffers.cpu_slots + buffers.gpu_slots
        self.worker = BatchWorker(plan.job, device, rank, plan.num_workers, timeout_s, self.part.num_loaders, num_ahead)
        plan.check_graph(self.worker.graph.facts)
        self.net = self.worker.net
        if device.type == "cuda":
            keep_rows(self.worker.stages, self.part.row_bytes)
        (program,) = plan.cycle.cycle().programs.values()
        self._ops = {(op.attributes["stage"], op.attributes["way"]): op for op in program}
        self._stages = split(self.worker.stages, rank, plan.num_workers)
        # Dropout draws from torch's own stream; every worker drops others.
        torch.manual_seed(chained_key(_DROPOUT, plan.job.training.seed, rank) >> 1)
        self.state: State = ModuleState(self.net, self.worker.stages.optimizer, device)
        self._first_alone = FirstAlone(rank, timeout_s)

    @property
    def metric(self) -> str:
        """What is said of the splits."""
        return usual_metric("", self.worker.graph.y.ndim == 2)

    fresh_until = 0
    """Nothing is kept."""

    def go_on_at(self, epoch: int, *, has_kept: bool, fresh_until: int = 0) -> None:
        """Nothing is kept between epochs: a batch is a function of its epoch and its number."""

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """Every batch of this worker's once; who has fewer keeps step with the others."""
        model, stages = self.worker.stages.model, self.worker.stages
        with joined(model, stages.optimizer) if isinstance(model, DistributedDataParallel) else nullcontext():
            done = run_epoch(
                self._stages,
                self.part.buffers,
                self.part.num_batches,
                epoch,
                num_cpu_threads=self.part.num_loaders,
                timeout_s=self.worker.stage_timeout_s,
            )
        self._check_finite(epoch, done)
        loss = mean(done.losses)
        end_s = done.begun_s + max(span.end_s for span in done.spans)
        return EpochRecord(epoch, done.begun_s, end_s, loss, self._spans(done) if traced else [])

    def _check_finite(self, epoch: int, done: Epoch) -> None:
        """`NotFiniteError` in all workers where a loss of any, or a parameter, is not: it names the first."""
        size, rank = self.worker.size, self.worker.rank
        bad = [done.order[at] for at, loss in enumerate(done.losses) if not math.isfinite(loss)]
        first = least(bad[0] * size + rank) if bad else least(NOWHERE)
        if first != NOWHERE:
            number, rank = divmod(first, size)
            raise NotFiniteError(
                f"epoch {epoch}: the loss of batch {number} of worker {rank} is NaN or infinite: training diverges; "
                f"lower learning_rate"
            )
        is_sound = are_finite([parameter.detach() for parameter in self.net.parameters()])
        if (first := least(NOWHERE if is_sound else rank)) != NOWHERE:
            raise NotFiniteError(
                f"epoch {epoch}: a parameter of worker {first} is NaN or infinite: training diverges; "
                f"lower learning_rate"
            )

    def _spans(self, done: Epoch) -> list:
        """Under the keys of the plan's program, seconds on this worker's clock."""
        in_turn, found = set(done.made_by_gpu), []
        for span in done.spans:
            op = self._ops[span.stage, "in_turn" if span.batch in in_turn else "ahead"]
            times_s = done.begun_s + span.start_s, done.begun_s + span.end_s
            found.append((op.key, stage_categories(op), *times_s))
        return found

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Share right (micro-F1 for multi-label jobs) of every split, by neighbourhoods with the same fan-outs.

        The first worker does it for all, once, after the last epoch.
        """
        with self._first_alone():
            if self.worker.rank != 0:
                return {}
            self.net.eval()
            graph = self.worker.graph
            masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
            return {name: self._score(mask) for name, mask in masks.items() if mask.any()}

    def _score(self, mask: np.ndarray) -> float:
        counted = torch.zeros(2, dtype=torch.float64)
        for batch in self.worker.loader.with_seeds(torch.from_numpy(mask)):
            moved = batch.to(self.worker.device)
            logits = self.net(moved.x, moved.edge_index)[: batch.batch_size]
            counted += sums_of(self.metric, logits, moved.y[: batch.batch_size]).cpu()
            self._first_alone.beat()
        right, total = counted.tolist()
        return right / total if total else 0.0

    def close(self) -> None:
        """Nothing outlives an epoch."""
