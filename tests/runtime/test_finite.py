"""What is NaN or infinite ends a training at once, with the epoch, the worker and the operator that it began in."""

from types import SimpleNamespace

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.checkpoints import checkpoints_in
from gnnplan.profiles.errors import NotFiniteError
from gnnplan.runtime import finite
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.finite import FiniteWatch, are_finite
from tests.planner.program.cases import MODELS, Case, Run
from tests.runtime.checkpoint.jobs import planned
from tests.runtime.execution.test_program_executor import alone, inputs_of, weights_of
from tests.runtime.execution.threads import play_on_threads


def trainer_of(executor, cycle):
    """As much of a trainer as is watched."""
    parameters = [executor.stored[name] for name in cycle.parameters]
    net = SimpleNamespace(parameters=lambda: parameters)
    return SimpleNamespace(net=net, replay=lambda epoch, look: executor.replay("train", epoch, look))


def epoch_of(executor, watch, number):
    """One that is watched."""
    watch.begin()
    (loss,) = executor.run("train", number).values()
    watch.end(EpochRecord(number, 0.0, 1.0, float(loss)))
    return float(loss)


def test_a_watched_training_is_the_same_training():
    """Looking changes no number."""
    losses = []
    for is_watched in (False, True):
        executor, cycle, recorder = alone(Case(MODELS["gcn"], 1, passes=("split", "storage")))
        recorder.begin(False)
        watch = FiniteWatch(trainer_of(executor, cycle))
        if is_watched:
            losses.append([epoch_of(executor, watch, number) for number in range(4)])
        else:
            losses.append([float(next(iter(executor.run("train", number).values()))) for number in range(4)])
    assert losses[0] == losses[1]


def made_in(words):
    """The operator that a message names."""
    return words.split(" in ")[1].split(" ")[0].rstrip(";")


@pytest.mark.parametrize("passes", [("split", "storage"), ("split", "storage", "overlap")])
def test_the_first_operator_is_named_by_its_worker(passes, monkeypatch):
    """A feature of one worker becomes infinite: that worker finds it where it is read, the others where it comes."""
    case = Case(MODELS["sage"], 3, passes=passes)
    cycle = case.cycle()
    run, positions = Run(case, cycle), {}
    monkeypatch.setattr(finite, "least", lambda own: positions.setdefault(own, own))

    def poisoned(executor, rank):
        watch = FiniteWatch(trainer_of(executor, cycle))
        epoch_of(executor, watch, 0)
        if rank == 1:
            executor.stored["x"][0, 0] = torch.inf
        with pytest.raises(NotFiniteError, match="epoch 1: ") as error:
            epoch_of(executor, watch, 1)
        return str(error.value)

    words = play_on_threads(cycle, inputs_of(run), weights_of(case), poisoned)
    first = made_in(words[1])
    op = next(op for op in cycle.programs["train"] if op.key == first)
    earlier = cycle.programs["train"][: cycle.programs["train"].index(op)]
    makes = {name for each in earlier for name in each.writes if each.kind == "take"} | {"x"}
    assert makes.intersection(op.reads), words[1]
    others = [made_in(each) for each in (words[0], words[2])]
    keys = [each.key for each in cycle.programs["train"]]
    assert all(keys.index(other) >= keys.index(first) for other in others)


def test_an_optimizer_that_overshoots_is_named():
    """Where all before the step was finite, the step is it."""
    executor, cycle, recorder = alone(Case(MODELS["gcn"], 1, passes=("split", "storage")))
    recorder.begin(False)
    watch = FiniteWatch(trainer_of(executor, cycle))
    watch.begin()
    executor.run("train", 0)
    next(iter(executor.stored[name] for name in cycle.parameters))[0, 0] = torch.nan
    with pytest.raises(NotFiniteError, match="parameters are NaN or infinite; every operator before the optimizer's"):
        watch.end(EpochRecord(0, 0.0, 1.0, 0.5))


def test_large_numbers_are_numbers():
    """Their norm overflows, and they are finite all the same."""
    assert are_finite([torch.full((3,), 1e38), torch.zeros(0)])
    assert not are_finite([torch.zeros(2), torch.tensor([1.0, torch.nan])])
    assert not are_finite([torch.tensor([-torch.inf])])
    assert are_finite([])


@pytest.mark.long
@pytest.mark.distributed
def test_a_run_that_diverges_ends_with_where_and_what_is_kept(tmp_path):
    """Two workers: one line with epoch, worker and operator, and the checkpoint before it."""
    path = planned(tmp_path, 2000, training={"optimizer": "sgd", "learning_rate": 1e6, "weight_decay": 1e-3})
    with pytest.raises(NotFiniteError) as error:
        api.run(path, tmp_path / "run", timeout_s=60, checkpoint_every=1)
    words = str(error.value)
    assert words.startswith("epoch ")
    assert "made the first such value in " in words or "the optimizer's step" in words
    epoch = int(words.split(":")[0].split()[1])
    found, _ = checkpoints_in(tmp_path / "run")
    assert all(each.epoch <= epoch for each in found)
    assert not found or f"{found[0].epoch} of 2000 epochs are kept" in words
