"""A planned program on one worker, step by step: variants of full batch train as their plans do."""

from __future__ import annotations

from itertools import count

import torch

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.models.first_weights import first_weights
from gnnplan.planner.program_shard import cut_program_shard
from gnnplan.planner.run import cycle_of
from gnnplan.planner.search.make import make_plan
from gnnplan.runtime.program_trainer import ProgramTrainer

# Whatever the machine, a decision that is pinned has the same numbers: this one has room for everything.
_ROOM_BYTES = 2**44
_ANY = Cluster(hosts=(HostSpec(name="any", devices=(DeviceSpec(catalog="t4", memory_bytes=_ROOM_BYTES),)),))


class PlannedTraining:
    """The training of a job's best plan for one worker.

    Args:
        epochs: that it is trained for at most.
    """

    def __init__(self, job: Job, graph: Graph, device: torch.device, epochs: int) -> None:
        job = job.model_copy(update={"training": job.training.model_copy(update={"epochs": epochs})})
        plan, partition = make_plan(job, _ANY, graph)
        shard = cut_program_shard(cycle_of(plan, graph, partition), graph, 0)
        weights = first_weights(job, graph.num_features, graph.num_classes)
        self._trainer, self._epochs = ProgramTrainer(plan, shard, 0, device, weights), count()
        self._split = "val" if graph.val_mask.any() else "train"

    def epoch(self) -> tuple[float, int]:
        """The loss of the next epoch, which is one step."""
        return self._trainer.train_epoch(next(self._epochs), traced=False).loss, 1

    def share(self) -> float:
        """The metric on the validation vertices, else on those that are trained."""
        return self._trainer.evaluate().get(self._split, 0.0)
