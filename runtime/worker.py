"""One worker process: loads its shard, trains, measures, and hands its figures to rank 0."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.checkpoints import CheckpointOptions
from gnnplan.planner.metrics import METRICS
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.outside import is_staged, lies_on_disk
from gnnplan.planner.program_shard import FIRST_WEIGHTS, ProgramShard
from gnnplan.planner.run_files import MEASURED_FILE, MODEL_FILE
from gnnplan.profiles.clocks import ClockReading, on_first_clock
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.heap import return_freed_memory
from gnnplan.profiles.launch import emit
from gnnplan.profiles.load import LoadWatch
from gnnplan.profiles.roll_call import naming_lost_workers
from gnnplan.profiles.steal import StealWatch
from gnnplan.profiles.torchrun import process_group
from gnnplan.runtime.checkpoint.keeper import Keeper
from gnnplan.runtime.checkpoint.stopping import StopRequest
from gnnplan.runtime.checkpoint.training import keeping
from gnnplan.runtime.device import pick_device
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.evaluations import Evaluations, evaluated_epochs
from gnnplan.runtime.finite import FiniteWatch
from gnnplan.runtime.gather import gather
from gnnplan.runtime.measured import UNTIMED_EPOCHS, measured_trace
from gnnplan.runtime.mini_batch.distributed import emptying_frames
from gnnplan.runtime.net import Net, read_weights
from gnnplan.runtime.partial.training import PartialTrainer
from gnnplan.runtime.program_trainer import ProgramTrainer
from gnnplan.runtime.room import check_room
from gnnplan.runtime.supervision import SupervisedState, Supervision

if TYPE_CHECKING:
    from gnnplan.runtime.mini_batch.trainer import BatchTrainer

MAX_TRACED_EPOCHS = 10
_SAY_EVERY_S = 0.25
_NUM_TOLD = 20  # tasks of a traced epoch: one short line, which no other worker's is mixed with


@dataclass(frozen=True)
class RunOptions:
    """How a plan is run.

    Args:
        timeout_s: longest wait for another worker.
        num_evaluations: how often accuracies are told on the way.
    """

    timeout_s: float = 300.0
    num_evaluations: int = 0
    checkpoints: CheckpointOptions = field(default_factory=CheckpointOptions)


def run_worker(
    plan_path: Path, folder: Path, options: RunOptions | None = None, stop: StopRequest | None = None
) -> None:
    """Trains this process's share of a plan; torchrun's environment says which.

    Args:
        options: None: as `RunOptions` has them.
        stop: told of signals (None: they end the process).

    Reads `folder/shards/worker_{rank}.npz`; rank 0 writes `folder/measured.json` and `folder/model.pt`.
    """
    plan, options, stop = Plan.load(plan_path), options or RunOptions(), stop or StopRequest(is_deaf=True)
    rank, device = int(os.environ["RANK"]), pick_device(plan)
    check_room(plan, rank, device, int(os.environ["LOCAL_WORLD_SIZE"]))
    # Without a name, so that a trainer ends here: a reducer of its that outlives the group may wait for ever.
    with process_group(device, options.timeout_s), emptying_frames(), naming_lost_workers():
        _train(plan, folder, rank, device, options, stop)


def _train(plan: Plan, folder: Path, rank: int, device: torch.device, options: RunOptions, stop: StopRequest) -> None:
    setup_start_s = time.monotonic()
    trainer = _trainer_of(plan, folder / "shards", rank, device, options.timeout_s)
    supervision = _supervision_of(plan, trainer)
    rows_in = folder if lies_on_disk(plan.cycle) else None
    evaluations = Evaluations(trainer, device, evaluated_epochs(plan, options.num_evaluations), rows_in)
    checkpoints = keeping(
        trainer,
        plan,
        folder,
        rank,
        options.checkpoints,
        stop,
        before_copy=evaluations.note_peak,
        timeout_s=options.timeout_s,
    )
    with closing(trainer), checkpoints as keeper:
        pool.release()
        return_freed_memory()
        training = plan.job.training
        traced = set(
            traced_epochs(
                max(training.least_epochs, keeper.epoch + 1), plan.cycle.order, training.traced_epochs, keeper.epoch
            )
        )
        if plan.num_workers > 1:
            dist.barrier()
        setup_s = time.monotonic() - setup_start_s
        watch, load, begin = StealWatch.begin(), LoadWatch.begin(), ClockReading.now()
        records = _run_epochs(trainer, keeper, traced, rank, evaluations, supervision)
        stolen_share, machine_load, peak_bytes = watch.share(), load.end(), evaluations.peak_bytes()
        if plan.mini_batch is not None:  # evaluation may take more memory than training did
            _save_model(trainer.net, rank, folder)
        clock = on_first_clock(begin, ClockReading.now())
        gathered = gather(
            {
                "records": [asdict(record.shifted(clock)) for record in records],
                "peak_bytes": peak_bytes,
                "setup_s": setup_s,
                "stolen_share": stolen_share,
                "load": asdict(machine_load),
            }
        )
        words = supervision.put_best_back() if supervision else ""
        if supervision and words:
            assert isinstance(trainer, ProgramTrainer)
            trainer.net.epochs = supervision.best_epoch + 1
        if supervision and words and rank == 0:
            stopped = f"stopped after epoch {records[-1].epoch}: " if supervision.is_over else ""
            emit({"event": "note", "words": f"{stopped}{words}"})
        accuracy = trainer.evaluate()
    _save_model(trainer.net, rank, folder)
    if rank == 0:  # last: where it stands, all is done
        assert gathered is not None
        measured_trace(plan, gathered, accuracy, keeper.losses_before, trainer.metric).save(folder / MEASURED_FILE)


def _save_model(net: torch.nn.Module | Net, rank: int, folder: Path) -> None:
    """By the first worker."""
    if rank == 0:
        with replacing(folder / MODEL_FILE) as temporary:
            torch.save({name: value.cpu() for name, value in net.state_dict().items()}, temporary)


def _trainer_of(
    plan: Plan, folder: Path, rank: int, device: torch.device, timeout_s: float
) -> ProgramTrainer | BatchTrainer:
    if plan.mini_batch is not None:
        from gnnplan.runtime.mini_batch.trainer import BatchTrainer  # it imports PyG: seconds, and 200 MB

        return BatchTrainer(plan, rank, device, timeout_s)
    shard = ProgramShard.load(folder / f"worker_{rank}.npz", in_place=lies_on_disk(plan.cycle) or is_staged(plan.cycle))
    if shard.cut_for != plan.fingerprint():
        raise UserError(f"{folder}: the shard of worker {rank} was cut for another plan; cut the shards again")
    weights = read_weights(folder / FIRST_WEIGHTS)
    if plan.partial is not None:
        return PartialTrainer(plan, shard, rank, device, weights, timeout_s=timeout_s, folder=folder)
    return ProgramTrainer(plan, shard, rank, device, weights, timeout_s, folder)


def _supervision_of(plan: Plan, trainer: ProgramTrainer | BatchTrainer) -> Supervision | None:
    """What looks at the validation metric, where a job lets it decide something."""
    if not plan.job.training.is_supervised:
        return None
    assert isinstance(trainer, ProgramTrainer)
    supervision = Supervision(plan.job.training, METRICS[trainer.metric], trainer.net.matrices)
    trainer.state = SupervisedState(trainer.state, supervision)
    return supervision


def _supervise(
    supervision: Supervision, trainer: ProgramTrainer | BatchTrainer, epoch: int, accuracy: Mapping[str, float]
) -> None:
    assert isinstance(trainer, ProgramTrainer)
    if "val" not in accuracy:
        raise UserError(
            f"the validation vertices have no {supervision.metric.words}, by which the training is to stop or to slow "
            f"down; name another training.metric"
        )
    supervision.after(epoch, accuracy["val"])
    trainer.scale_rate(supervision.rate_factor)


def _run_epochs(
    trainer: ProgramTrainer | BatchTrainer,
    keeper: Keeper,
    traced: set[int],
    rank: int,
    evaluations: Evaluations,
    supervision: Supervision | None = None,
) -> list[EpochRecord]:
    """Trains to the last epoch, or until the supervision ends it.

    A worker that the others went on without goes on with the epoch after theirs.
    """
    records, tasks = list[EpochRecord](), dict[str, float]()
    watch = FiniteWatch(trainer, can_replay=keeper.in_step) if isinstance(trainer, ProgramTrainer) else None
    if supervision and isinstance(trainer, ProgramTrainer):  # as it was when the checkpoint was written
        trainer.scale_rate(supervision.rate_factor)
    epoch, epochs, said_s, said_epoch = keeper.epoch, keeper.num_epochs, 0.0, keeper.epoch
    while epoch < epochs:
        spent_s = evaluations.spent_s
        paused_s = spent_s + keeper.held_s
        if watch:
            watch.begin()
        record = trainer.train_epoch(epoch, traced=epoch in traced)
        if watch:
            watch.end(record)
        records.append(replace(record, paused_s=paused_s))
        tasks = record.longest_tasks(_NUM_TOLD) or tasks
        epoch = record.epoch + 1
        is_due = supervision is not None and supervision.is_due(record.epoch)
        evaluations.after(record.epoch, is_due=is_due)
        if supervision and is_due:
            _supervise(supervision, trainer, record.epoch, evaluations.accuracy)
        is_over = supervision is not None and supervision.is_over
        working_s = record.end_s - paused_s
        # Each word costs the listener CPU time, which on a small machine is the workers' own.
        if rank == 0 and (working_s - said_s > _SAY_EVERY_S or epoch == epochs or is_over):
            event = {"event": "epoch", "epoch": epoch - 1, "epochs": epochs, "loss": record.loss}
            epoch_s = (working_s - (said_s or records[0].start_s)) / (epoch - said_epoch)
            event |= {"epoch_s": epoch_s, "accuracy": evaluations.accuracy, "metric": evaluations.metric}
            emit(event | ({"tasks": tasks} if tasks else {}))
            said_s, said_epoch, tasks = working_s, epoch, {}
        if is_over:
            break
        keeper.after(record.epoch, record.end_s - record.start_s + evaluations.spent_s - spent_s, record.loss)
    return records


def traced_epochs(
    epochs: int, order: Sequence[str] = ("train",), most: int = MAX_TRACED_EPOCHS, begin: int = 0
) -> list[int]:
    """Up to `most` epochs, evenly spread after the warm-up that follows epoch `begin`, the first to be trained.

    Where programs differ, also the first epoch of each one in the cycles that these are in; of many programs, in the
    last few cycles. Of a program that is not among them, as in a short run, the last epoch there is, though it be of
    the warm-up.
    """
    first = min(begin + UNTIMED_EPOCHS, epochs - 1)
    count = min(most, epochs - first)
    spread = {int(e) for e in np.linspace(first, epochs - 1, count)}
    if len(order) > 1:
        kinds = [order.index(name) for name in dict.fromkeys(order)]
        begins = sorted({e - e % len(order) for e in spread})[-max(2 * most // len(kinds), 2) :]
        spread |= {begin + kind for begin in begins for kind in kinds if first <= begin + kind < epochs}
        for name in dict.fromkeys(order):
            of_kind = [e for e in range(begin, epochs) if order[e % len(order)] == name]
            if spread.isdisjoint(of_kind):
                spread.update(of_kind[-1:])
    return sorted(spread)
