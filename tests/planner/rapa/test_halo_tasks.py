"""What depends on a halo is priced as the lowering has it, and a decision on a whole halo is cut to a smaller one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.job import ModelSpec
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision, RegionDecision
from gnnplan.planner.joint_cache.region import decide_rows
from gnnplan.planner.rapa.halo_tasks import HaloTasks, cache_of_less, split_program
from gnnplan.planner.steps import build_program
from tests.planner.joint_cache.cases import cases
from tests.planner.rapa.problems import GRAPH, MULTIPLY, problem_of, trial_of

LAYERS = (MULTIPLY, MULTIPLY)


def halo_tasks(trial, program):
    """The price of these steps in the trial's partition."""
    placement, counts = trial.problem.placement, trial.halo.send_counts()
    tasks = HaloTasks(program, placement, trial.shapes, counts, trial.costs, GRAPH.num_classes, overlap=trial.overlap)
    return tasks.price()


@pytest.mark.parametrize(
    ("kind", "devices", "overlap"),
    [
        ("gcn", ("t4", "gtx-1650"), False),
        ("gcn", ("t4", "gtx-1650"), True),
        ("gat", ("t4", "gtx-1650"), False),
        ("gcn", ("t4",), False),
        ("gat", ("t4",), False),
    ],
)
def test_a_program_costs_what_its_lowered_steps_do(kind, devices, overlap):
    """Of every worker, exchanges noted and not priced; one on its own exchanges nothing."""
    trial = replace(trial_of(problem_of(kind, devices=devices)), overlap=overlap)
    lowering, busy_s = trial.lowering(LAYERS), np.zeros(len(devices))
    for task in lowering.lower().tasks:
        if task.category == "compute" and task.key[:2] in ("l0", "l1"):
            busy_s[task.worker] += task.seconds
    priced = halo_tasks(trial, trial.program(LAYERS))
    assert priced.busy_s.tolist() == pytest.approx(busy_s.tolist())
    assert [sent.tolist() for sent in priced.exchanges_bytes] == [sent.tolist() for sent in lowering.exchanges_bytes]
    assert bool(priced.exchanges_bytes) == (len(devices) > 1)
    assert priced.schedule.tasks == []


def test_both_parts_of_a_program_cost_what_it_does():
    """So what is priced once and what is priced for every halo add up, and all exchanges are among the second."""
    trial = trial_of(problem_of("sage", devices=("t4", "gtx-1650")))
    whole = halo_tasks(trial, trial.program(LAYERS))
    halo, others = (halo_tasks(trial, part) for part in split_program(trial.program(LAYERS)))
    assert (halo.busy_s + others.busy_s).tolist() == pytest.approx(whole.busy_s.tolist())
    assert len(halo.exchanges_bytes) == len(whole.exchanges_bytes)
    assert others.exchanges_bytes == []


@pytest.mark.parametrize(
    ("kind", "ops"),
    [
        ("gcn", {"aggregate"}),
        ("sage", {"aggregate"}),
        ("gin", {"aggregate"}),
        ("tagcn", {"aggregate"}),
        ("gat", {"exchange", "attend"}),
    ],
)
def test_every_step_is_on_one_side(kind, ops):
    """In the program's order, by whether it reads rows of others; weights belong to the whole."""
    program = build_program(ModelSpec(kind=kind), LAYERS, num_features=4, num_classes=2, sparse_input=False)
    halo, others = split_program(program)
    assert {step.op for step in halo.steps} == ops
    assert halo.steps == tuple(step for step in program.steps if step.op in ops)
    assert others.steps == tuple(step for step in program.steps if step.op not in ops)
    assert halo.weight_shapes == others.weight_shapes == program.weight_shapes


@settings(deadline=None)
@given(cases(), st.integers(0, 99))
def test_of_a_smaller_halo_the_same_share_is_kept(case, seed):
    """Of the whole one the decision stays as it is; of less, what is not sent anew is kept, as it was."""
    halo, hosts, device_rows, region_rows = case
    whole = halo.send_counts()
    tiered = decide_rows(halo, device_rows, hosts, region_rows)
    assert cache_of_less(tiered, whole, whole) == tiered
    cache = decide_rows(halo, device_rows, hosts)
    counts = np.random.default_rng(seed).integers(0, whole + 1)
    less = cache_of_less(cache, whole, counts)
    if not cache.keeps_any:
        assert less == cache
        return
    fresh = [[f * left // max(n, 1) for f, left, n in zip(*rows)] for rows in zip(cache.fresh_counts, counts, whole)]
    assert [list(row) for row in less.fresh_counts] == fresh
    assert list(less.num_rows) == (counts - np.array(fresh)).sum(0).tolist()


def test_rows_of_a_region_are_sent_and_written_in_proportion():
    """To each of its two readers half as many, and none at all where nothing is left."""
    nothing, rows = (0, 0, 0), (4, 4, 0)
    region = RegionDecision(
        num_rows=(4, 0), device_rows=nothing, written_rows=(2, 2, 0), sent_counts=(nothing, nothing, (2, 2, 0))
    )
    cache = CacheDecision(refresh_interval=4, num_rows=nothing, fresh_counts=(nothing,) * 3, region=region)
    whole = np.array([nothing, nothing, rows])
    half, none = (cache_of_less(cache, whole, whole // divisor) for divisor in (2, 8))
    assert (half.region.written_rows, half.region.sent_counts) == ((1, 1, 0), (nothing, nothing, (1, 1, 0)))
    assert (none.region.written_rows, none.region.sent_counts) == (nothing, (nothing,) * 3)
    assert {each.num_rows for each in (half, none)} == {nothing}
    assert half.region.num_rows == none.region.num_rows == region.num_rows


def test_nothing_kept_stays_nothing():
    """Of any halo."""
    assert cache_of_less(NO_CACHE, np.ones((2, 2), int), np.zeros((2, 2), int)) is NO_CACHE
