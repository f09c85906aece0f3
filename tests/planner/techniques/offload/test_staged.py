"""Rows and blocks in the memory of a GPU's host: who copies what, and what counts where."""

import mmap

import pytest

from benchmarks._exactness_cases import Case
from benchmarks._fake_plans import planned
from benchmarks._fake_training import train_on_cpu
from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.consistency import fault_of
from gnnplan.planner.program.outside import is_staged
from gnnplan.planner.readers.block_bytes import staged_bytes
from gnnplan.planner.readers.pinned import pinned_bytes
from gnnplan.runtime.execution import executor, outside
from gnnplan.runtime.execution.outside import Outside

KINDS = ("gcn", "gat", "tagcn")
LAYOUTS = ("halo_exchange", "feature_slices")


def plan_of(model, where="host", layout="halo_exchange", size=2):
    """On so many GPUs, two a host."""
    return planned(Case(model, ("offload",), layout=layout, optimizer="adam", outside=where), size, "v100")


@pytest.fixture(scope="module", params=[(model, layout) for model in KINDS for layout in LAYOUTS])
def plan(request):
    """Of a model in a layout."""
    return plan_of(request.param[0], layout=request.param[1])


@pytest.mark.long
def test_a_plan_says_so(plan):
    """Its program is sound, and what is taken of the host is no view."""
    cycle = plan.plan.cycle.cycle()
    assert is_staged(cycle)
    assert fault_of(cycle) is None
    taken = [op for p in cycle.programs.values() for op in p if cycle.values[op.reads[0]].tier == "pinned"]
    assert taken
    assert {op.kind for op in taken} == {"take"}
    assert not any(views(cycle, op) for op in taken)


def test_blocks_count_while_they_are_read(plan):
    """They are in none of what stays, and the largest is in what an epoch makes and drops."""
    cycle = plan.plan.cycle.cycle()
    ops = [op for op in cycle.operators_of_epochs() if "block" in op.attributes]
    for worker, memory in enumerate(plan.memory):
        largest = max(sum(staged_bytes(cycle, op, worker)) for op in ops)
        assert 0 < largest <= memory.epoch_bytes
        assert memory.graph_bytes < largest


def test_the_gpu_has_less_and_the_host_more(plan):
    """Than where rows lie on the GPU; every worker's part of the host is counted once a host."""
    case = plan.case
    whole = planned(Case(case.model, layout=case.layout, optimizer="adam"), 2, "v100")
    for staged, plain in zip(plan.memory, whole.memory, strict=True):
        assert staged.peak_bytes < plain.peak_bytes
        assert plain.pinned_bytes == 0
    assert plan.plan.pinned_bytes() == {"h0": sum(memory.pinned_bytes for memory in plan.memory)}
    assert whole.plan.pinned_bytes() == {}


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_what_the_host_keeps_is_planned(model, monkeypatch):
    """Blocks of memory that a worker asks for are as many bytes as were said, but for pieces that are not full."""
    made = []

    def block(size):
        made.append(size)
        return mmap.mmap(-1, size)

    plan = plan_of(model, size=1)
    monkeypatch.setattr(executor, "in_host_memory", lambda device: Outside(block))
    monkeypatch.setattr(outside, "_PIECE_BYTES", 2**12)
    train_on_cpu(plan)
    assert sum(made) == pytest.approx(pinned_bytes(plan.plan.cycle.cycle(), 0), rel=0.1)


def test_on_disk_is_another_decision():
    """Nothing is staged where rows lie in files."""
    cycle = plan_of("gcn", "disk").plan.cycle.cycle()
    assert not is_staged(cycle)
    assert {value.tier for value in cycle.values.values()} == {"device", "disk"}
