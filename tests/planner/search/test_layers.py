"""Layers, and what of them runs one after another: told from the program, seen on the virtual clock."""

from itertools import pairwise

import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.cells import BACKWARD
from gnnplan.planner.readers.bound import stages_of
from gnnplan.planner.search.layers import layers, windows
from gnnplan.planner.simulator.engine import compile_schedule, play
from tests.planner.search.searched import KINDS, found

SLOW = {"bytes_per_s": 1e9}
NAMES = [("l0", False), ("l1", False), ("l2", False), ("loss", False), ("l2", True), ("l1", True), ("l0", True)]


def candidates(kind, **pins):
    """Of three layers on three workers behind slow links, all that a search looks at."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=32)
    return found("skewed", model=model, on=SLOW, num_workers=3, **pins).looked_at


@pytest.mark.parametrize("order", ["aggregate_first", "multiply_first"])
def test_rows_that_are_sent_are_of_the_layer_that_sums_them(order):
    """There and back, whether they are multiplied before or after."""
    best = found("skewed", model=ModelSpec(num_layers=3), on=SLOW, num_workers=3, op_order=order, precompute=False,
                 dependencies="communicate").best  # fmt: skip
    (name,) = best.shares
    program = best.cycle.programs[name]
    layer_of = layers(best.cycle, program)
    sent = [layer_of[op.key] for op in program if op.kind == "exchange"]
    assert sorted(sent) == sorted(["l1", "l2"] * 2 + [each for each in sent if each == "l0"])
    assert {layer_of[op.key] for op in program if op.kind == "aggregate"} == {"l0", "l1", "l2"}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_windows_follow_one_another(kind):
    """In every candidate, on every worker: none begins before the one before it has ended."""
    for each in candidates(kind):
        for name, schedule in each.schedules.items():
            window_of = windows(each.cycle, each.cycle.programs[name])
            assert [window for window in NAMES if window in window_of.values()] == NAMES
            timeline = play(compile_schedule(schedule))
            for worker in range(3):
                spans = {window: [] for window in NAMES}
                for number, task in enumerate(schedule.tasks):
                    if task.worker == worker and window_of.get(task.key) in spans:
                        spans[window_of[task.key]].append((timeline.start_ns[number], timeline.end_ns[number]))
                for one, other in pairwise(spans.values()):
                    assert max(end for _, end in one) <= min(start for start, _ in other)


def test_gradients_of_weights_are_in_no_window():
    """They are made whenever there is time. Most of all else before the sum is in one."""
    (best, *_) = candidates("gcn")
    for name in best.shares:
        program = best.cycle.programs[name]
        before = [program[number].key for number in stages_of(best.cycle, program)[0]]
        window_of = windows(best.cycle, program)
        beside = [key for key in before if key not in window_of]
        assert beside
        assert all(BACKWARD in key and key.endswith(("gram", "column_sum")) for key in beside), beside


def test_one_worker_has_none():
    """Nothing is sent there, so nothing is gained."""
    best = found("sbm", "one").best
    (name,) = best.shares
    assert windows(best.cycle, best.cycle.programs[name]) == {}
