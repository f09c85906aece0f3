"""Gradients and loss are summed in one go, and every worker takes the same step as torch's optimizer."""

import pytest
import torch
from pydantic import ValidationError

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.optimizer import Optimizer, add_step
from gnnplan.planner.program.parts import Value
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.reference import build_optimizer, build_schedule, clip
from tests.planner.program.cases import MODELS, PASSES, SEED, Case, worst

EPOCHS = 4
SETTINGS = [
    *({"optimizer": kind, "weight_decay": decay} for kind in ("sgd", "adam", "adamw") for decay in (0.0, 0.1)),
    {"optimizer": "sgd", "weight_decay": 0.1, "momentum": 0.9},
    {"optimizer": "sgd", "momentum": 0.5, "schedule": "cosine"},
    {"optimizer": "adam", "schedule": "linear"},
    {"optimizer": "adamw", "weight_decay": 0.3, "schedule": "cosine"},
    {"optimizer": "adam", "optimizer_arguments": {"betas": (0.5, 0.9), "eps": 1e-3, "amsgrad": True}},
    {"optimizer": "adamw", "weight_decay": 0.1, "optimizer_arguments": {"eps": 1e-4}},
    {"optimizer": "sgd", "momentum": 0.9, "optimizer_arguments": {"nesterov": True}},
    {"optimizer": "adagrad", "weight_decay": 0.1, "optimizer_arguments": {"lr_decay": 0.1}},
    {"optimizer": "rmsprop", "momentum": 0.5, "optimizer_arguments": {"centered": True, "alpha": 0.8}},
    {"optimizer": "rmsprop", "weight_decay": 0.1},
    {"optimizer": "adadelta", "optimizer_arguments": {"rho": 0.5}},
    {"optimizer": "adamax", "weight_decay": 0.1},
    {"optimizer": "radam", "optimizer_arguments": {"betas": (0.5, 0.6)}},
    {"optimizer": "sgd", "schedule": "step", "schedule_arguments": {"step_size": 2, "gamma": 0.5}},
    {"optimizer": "sgd", "schedule": "multistep", "schedule_arguments": {"milestones": (1, 3)}},
    {"optimizer": "adam", "schedule": "exponential", "schedule_arguments": {"gamma": 0.7}},
    {"optimizer": "sgd", "schedule": "cosine", "schedule_arguments": {"T_max": 3, "eta_min": 0.01}},
    {"optimizer": "sgd", "schedule": "linear", "schedule_arguments": {"start_factor": 0.5, "total_iters": 2}},
    {"optimizer": "sgd", "schedule": "cosine", "warmup_epochs": 2},
    {"optimizer": "adam", "warmup_epochs": 3},
    {"optimizer": "sgd", "clip_norm": 0.5, "weight_decay": 0.1},
    {"optimizer": "adam", "clip_value": 0.3, "optimizer_arguments": {"eps": 1e-2}},
    {"optimizer": "sgd", "clip_value": 0.4, "clip_norm": 1.0},
]


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: " ".join(map(str, each.values())))
def test_steps_are_torchs(settings, num_workers):
    """Parameters after several steps along the sum of the workers' gradients."""
    shapes, spec = {"w": (4, 3), "b": (5,)}, TrainingSpec(learning_rate=0.05, epochs=EPOCHS, **settings)
    emitter = Emitter(Cycle(num_workers))
    for name, shape in shapes.items():
        emitter.add_parameter(name, *shape)
        like = emitter.cycle.values[name]
        emitter.add_value(Value(f"of {name}", like.space, like.width, role="input"))
    emitter.add_value(Value("loss", "r1", 1, role="input"))
    results = add_step(emitter, ("w", "b"), ("of w", "of b"), Optimizer.of(spec))
    assert results == {"loss" if num_workers == 1 else "total_loss"}

    generator = torch.Generator().manual_seed(0)
    start = {name: torch.randn(shape, dtype=torch.float64, generator=generator) for name, shape in shapes.items()}
    grads = {
        name: [torch.randn(s, dtype=torch.float64, generator=generator) for _ in range(num_workers)]
        for name, s in shapes.items()
    }
    as_rows = {"w": (4, 3), "b": (1, 5)}
    inputs = {f"of {name}": [each.reshape(as_rows[name]) for each in grads[name]] for name in shapes}
    inputs["loss"] = [torch.full((1, 1), 2.0)] * num_workers
    executor = SequentialExecutor(emitter.cycle, inputs, {name: start[name].reshape(as_rows[name]) for name in shapes})
    torchs = {name: value.clone().requires_grad_() for name, value in start.items()}
    optimizer = build_optimizer(torchs.values(), spec)
    schedule = build_schedule(optimizer, spec)
    for epoch in range(EPOCHS):
        for name, value in torchs.items():
            value.grad = sum(grads[name])
        clip(torchs.values(), spec)
        optimizer.step()
        schedule.step()
        executor.play(tuple(emitter.operators), epoch)
    for name, value in torchs.items():
        assert all(worst(each.reshape(value.shape), value) < 1e-12 for each in executor.stored[name])


@pytest.mark.parametrize(
    "given",
    [
        {"optimizer": "adagrad", "optimizer_arguments": {"betas": (0.5, 0.9)}},
        {"optimizer": "adam", "optimizer_arguments": {"betas": (0.5, 1.5)}},
        {"optimizer": "adam", "optimizer_arguments": {"amsgrad": 1.0}},
        {"optimizer": "sgd", "optimizer_arguments": {"nesterov": True}},
        {"optimizer": "adam", "momentum": 0.9},
        {"schedule": "step"},
        {"schedule": "step", "schedule_arguments": {"step_size": 0}},
        {"schedule": "exponential", "schedule_arguments": {"gamma": -1}},
        {"schedule_arguments": {"gamma": 0.5}},
    ],
    ids=str,
)
def test_other_arguments_are_refused(given):
    """Before anything is planned."""
    with pytest.raises(ValidationError, match=r"argument|must be|needs|momentum"):
        TrainingSpec(**given)


def test_plain_steps_say_nothing_new():
    """Programs of jobs that ask for none of it have the attributes that they had."""
    assert Optimizer.of(TrainingSpec()).extras == {}
    spec = TrainingSpec(optimizer="sgd", momentum=0.9, schedule="cosine", epochs=7)
    assert Optimizer.of(spec).extras == {"momentum": 0.9, "schedule": "cosine", "num_epochs": 7}


@pytest.mark.parametrize("name", MODELS)
def test_all_workers_end_with_the_same_bits(name):
    """Though each has its own copy; and there is one sum over workers an epoch."""
    training = TrainingSpec(optimizer="adam", epochs=4, seed=SEED)
    case = Case(MODELS[name], 4, passes=PASSES, training=training)
    run = case.play()
    for copies in run.params.values():
        assert all(each.equal(copies[0]) for each in copies)
        assert len({each.data_ptr() for each in copies}) == 4
    assert [op.kind for op in run.cycle.programs["train"]].count("all_reduce") == 1
    assert run.losses[-1] < run.losses[0]


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_trained(name):
    """None is left out of the step, and none keeps its value."""
    case = Case(MODELS[name], 2)
    before, after = Case(MODELS[name], 2).play(epochs=0).params, case.play(epochs=1).params
    assert before.keys() == after.keys()
    assert all(not before[each][0].equal(after[each][0]) for each in before)
