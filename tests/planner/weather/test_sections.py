"""An epoch cut where workers wait for each other: what each of them does before, and how long the rows take."""

import numpy as np

from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.weather.sections import Sections, sections_of


def schedule_of(*rows):
    """Of (key, category, seconds of every worker, group) rows."""
    schedule = Schedule(num_workers=len(rows[0][2]))
    for key, category, seconds, group in rows:
        for worker, own_s in enumerate(seconds):
            resource = worker + schedule.num_workers * (category == "communicate")
            schedule.add(Task(key, worker, category, own_s, resource, group=group))
    return schedule


def test_work_is_cut_where_rows_travel():
    """What is computed beside an exchange counts after it; the loss says where the backward pass begins."""
    sections = sections_of(
        schedule_of(
            ("zero_grad", "host", (1.0, 2.0), -1),
            ("l0/multiply/forward", "compute", (3.0, 4.0), -1),
            ("l0/aggregate/exchange/forward", "communicate", (0.5, 0.5), 0),
            ("l0/aggregate/near/forward", "compute", (5.0, 6.0), -1),
            ("loss", "compute", (0.25, 0.25), -1),
            ("l0/aggregate/exchange/backward", "communicate", (0.75, 0.75), 1),
            ("l0/multiply/backward", "compute", (7.0, 8.0), -1),
            ("reduce", "communicate", (0.125, 0.125), 2),
            ("optimizer", "compute", (9.0, 9.0), -1),
        )
    )
    assert sections.compute_s.tolist() == [[4.0, 5.25, 7.0, 9.0], [6.0, 6.25, 8.0, 9.0]]
    assert sections.transfer_s.tolist() == [0.5, 0.75, 0.125]
    assert (sections.num_workers, sections.backward) == (2, 1)


def test_nobody_waits_where_no_rows_travel():
    """An exchange of nothing is no exchange; the gradients are still summed up."""
    sections = sections_of(
        schedule_of(
            ("l0/aggregate/exchange/forward", "communicate", (0.0, 0.0), -1),
            ("loss", "compute", (1.0, 2.0), -1),
            ("reduce", "communicate", (0.5, 0.5), 0),
            ("optimizer", "compute", (3.0, 3.0), -1),
        )
    )
    assert sections.compute_s.tolist() == [[1.0, 3.0], [2.0, 3.0]]
    assert (sections.transfer_s.tolist(), sections.backward) == ([0.5], 0)


def test_one_worker_has_nothing_to_reduce():
    """All of its work comes before a reduction that takes no time."""
    sections = sections_of(schedule_of(("loss", "compute", (1.0,), -1), ("optimizer", "compute", (2.0,), -1)))
    assert sections.compute_s.tolist() == [[3.0, 0.0]]
    assert (sections.transfer_s.tolist(), sections.backward) == ([0.0], 0)


def test_scaled_sections_are_as_much_longer():
    """All of them, and those that they were made from stay."""
    sections = Sections(np.array([[1.0, 2.0, 3.0]]), np.array([4.0, 5.0]), backward=1)
    longer = sections.scaled(2.0)
    assert (longer.compute_s.tolist(), longer.transfer_s.tolist()) == ([[2.0, 4.0, 6.0]], [8.0, 10.0])
    assert longer.backward == sections.backward
    assert sections.compute_s.tolist() == [[1.0, 2.0, 3.0]]
