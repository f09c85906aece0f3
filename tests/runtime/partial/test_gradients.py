"""The gradient of a group: the full one where all are there, else the missing ones' last or the group's scaled up."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.runtime.partial.gradients import GroupGradient

SIZES, LAYERS, COUNTS = [4, 2, 1], [0, 1, 1], ((3, 4, 5, 6), (1, 0, 2, 1))
NUM_WORKERS, LENGTH = 4, 7


def workers(absent):
    decision = PartialReduceDecision(min_group=3, absent=absent, contributing=COUNTS)
    return [GroupGradient(decision, SIZES, LAYERS) for _ in range(NUM_WORKERS)]


def round_of(made, flats, members):
    """What every worker makes of the round: of the sum among the members, and these also of their own gradients."""
    sent = {}

    def first(flat, member):
        sent[member] = flat.clone()
        raise StopIteration

    for member in members:  # once to learn what each sends, once with the sum of it
        with pytest.raises(StopIteration):
            made[member].of(flats[member], members, NUM_WORKERS, lambda flat, member=member: first(flat, member))
    total = torch.stack([sent[member] for member in members]).sum(0)
    missing = [made[rank] for rank in range(NUM_WORKERS) if rank not in members]
    return [
        *(each.of_sum(total.clone(), members, NUM_WORKERS) for each in missing),
        *(made[member].of(flats[member], members, NUM_WORKERS, lambda _: total.clone()) for member in members),
    ]


def drawn(seed):
    return list(torch.randn(NUM_WORKERS, LENGTH, generator=torch.Generator().manual_seed(seed)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([(0, 1, 2, 3), (0, 1, 2), (1, 2, 3), (0, 2, 3)]), max_size=12))
def test_reused_the_sum_is_of_everybodys_last_gradients(groups):
    """Whoever was missing when; all that have followed share it bit for bit, members or not."""
    made, last = workers("reuse"), [None] * NUM_WORKERS
    for number, members in enumerate([(0, 1, 2, 3), *groups]):
        flats = drawn(number)
        for member in members:
            last[member] = flats[member]
        results = round_of(made, flats, members)
        assert all(torch.equal(result, results[0]) for result in results)
        torch.testing.assert_close(results[0], torch.stack(last).sum(0), rtol=1e-5, atol=1e-5)
        if len(members) == NUM_WORKERS:
            assert torch.equal(results[0], torch.stack(flats).sum(0))


def test_scaled_every_layer_stands_for_all_its_vertices():
    """Equation 14: the layer's vertices over the group's; the loss is the last layer's."""
    made = workers("scale")
    round_of(made, drawn(0), (0, 1, 2, 3))
    flats, members = drawn(1), (0, 2, 3)
    total = torch.stack([flats[member] for member in members]).sum(0)
    for result in round_of(made, flats, members):
        torch.testing.assert_close(result[:4], total[:4] * 18 / 14)
        torch.testing.assert_close(result[4:], total[4:] * 4 / 4)


@pytest.mark.parametrize("absent", ["reuse", "scale"])
def test_own_gradients_are_not_changed(absent):
    """They are still on their way to others."""
    made, flats = workers(absent), drawn(0)
    round_of(made, flats, (0, 1, 2, 3))
    others = drawn(1)
    copies = [flat.clone() for flat in others]
    round_of(made, others, (0, 1, 2))
    assert all(torch.equal(flat, copy) for flat, copy in zip(others, copies, strict=True))
