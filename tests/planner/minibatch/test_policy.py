"""The policy under any order of events: slots are never exceeded, PCIe never shared, every batch trained once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy

BUFFERS = st.builds(
    Buffers,
    cpu_slots=st.integers(0, 4),
    gpu_slots=st.integers(1, 4),
    num_gpu_batches=st.none() | st.integers(0, 12),
    phased=st.booleans(),
    hold=st.integers(1, 4),
).filter(lambda b: b.cpu_slots > 0 or b.num_gpu_batches is None)


def play(policy, choose):
    """Runs an epoch in which `choose(names)` says which stage under way ends next; returns what began, in order."""
    under_way, began = [], []

    def begin(stage):
        index = getattr(policy, f"begin_{stage}")()
        under_way.append(stage)
        began.append((stage, index))

    while not policy.is_over:
        while policy.cpu_may_begin() and "cpu_batch" not in under_way:
            begin("cpu_batch")
        for action in policy.next_actions():
            begin(action)
        check(policy, under_way)
        assert under_way, f"deadlock: {policy}"
        ended = choose(under_way)
        under_way.remove(ended)
        getattr(policy, f"end_{ended}")()
    assert not under_way
    return began


def check(policy, under_way):
    """What must hold at every moment."""
    buffers = policy.buffers
    assert policy.cpu_making + policy.cpu_ready <= buffers.cpu_slots
    assert policy.transferring + policy.gpu_making + policy.gpu_ready <= buffers.gpu_slots
    assert not (policy.transferring and policy.gpu_making), "a transfer beside a GPU batch"
    assert not (policy.training and policy.gpu_making), "two stages on the GPU"
    assert len(set(under_way)) == len(under_way)


@settings(max_examples=300, deadline=None)
@given(BUFFERS, st.integers(1, 14), st.randoms(use_true_random=False))
def test_every_batch_is_trained_once_whatever_takes_how_long(buffers, num_batches, rng):
    """No order in which stages end leads to a deadlock, a second batch of one index or a broken limit."""
    policy = DualBufferPolicy(num_batches, buffers)
    began = play(policy, rng.choice)
    made = [index for stage, index in began if index is not None]
    assert made == list(range(num_batches))
    assert sum(stage == "train" for stage, _ in began) == num_batches
    assert sum(stage == "transfer" for stage, _ in began) == sum(stage == "cpu_batch" for stage, _ in began)
    if buffers.num_gpu_batches is not None:
        assert policy.num_gpu_made == min(buffers.num_gpu_batches, num_batches)


def test_without_pinned_slots_the_gpu_makes_all():
    """It batches and trains in turn."""
    began = play(DualBufferPolicy(3, Buffers(0, 1)), lambda under_way: under_way[0])
    assert [stage for stage, _ in began] == ["gpu_batch", "train"] * 3


def test_the_phased_policy_fills_both_buffers_and_then_empties_both():
    """With a CPU as fast as the GPU: two of each are made, then all four trained, transfers beside training."""
    order = ("cpu_batch", "gpu_batch", "transfer", "train")
    began = play(DualBufferPolicy(4, Buffers(2, 2, phased=True)), lambda under_way: min(under_way, key=order.index))
    stages = [stage for stage, _ in began]
    assert stages[:4] == ["cpu_batch", "gpu_batch", "cpu_batch", "gpu_batch"]
    assert stages[4:] == ["train", "transfer", "train", "transfer", "train", "train"]


def test_the_phased_policy_trains_from_a_full_buffer_while_the_cpu_is_slow():
    """The trick of the blocking phase: with the CPU's batch never done, the GPU still trains and makes more."""
    policy = DualBufferPolicy(20, Buffers(2, 2, phased=True))
    steps = []

    def all_but_the_cpu(under_way):
        steps.append(sorted(under_way))
        others = [stage for stage in under_way if stage != "cpu_batch"]
        return others[0] if len(steps) < 12 and others else under_way[0]

    play(policy, all_but_the_cpu)
    assert ["cpu_batch", "train"] in steps[:12]
    assert policy.num_gpu_made > 4


def test_a_transfer_waits_for_something_to_be_trained_meanwhile():
    """With `hold` two, the GPU makes two batches before the CPU's first is transferred."""
    order = ("cpu_batch", "transfer", "gpu_batch", "train")
    began = play(DualBufferPolicy(6, Buffers(2, 4, 3, hold=2)), lambda under_way: min(under_way, key=order.index))
    stages = [stage for stage, _ in began]
    assert stages.index("transfer") > [i for i, stage in enumerate(stages) if stage == "gpu_batch"][1]


@pytest.mark.parametrize("wrong", [{"gpu_slots": 0}, {"cpu_slots": -1}, {"hold": 0}, {"num_gpu_batches": -1}])
def test_settings_that_cannot_be_are_refused(wrong):
    """A buffer without a slot can hold nothing."""
    with pytest.raises(AssertionError):
        Buffers(**({"cpu_slots": 1, "gpu_slots": 1} | wrong))


def test_every_thread_has_a_slot_to_work_in():
    """Beside the plan's slots, one of which is its one batch in work; where the CPU makes none there are none."""
    assert Buffers(3, 2, 4).for_threads(4) == Buffers(6, 2, 4)
    assert Buffers(3, 2).for_threads(1) == Buffers(3, 2)
    assert Buffers(0, 1).for_threads(4) == Buffers(0, 1)


def test_both_make_batches_where_neither_has_none():
    """Or where each takes the next one left."""
    assert Buffers(3, 2, 4).both_make(10)
    assert Buffers(3, 2).both_make(10)
    assert not any(buffers.both_make(10) for buffers in (Buffers(3, 2, 0), Buffers(3, 2, 10), Buffers(0, 1)))
