"""The runtime's mailbox, rounds and sums, made to follow a script, train as the sequential executor does by it."""

import threading
import time
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from meshed import in_threads, meshed

from gnnplan.planner.program.cycle import EVALUATE
from gnnplan.planner.program.project import project
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.partial.gradients import GroupGradient
from gnnplan.runtime.partial.group_steps import GroupSteps
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.peers import PartialWorkers, slots_of
from gnnplan.runtime.partial.rounds import Rounds
from gnnplan.runtime.recorder import Recorder
from tests.planner.composition.chosen import Chosen
from tests.planner.program.cases import initial, matrix_of
from tests.planner.program.scripted import EPOCHS, EVERYBODY, WITHOUT, Script, scripted_cycle, scripted_run

FLOAT32, TIMEOUT_S = 2e-5, 20.0
CASES = [
    ("gcn", (), "scale"),
    ("gcn", ("overlap",), "reuse"),
    ("sage", ("overlap",), "scale"),
    ("tagcn", (), "reuse"),
    ("gat", ("overlap",), "scale"),
]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Gate:
    """A mesh that keeps back what the script says is late; newer messages replace it, as they would in a queue."""

    def __init__(self, mesh, box, script, ops):
        self._mesh, self._box, self._script, self._ops = mesh, box, script, ops

    def post(self, peer, message, key):
        if message.kind >= 0:
            op, epoch = self._ops[self._box.slots[message.kind].name], message.number
            if self._script.version(op, epoch, self._box.rank, peer) != epoch:
                return
        self._mesh.post(peer, message, key)


class Worker:
    """One worker's executor, whose waiting follows the script."""

    def __init__(self, rank, cycle, inputs, weights, box, decision, store, computed):
        self.rank, self.cycle, self.script, self.computed = rank, cycle, Script(), computed
        recorder, projection = Recorder(torch.device("cpu")), project(cycle, rank)
        self.box, self.losses = box, {}
        self.ops = {op.key: op for op in cycle.programs["train"]}
        self.late = Lateness.of(box, decision, EPOCHS, TIMEOUT_S)
        self.late._wait = self.wait
        self.rounds = Rounds(box, decision, store, EPOCHS, TIMEOUT_S)
        self.rounds._may_step = lambda number, *_: all(box.ready[m] == number for m in self.script.members(number))
        (sums,) = (op for op in cycle.programs["train"] if op.attributes.get("group"))
        gradient = GroupGradient(decision, sums.attributes["sizes"], sums.attributes["layers"])
        self.steps = GroupSteps(
            self.late, self.rounds, gradient, TIMEOUT_S,
            lambda _, total: self.executor.finish("train", sums.key, total[None]),
        )  # fmt: skip
        peers = PartialWorkers(recorder, self.late, self.join)
        self.executor = ProgramExecutor(projection, inputs, weights, recorder, peers)
        box._mesh = Gate(box._mesh, box, self.script, self.ops)

    def wait(self, slot):
        """Until exactly those rows are here that the script says."""
        op = self.ops[self.box.slots[slot].name]
        wanted = {p: self.script.version(op, self.late.epoch, p, self.rank) for p in self.box.senders(slot)}
        until_s = time.monotonic() + TIMEOUT_S
        assert self.box.wait(lambda: all(self.box.version(slot, p) >= at for p, at in wanted.items()), until_s)
        assert {p: self.box.version(slot, p) for p in wanted} == wanted

    def join(self, flat):
        """Members go on when the missing one has computed; it comes back when its next round is due."""
        epoch, until_s = self.late.epoch, time.monotonic() + TIMEOUT_S
        missing = [worker for worker in EVERYBODY if worker not in self.script.members(epoch)]
        if self.rank in missing:
            self.computed[epoch, self.rank].set()
            last = next(n for n in range(epoch, EPOCHS) if self.rank in self.script.members(n)) - 1
            assert self.box.wait(lambda: last in self.box.groups, until_s)
        for worker in missing:
            if worker != self.rank and self.script.begins(worker, epoch):
                assert self.computed[epoch, worker].wait(TIMEOUT_S)
        return self.steps.join(flat)

    def train(self):
        """Every epoch that it begins, and which steps it takes part in."""
        epoch = 0
        while epoch < EPOCHS:
            self.late.begin(epoch)
            (loss,) = self.executor.run("train", epoch).values()
            assert self.rank in self.rounds.group.members == self.script.members(self.rounds.number)
            self.losses[self.rounds.number] = float(loss)
            epoch = self.rounds.number + 1
        return self.losses, {name: self.executor.stored[name].clone() for name in self.cycle.parameters}


@pytest.mark.long
@pytest.mark.parametrize(("model", "techniques", "absent"), CASES, ids=lambda each: str(each))
def test_the_runtime_follows_the_script(model, techniques, absent):
    """Losses of every step that a worker takes part in, and weights at the end."""
    chosen = Chosen(model, ("halo_exchange", *techniques))
    cycle, decision = scripted_cycle(chosen, absent)
    cycle = replace(cycle, programs={name: each for name, each in cycle.programs.items() if name != EVALUATE})
    run = scripted_run(chosen, cycle, Script())
    run.train(range(EPOCHS))
    slots = [slots_of(project(cycle, rank)) for rank in EVERYBODY]
    assert len(slots[0]) == sum(op.kind == "exchange" for op in cycle.programs["train"])
    store, computed = dist.HashStore(), {(e, w): threading.Event() for e in WITHOUT for w in EVERYBODY}
    with meshed(len(EVERYBODY), slots) as boxes:
        workers = [
            Worker(
                rank,
                cycle,
                {name: each[rank] for name, each in run.inputs().items()},
                {name: matrix_of(value).float().clone() for name, value in initial(chosen.case.model).items()},
                boxes[rank],
                decision,
                store,
                computed,
            )
            for rank in EVERYBODY
        ]
        found = in_threads([worker.train for worker in workers])
    for rank, (losses, weights) in enumerate(found):
        assert sorted(losses) == [number for number in range(EPOCHS) if rank in Script().members(number)]
        assert losses == pytest.approx({number: run.losses[number] for number in losses}, rel=FLOAT32)
        for name, weight in weights.items():
            exact = run.executor.stored[name][rank]
            assert float((weight - exact).norm() / exact.norm()) < FLOAT32, (name, rank)
