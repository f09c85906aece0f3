"""The program of mini-batches: what the one simulator plays of it is what the policy does, to the nanosecond."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.technique import Situation
from gnnplan.planner.minibatch import simulate as player
from gnnplan.planner.minibatch import unroll
from gnnplan.planner.minibatch.decision import MiniBatchDecision, WorkerBatches
from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy
from gnnplan.planner.minibatch.simulate import simulate
from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.planner.minibatch.unroll import unrolled
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.readers.stream import stream_schedule
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.runtime.mini_batch import executor

MS = st.integers(1, 60).map(lambda ms: ms / 1e3)
TIMES = st.builds(
    StageTimes, cpu_batching_s=MS, gpu_batching_s=MS, dma_s=st.integers(0, 30).map(lambda ms: ms / 1e3), model_s=MS
)
BUFFERS = st.just(Buffers(0, 1)) | st.builds(
    Buffers, st.integers(1, 5), st.integers(1, 5), st.none() | st.integers(0, 30), st.booleans()
)
PARTS = st.builds(
    WorkerBatches,
    num_batches=st.integers(1, 30),
    num_loaders=st.integers(1, 4),
    num_training_threads=st.just(1),
    buffers=BUFFERS,
    times=TIMES,
)


def cycle_of(*parts):
    """The program of workers with these parts."""
    sizes = (100,) * len(parts)
    decision = MiniBatchDecision(workers=parts, held_bytes=sizes, step_bytes=sizes, batch_nodes=50, batch_edges=70)
    situation = Situation(ModelSpec(), len(parts), (0,) * len(parts))
    return compose(Cycle(len(parts)), [Choice("mini_batch", decision)], situation, Optimizer())


@settings(max_examples=150, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=3))
def test_the_one_simulator_plays_what_the_policy_does(parts):
    """An epoch of the program takes as long as the slowest worker's policy, also after it was written and read."""
    document = CycleDocument.of(cycle_of(*parts))
    assert CycleDocument.model_validate_json(document.model_dump_json()) == document
    cycle = document.cycle()
    schedule = stream_schedule(cycle, cycle.programs["epoch"])
    alone = [simulate(part.times, part.buffers, part.num_batches, part.num_loaders).epoch_s for part in parts]
    assert play_epochs(schedule).median_epoch_s == pytest.approx(max(alone), abs=1e-9)
    for worker, part in enumerate(parts):
        trained = [task for task in schedule.tasks if task.worker == worker and task.key.endswith("/train")]
        assert len(trained) == part.num_batches


@settings(max_examples=100, deadline=None)
@given(PARTS)
def test_a_batch_is_made_then_moved_then_trained(part):
    """Over either route, each once; and nothing begins after what has not begun."""
    policy = DualBufferPolicy(part.num_batches, part.buffers.for_threads(part.num_loaders))
    begun = unrolled(part.seconds, policy, part.num_loaders)
    for number, each in enumerate(begun):
        assert all(before < number for before in each.after)
    count = {stage: sum(each.stage == stage for each in begun) for stage in part.seconds}
    assert count["cpu_batch"] == count["transfer"]
    assert count["cpu_batch"] + count["gpu_batch"] == count["train"] == part.num_batches
    routes = [each.route for each in begun if each.stage == "train"]
    assert routes.count("in_turn") == count["gpu_batch"]


def test_simulator_and_executor_ask_one_policy():
    """They are handed the same class, and no other code of theirs says what begins."""
    assert executor.DualBufferPolicy is player.DualBufferPolicy is unroll.DualBufferPolicy is DualBufferPolicy


def part(buffers, num_batches=8):
    """Of a worker with three loader threads."""
    times = StageTimes(cpu_batching_s=0.01, gpu_batching_s=0.02, dma_s=0.001, model_s=0.005)
    return WorkerBatches(num_batches=num_batches, num_loaders=3, num_training_threads=1, buffers=buffers, times=times)


@pytest.mark.parametrize(
    ("buffers", "keys"),
    [
        (Buffers(0, 1), ["in_turn/make", "in_turn/train"]),
        (Buffers(2, 2, 0), ["ahead/make", "ahead/move", "ahead/train"]),
        (Buffers(2, 2, 3), ["ahead/make", "ahead/move", "ahead/train", "in_turn/make", "in_turn/train"]),
    ],
)
def test_a_route_that_nobody_takes_has_no_operators(buffers, keys):
    """So a person who reads the program sees what happens."""
    assert [op.key for op in cycle_of(part(buffers)).programs["epoch"]] == keys


def test_loader_threads_are_resources_of_their_own():
    """Three make batches side by side, and none of them is the lane that trains."""
    cycle = cycle_of(part(Buffers(2, 2, 0)), part(Buffers(2, 2, 0)))
    tasks = stream_schedule(cycle, cycle.programs["epoch"]).tasks
    made = {(task.worker, task.resource) for task in tasks if task.key == "ahead/make"}
    assert made == {(0, 4), (0, 5), (0, 6), (1, 7), (1, 8), (1, 9)}
    assert {task.resource for task in tasks if task.key == "ahead/train"} == {0, 1}
    assert {task.resource for task in tasks if task.key == "ahead/move"} == {2, 3}
