"""Mini-batches as a technique."""

from __future__ import annotations

from collections.abc import Mapping

from gnnplan.planner.contracts.technique import LAYOUT, Hook, Situation, Stage, Technique
from gnnplan.planner.minibatch.decision import MiniBatchDecision, WorkerBatches
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.techniques.mini_batch.program import batch_cycle


class MiniBatch(Technique[MiniBatchDecision]):
    """Each worker trains some batches of sampled neighbours, made ahead by the CPU, or by the device in its turn."""

    name = "mini_batch"
    Decision = MiniBatchDecision
    claims = frozenset({LAYOUT})

    def hooks(self) -> Mapping[Stage, Hook[MiniBatchDecision]]:
        return {Stage.FORWARD: _in_batches, Stage.LAYOUT: _as_it_is}

    def words(self, decision: MiniBatchDecision) -> str:
        fan_outs = "-".join(str(fan_out) for fan_out in decision.fan_outs)
        routes = dict.fromkeys(_route(worker) for worker in decision.workers)
        return (
            f"Batches of {decision.batch_size} training vertices, with {fan_outs} neighbours drawn a hop, "
            f"are {'; '.join(routes)}."
        )

    def brief(self, decision: MiniBatchDecision) -> str:
        return "; ".join(dict.fromkeys(_brief(worker) for worker in decision.workers))


def _route(worker: WorkerBatches) -> str:
    threads = f"{worker.num_loaders} thread(s)"
    trained = f"trained by {worker.num_training_threads} thread(s)"
    if worker.num_in_turn == worker.num_batches:
        return f"made by the device that trains them, each in its turn ({trained})"
    if worker.num_in_turn == 0:
        return f"made ahead by {threads}, {trained}"
    shares = "each by who is free" if worker.num_in_turn is None else f"{worker.num_in_turn} of {worker.num_batches}"
    return f"made ahead by {threads}, and in its turn by the device that trains ({shares}); {trained}"


def _brief(worker: WorkerBatches) -> str:
    ways = {0: "made ahead", worker.num_batches: "made in turn"}
    way = ways.get(worker.num_in_turn, "made both ways") if worker.num_in_turn is not None else "made both ways"
    return f"batches {way}, {worker.num_loaders} loading and {worker.num_training_threads} training thread(s)"


def _in_batches(cycle: Cycle, decision: MiniBatchDecision, situation: Situation) -> Cycle:
    return batch_cycle(decision)


def _as_it_is(cycle: Cycle, decision: MiniBatchDecision, situation: Situation, labels: Labels) -> Cycle:
    return cycle
