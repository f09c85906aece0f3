"""A script of who goes on without whom, and what partial reduce makes of a GCN, by hand in plain torch.

The oracle knows neither a program nor an exchange: every worker's rows, their gradients and which of them came last are
written out layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sequential.going_on import Policy
from gnnplan.planner.techniques.partial_reduce.contributing import contributing_vertices
from gnnplan.runtime.reference import dense_features
from tests.planner.composition.chosen import NUM_WORKERS, Chosen, composed
from tests.planner.program.cases import Case, Run, comes, initial, watched

EVERYBODY = tuple(range(NUM_WORKERS))
WITHOUT = {2: (0, 1), 3: (0, 1), 5: (1, 2), 6: (0, 2), 8: (0, 1)}  # members of the rounds that somebody is missing from
EPOCHS, K = 10, 4


class Script(Policy):
    """Who is missing comes back after one or two rounds; a third of the messages are late."""

    def members(self, number: int, num_workers: int = NUM_WORKERS) -> tuple[int, ...]:
        return WITHOUT.get(number, EVERYBODY)

    def begins(self, worker: int, epoch: int) -> bool:
        """Whether a worker plays an epoch: it was a member of the round before."""
        return epoch == 0 or worker in self.members(epoch - 1)

    def version(self, operator: Operator, epoch: int, sender: int, receiver: int) -> int:
        return self.newest(epoch, operator.attributes["level"], sender, receiver, bool(operator.attributes.get("back")))

    def newest(self, epoch: int, level: int, sender: int, receiver: int, back: bool) -> int:
        """The epoch of the rows that a receiver has in an epoch."""
        if sender == receiver:
            return epoch
        sent = (at for at in range(epoch, -1, -1) if self.begins(sender, at))
        return next(at for at in sent if comes(at, level, sender, receiver, back))


def decision_for(case: Case, absent: str) -> PartialReduceDecision:
    """A decision that allows the script."""
    graph, part = case.graph, case.part
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, case.model.kind)
    owned = [np.flatnonzero(part == worker) for worker in EVERYBODY]
    counts = contributing_vertices(matrix, owned, graph.train_mask, case.model).tolist()
    return PartialReduceDecision(max_staleness=K, min_group=2, absent=absent, contributing=tuple(map(tuple, counts)))


def scripted_cycle(chosen: Chosen, absent: str) -> tuple[Cycle, PartialReduceDecision]:
    """Techniques with partial reduce beside them; every layer multiplies first."""
    decision = decision_for(chosen.case, absent)
    choices = [*chosen.choices(reordered=False), Choice("partial_reduce", decision)]
    return composed(chosen.case, choices), decision


@dataclass
class GroupOracle:
    """A GCN that multiplies first, under SGD, as its workers train it by the script.

    Args:
        rate: the learning rate.
    """

    case: Case
    decision: PartialReduceDecision
    rate: float
    script: Script = field(default_factory=Script)
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph, part = self.case.graph, self.case.part
        self.own = [np.flatnonzero(part == worker) for worker in EVERYBODY]
        self.matrix = torch.from_numpy(
            aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn").toarray().astype(np.float64)
        )
        self.x, self.y = torch.from_numpy(dense_features(graph)).double(), torch.from_numpy(graph.y)
        self.train = torch.from_numpy(graph.train_mask)
        start = {name: value.double().clone() for name, value in initial(self.case.model).items()}
        self.names = list(start)
        self.params = start
        self.num_layers = self.case.model.num_layers
        self.rows: dict[tuple, Tensor] = {}  # (layer, owner, epoch): products that its owner has sent
        self.returned: dict[tuple, Tensor] = {}  # (layer, from, to, epoch): gradients of halo rows
        self.grads: list[dict[str, Tensor]] = [{}] * NUM_WORKERS
        self.added: list[dict[str, Tensor]] = [{}] * NUM_WORKERS

    def block(self, worker: int, owner: int) -> Tensor:
        """The aggregation from one worker's rows to another's."""
        return self.matrix[self.own[worker]][:, self.own[owner]]

    def epoch(self, epoch: int) -> None:
        """One epoch of whoever begins it, and its round."""
        here = [worker for worker in EVERYBODY if self.script.begins(worker, epoch)]
        kept = self.forward(epoch, here)
        self.backward(epoch, here, *kept)
        self.step(epoch)

    def forward(self, epoch: int, here: Sequence[int]) -> tuple[dict, dict]:
        h = {(0, w): self.x[self.own[w]] for w in here}
        z: dict[tuple[int, int], Tensor] = {}
        for layer in range(self.num_layers):
            for w in here:
                self.rows[layer, w, epoch] = h[layer, w] @ self.params[f"convs.{layer}.lin.weight"].T
            for w in here:
                seen = [self.rows[layer, p, self.script.newest(epoch, layer, p, w, False)] for p in EVERYBODY]
                total = sum(self.block(w, p) @ rows for p, rows in zip(EVERYBODY, seen, strict=True))
                z[layer, w] = total + self.params[f"convs.{layer}.bias"]
                h[layer + 1, w] = z[layer, w].relu()
        return h, z

    def backward(self, epoch: int, here: Sequence[int], h: dict, z: dict) -> None:
        last, denominator = self.num_layers - 1, int(self.train.sum())
        to_z: dict[int, Tensor] = {}
        for w in here:
            chosen, right = self.train[self.own[w]], self.y[self.own[w]]
            logits, grad = z[last, w], torch.zeros_like(z[last, w])
            grad[chosen] = (logits.softmax(1) - torch.nn.functional.one_hot(right, logits.shape[1]))[chosen]
            loss = torch.nn.functional.cross_entropy(logits[chosen], right[chosen], reduction="sum")
            to_z[w], self.grads[w] = grad / denominator, {"loss": loss / denominator}
        for layer in range(last, -1, -1):
            for w in here:
                for p in EVERYBODY:
                    self.returned[layer, w, p, epoch] = self.block(w, p).T @ to_z[w]
            for w in here:
                came = [self.returned[layer, p, w, self.script.newest(epoch, layer, p, w, True)] for p in EVERYBODY]
                grad = torch.stack(came).sum(0)
                self.grads[w][f"convs.{layer}.lin.weight"] = grad.T @ h[layer, w]
                self.grads[w][f"convs.{layer}.bias"] = to_z[w].sum(0)
                if layer:
                    to_h = grad @ self.params[f"convs.{layer}.lin.weight"]
                    to_z[w] = to_h * (z[layer - 1, w] > 0)

    def step(self, number: int) -> None:
        members = self.script.members(number)
        for member in members:
            self.added[member] = self.grads[member]
        of = members if self.decision.absent == "scale" else EVERYBODY
        for name in (*self.names, "loss"):
            total = torch.stack([self.added[w][name] for w in of]).sum(0)
            if self.decision.absent == "scale":
                layer = self.num_layers - 1 if name == "loss" else int(name.split(".")[1])
                counts = self.decision.contributing[layer]
                total = total * sum(counts) / sum(counts[w] for w in members)
            if name == "loss":
                self.losses.append(float(total))
            else:
                self.params[name] = self.params[name] - self.rate * total


def scripted_run(chosen: Chosen, cycle: Cycle, script: Policy) -> Run:
    """A training in the sequential executor under a script, not yet begun."""
    return Run(chosen.case, watched(cycle), policy=script)
