"""Tasks follow the program: one lane in its order, across lanes by what is read."""

import numpy as np
import pytest
from reader_cases import Case, placement_of

from gnnplan.planner.cluster import Placement
from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.program.parts import Operator, Space, Value
from gnnplan.planner.readers.schedule import schedule_of, waits
from gnnplan.planner.simulator.engine import compile_schedule, play

MODELS = ["gcn", "sage", "gin", "tagcn", "gat"]
ORDERS = ["multiply_first", "aggregate_first"]


def made_labels(case, level=1):
    """Every worker makes some of the rows of a level."""
    rng, labels = np.random.default_rng(1), Labels()
    for worker in range(case.num_workers):
        labels = labels.marked(level, worker, rng.permutation(len(case.part))[:50], Label.MADE)
    return labels


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("overlap", [False, True])
def test_tasks_are_the_operators_that_are_no_views(kind, order, overlap):
    """On every worker the same, in the program's order, under the operators' keys."""
    case = Case(kind, 3, order, overlap=overlap)
    cycle = case.cycle(labels=made_labels(case))
    for name, program in cycle.programs.items():
        schedule = schedule_of(cycle, name, placement_of(3))
        wanted = [op.key for op in program if not views(cycle, op)]
        assert len(wanted) < len(program) or name == "evaluate"
        for worker in cycle.workers:
            assert schedule.keys_of(worker) == wanted


@pytest.mark.parametrize("kind", MODELS)
def test_collectives_are_one_group_of_all_workers_beside_their_compute_lanes(kind):
    """All members last as long as each other, on resources that compute nothing."""
    schedule = schedule_of(Case(kind, 3).cycle(), "train", placement_of(3))
    groups = {}
    for task in schedule.tasks:
        is_collective = task.category == "communicate"
        assert is_collective == (task.group >= 0) == (task.charged >= 0)
        assert task.resource == task.worker + 3 * is_collective
        if is_collective:
            groups.setdefault(task.group, []).append(task)
    assert len(groups) > 1
    for members in groups.values():
        assert [task.worker for task in members] == [0, 1, 2]
        assert len({(task.key, task.seconds) for task in members}) == 1


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("overlap", [False, True])
def test_every_edge_of_the_program_is_kept(kind, order, overlap):
    """Also through views: whoever reads one comes after who made it. A task waits for one a lane at most."""
    case = Case(kind, 2, order, overlap=overlap)
    cycle = case.cycle(split=False, labels=made_labels(case))
    program = cycle.programs["train"]
    order_of_ends = {}
    timeline = play(compile_schedule(schedule := schedule_of(cycle, "train", placement_of(2))))
    for index, task in enumerate(schedule.tasks):
        order_of_ends[task.key, task.worker] = timeline.start_ns[index], timeline.end_ns[index]
        assert len(task.after) <= 2
    assert any(views(cycle, op) for op in program)
    for number, before in enumerate(edges(cycle, program)):
        for other in tasks_behind(cycle, program, before):
            for worker in cycle.workers:
                if not views(cycle, program[number]):
                    start = order_of_ends[program[number].key, worker][0]
                    assert order_of_ends[program[other].key, worker][1] <= start


def tasks_behind(cycle, program, numbers):
    """Numbers of tasks, with those that a view waits for in its place."""
    before_of = edges(cycle, program)
    found, todo = set(), list(numbers)
    while todo:
        number = todo.pop()
        if views(cycle, program[number]):
            todo += before_of[number]
        else:
            found.add(number)
    return found


@pytest.mark.parametrize("kind", MODELS)
def test_a_collective_on_the_compute_lane_blocks(kind):
    """So a worker does one task after another, and the epoch is no shorter than their sum."""
    cycle = Case(kind, 2).cycle()
    schedule = schedule_of(cycle, "train", placement_of(2))
    last = {}
    for index, task in enumerate(schedule.tasks):
        assert task.after == ((last[task.worker],) if task.worker in last else ())
        last[task.worker] = index
    makespan_s = play(compile_schedule(schedule)).makespan_s
    for worker in range(2):
        assert makespan_s >= 0.999999 * sum(task.seconds for task in schedule.tasks if task.worker == worker)


