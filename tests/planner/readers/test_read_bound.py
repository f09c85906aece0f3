"""No play of a program ends before its bound, in whatever order and on whatever lanes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_cases import Case, placement_of

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.program.parts import Operator, Space, Value
from gnnplan.planner.readers.bound import Bound, bound_of
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Quota
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.profiles.machine import CpuQuota

RANDOM = {
    "kind": st.sampled_from(["gcn", "sage", "gin", "tagcn", "gat"]),
    "num_workers": st.integers(1, 4),
    "order": st.sampled_from(["multiply_first", "aggregate_first"]),
    "precompute": st.booleans(),
    "num_layers": st.integers(1, 3),
    "seed": st.integers(0, 99),
}
QUOTAS = st.sampled_from([None, CpuQuota(share=0.3, period_s=1e-4), CpuQuota(share=0.7, period_s=1e-2)])


def random_cycle(case, rng):
    """With rows of any label, split or not."""
    labels = Labels()
    for level in range(case.num_layers):
        for worker in range(case.num_workers):
            for label in (Label.MADE, Label.KEPT):
                labels = labels.marked(level, worker, rng.permutation(len(case.part))[: rng.integers(0, 200)], label)
    return case.cycle(split=bool(rng.integers(2)), labels=labels, reuses_storage=bool(rng.integers(2)))


def shuffled(cycle, name, rng):
    """The program in another order that keeps its edges, each collective on either lane."""
    program = cycle.programs[name]
    before, done, order = edges(cycle, program), set(), []
    while len(order) < len(program):
        ready = [n for n in range(len(program)) if n not in done and before[n] <= done]
        order.append(int(rng.choice(ready)))
        done.add(order[-1])
    lanes = ["compute", "network"]
    moved = tuple(
        replace(program[n], lane=lanes[rng.integers(2)] if KINDS[program[n].kind].collective else "compute")
        for n in order
    )
    return replace(cycle, programs={**cycle.programs, name: moved})


@pytest.mark.long
@settings(max_examples=30)
@given(st.builds(Case, **RANDOM), QUOTAS, st.sampled_from([1e7, 1e9, 1e11]), st.booleans(), st.integers(0, 2**32 - 1))
def test_bound_holds_in_any_order_and_on_any_lanes(case, quota, bytes_per_s, overlap, seed):
    """A bound of the program as it stands holds for every other schedule of its operators."""
    rng = np.random.default_rng(seed)
    cycle = random_cycle(replace(case, overlap=overlap), rng)
    kind = "cpu" if quota else "cuda"
    placement = placement_of(case.num_workers, bytes_per_s=bytes_per_s, cpu_quota=quota, device_kind=kind)
    for name in cycle.programs:
        bounds = [bound_of(cycle, name, placement, any_transport=ports).seconds for ports in (False, True)]
        assert bounds[1] <= bounds[0]
        for other in (cycle, shuffled(cycle, name, rng), shuffled(cycle, name, rng)):
            schedule = schedule_of(other, name, placement)
            for worker, limit in schedule.quotas.items():
                schedule.quotas[worker] = Quota(limit.share, limit.period_s, limit.period_s * rng.random())
            assert bounds[0] <= play(compile_schedule(schedule)).makespan_s


@pytest.mark.long
@settings(max_examples=15)
@given(st.builds(Case, **RANDOM, overlap=st.booleans()), QUOTAS)
def test_bound_holds_for_the_mean_of_epochs(case, quota):
    """Where epochs follow one another, workers that are done early begin the next."""
    placement = placement_of(case.num_workers, cpu_quota=quota, device_kind="cpu")
    cycle = case.cycle()
    schedule = schedule_of(cycle, "train", placement)
    count = 8
    makespan_s = play(compile_schedule(schedule.repeated(count))).makespan_s
    assert count * bound_of(cycle, "train", placement).seconds <= makespan_s * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_it_is_reached_where_one_worker_computes(kind):
    """Alone nobody waits."""
    cycle, placement = Case(kind, 1).cycle(), placement_of(1)
    bound = bound_of(cycle, "train", placement)
    assert bound.seconds == play_epochs(schedule_of(cycle, "train", placement)).median_epoch_s
    assert bound.set_by == "compute lane of worker 0"


@pytest.mark.parametrize(("bytes_per_s", "gap"), [(1e6, 0.1), (1e12, 0.4)])
def test_it_is_near_where_one_lane_sets_the_epoch(bytes_per_s, gap):
    """A slow network, or a fast one beside which there is room; it says which."""
    cycle, placement = Case("gcn", 3, overlap=True).cycle(), placement_of(3, ("t4",), bytes_per_s=bytes_per_s)
    bound = bound_of(cycle, "train", placement)
    assert bound.set_by == ("network" if bytes_per_s == 1e6 else "compute lane of worker 0")  # which has most
    assert play_epochs(schedule_of(cycle, "train", placement)).median_epoch_s <= bound.seconds * (1 + gap)


def test_a_port_that_all_rows_pass_is_named_where_any_transport_may_move_them():
    """The first worker's share is twice as large as any other's."""
    cycle, placement = Case("gcn", 4).cycle(), placement_of(4, bytes_per_s=1e5)
    bound = bound_of(cycle, "train", placement, any_transport=True)
    assert bound.set_by == "port of worker 0"


def sums(*, tail_width):
    """A sum over workers between a copy of 2^20 floats, which it needs, and one of `tail_width`, which needs it."""
    value = {name: Value(name, "rows", width) for name, width in (("a", 1), ("b", 1), ("d", tail_width))}
    copy = {"factor": 2.0}
    program = (
        Operator("first", "scale", ("a",), ("b",), copy),
        Operator("sum", "all_reduce", ("b",), ("c",)),
        Operator("last", "scale", ("c",), ("d",), copy),
    )
    spaces = {"rows": Space("rows", (2**20, 2**20)), "one": Space("one", (1, 1))}
    values = {**value, "c": Value("c", "one", 1)}
    return Cycle(2, programs={"train": program}, values=values, spaces=spaces)


def test_what_comes_before_and_behind_the_sum_is_added():
    """Nothing overlaps in this program, so the bound is the makespan."""
    cycle, placement = sums(tail_width=3), placement_of(2)
    schedule = schedule_of(cycle, "train", placement)
    assert len({task.seconds for task in schedule.tasks}) == 5  # two devices, and one sum
    wanted_s = max(sum(task.seconds for task in schedule.tasks if task.worker == worker) for worker in (0, 1))
    assert bound_of(cycle, "train", placement).seconds == pytest.approx(wanted_s, rel=1e-6)


@pytest.mark.parametrize("place", [1, 2])
def test_what_neither_comes_before_the_sum_nor_behind_it_may_be_beside_it(place):
    """Wherever it stands in the program, another order lets it overlap."""
    cycle, placement = sums(tail_width=1), placement_of(2, ("t4",), bytes_per_s=1e6)
    first, total, last = cycle.programs["train"]
    beside = Operator("beside", "scale", ("a",), ("e",), {"factor": 2.0})
    values = {**cycle.values, "e": Value("e", "rows", 1)}
    programs = {
        "train": [*[first, total, last][:place], beside, *[first, total, last][place:]],
        "other": [first, replace(total, lane="network"), beside, last],
    }
    cycle = replace(cycle, values=values, programs={name: tuple(ops) for name, ops in programs.items()})
    makespan_s = play(compile_schedule(schedule_of(cycle, "other", placement))).makespan_s
    bound = bound_of(cycle, "train", placement)
    assert bound.seconds <= makespan_s
    assert bound.seconds == pytest.approx(makespan_s, rel=1e-6)


def test_a_program_without_tasks_takes_no_time():
    """And nothing sets its bound."""
    cycle = Cycle(1, programs={"setup": ()})
    assert bound_of(cycle, "setup", placement_of(1)) == Bound(0.0, "nothing")