@pytest.mark.parametrize("kind", MODELS)
def test_only_readers_wait_for_a_collective_on_a_lane_of_its_own(kind):
    """Something is computed while rows travel, and the epoch is shorter for it."""
    makespans = {}
    for overlap in (False, True):
        cycle = Case(kind, 2, overlap=overlap).cycle()
        timeline = play(compile_schedule(schedule_of(cycle, "train", placement_of(2))))
        makespans[overlap] = timeline.makespan_ns
        program, before = cycle.programs["train"], waits(cycle, cycle.programs["train"])
        beside = [
            number
            for number, op in enumerate(program)
            if op.kind == "exchange" and number + 1 in before and number not in before[number + 1]
        ]
        assert bool(beside) == overlap
    assert makespans[True] < makespans[False]


def test_a_task_waits_for_the_last_of_each_lane():
    """Which stands for all before it, in whatever order the program names them."""
    names = "abcdefghij"
    values = {name: Value(name, "rows", 1) for name in names}
    compute = [Operator(name, "scale", ("a",), (name,), {"factor": 2.0}) for name in names]
    program = [op if number not in (1, 8) else summed(op) for number, op in enumerate(compute)]
    program[9] = Operator("j", "add", ("b", "i"), ("j",), {"factors": (1, 1)})
    cycle = Cycle(2, values=values, spaces={"rows": Space("rows", (5, 5))})
    assert waits(cycle, tuple(program))[9] == (7, 8)


def summed(op):
    """In an operator's place a sum on a lane of its own."""
    return Operator(op.key, "all_reduce", op.reads, op.writes, lane="network")


@pytest.mark.parametrize("program", ["train", "evaluate"])
def test_one_worker_waits_for_nobody(program):
    """A sum over one worker takes no time, and nothing of it is a guess."""
    schedule = schedule_of(Case("gcn", 1).cycle(), program, placement_of(1))
    for task in schedule.tasks:
        if task.category == "communicate":
            assert (task.seconds, task.unprofiled) == (0.0, False)
    assert play(compile_schedule(schedule)).makespan_s > 0


def test_a_cpu_pays_overhead_and_work_and_a_gpu_the_longer_of_them():
    """Of every task that a worker does by itself."""
    cycle = Case("gcn", 2).cycle()
    plain = schedule_of(cycle, "train", placement_of(2))
    cpu, gpu = (
        schedule_of(cycle, "train", placement_of(2, host_overhead_s=1e-4, device_kind=kind)) for kind in ("cpu", "cuda")
    )
    for without, added, hidden in zip(plain.tasks, cpu.tasks, gpu.tasks, strict=True):
        if without.category == "compute":
            assert added.seconds == pytest.approx(without.seconds + 1e-4)
            assert hidden.seconds == max(without.seconds, 1e-4)
        else:
            assert added.seconds == without.seconds == hidden.seconds


def test_other_cores_than_were_profiled_make_guesses(monkeypatch):
    """Of the tasks of that worker."""
    monkeypatch.setattr(Placement, "has_other_cores", lambda _, worker: worker == 1)
    schedule = schedule_of(Case("gcn", 2, sparse=True).cycle(), "train", placement_of(2))
    for worker in (0, 1):
        computed = [t.unprofiled for t in schedule.tasks if t.worker == worker and t.category == "compute"]
        assert all(computed) if worker else not all(computed)


def test_programs_of_many_workers_are_read():
    """As many tasks as operators times workers."""
    cycle = Case("gcn", 24).cycle()
    schedule = schedule_of(cycle, "train", placement_of(24))
    num_tasks = sum(not views(cycle, op) for op in cycle.programs["train"])
    assert len(schedule.tasks) == 24 * num_tasks
    assert sum(KINDS[op.kind].collective for op in cycle.programs["train"]) == 5  # 2 each way, and the sum
