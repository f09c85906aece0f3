"""Hosts that share a machine are faster while the others rest, and only those."""

import pytest

from gnnplan.planner.beside import paces_beside, shares_beside
from gnnplan.planner.readers.cost import costs_of
from gnnplan.planner.statistics.machine import machine_of
from gnnplan.profiles.machine import SharedMachine
from tests.planner.link_model import MBIT, LinkModel

FOUR = LinkModel((1, 1, 1, 1), (1000 * MBIT,) * 4)


def placed(tmp_path, machines, num_cores=None):
    """Four hosts of one session, each on a machine by its name (None: on one of its own), two thirds as long alone."""
    placement = FOUR.placement(tmp_path)
    profiles = {}
    for worker, machine in zip(placement.workers, machines, strict=True):
        count = machines.count(machine)
        shared = None
        if machine:
            shared = SharedMachine(name=machine, num_hosts=count, alone_share=2 / 3, num_cores=num_cores)
        profiles[worker.profile] = placement.profiles[worker.profile].model_copy(update={"shared_machine": shared})
    return placement.model_copy(update={"profiles": profiles})


@pytest.mark.long
@pytest.mark.parametrize(("ranks", "share"), [((0,), 2 / 3), ((0, 1), 7 / 9), ((1, 2, 3), 8 / 9), ((0, 1, 2, 3), 1.0)])
def test_each_host_more_adds_as_much(tmp_path, ranks, share):
    """Of four hosts of one machine."""
    assert list(shares_beside(placed(tmp_path, ["m"] * 4).of(ranks)).values()) == pytest.approx([share] * len(ranks))


def test_hosts_of_other_machines_do_not_count(tmp_path):
    """Two machines of two hosts: one of each is alone on its machine."""
    placement = placed(tmp_path, ["m", "m", "n", "n"])
    assert list(shares_beside(placement.of((0, 2))).values()) == pytest.approx([2 / 3] * 2)
    assert set(shares_beside(placement.of((0, 1))).values()) == {1.0}


def test_a_host_with_a_machine_of_its_own_takes_what_was_timed(tmp_path):
    """As every profile of an older version."""
    assert set(shares_beside(placed(tmp_path, [None] * 4).of((0,))).values()) == {1.0}


def test_everything_that_a_host_computes_takes_its_share(tmp_path):
    """Operators and overheads; of all hosts what stands in the tables, also from a subset's."""
    placement = placed(tmp_path, ["m"] * 4)
    every, name = costs_of(placement), placement.workers[0].profile
    alone = costs_of(placement.of((0,)), every)[name]
    for operator, table in placement.profiles[name].operators.items():
        shape = table.points[-1].shape
        assert alone(operator, *shape).seconds == pytest.approx(every[name](operator, *shape).seconds * 2 / 3)
    assert alone.step_overhead().seconds == pytest.approx(every[name].step_overhead().seconds * 2 / 3)
    assert alone.profile.host_overhead_s == pytest.approx(every[name].profile.host_overhead_s * 2 / 3)
    again = costs_of(placement, every)
    assert again[name].profile == every[name].profile
    assert again[name].share == 1


def test_hosts_that_stand_for_others_are_as_many_as_they_are(tmp_path):
    """What-if prices one of four that are alike, and all four compute."""
    placement = placed(tmp_path, ["m"] * 4)
    one = placement.workers[0].profile
    alike = placement.model_copy(
        update={
            "workers": tuple(each.model_copy(update={"profile": one}) for each in placement.workers),
            "profiles": {one: placement.profiles[one]},
        }
    )
    machine = machine_of(alike)
    assert len(machine.placement.workers) == 1
    assert machine.costs[one].share == 1
    assert machine_of(alike.of((0,))).costs[one].share == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("ranks", "num_cores", "pace"), [((0, 1, 2, 3), 2, 0.5), ((0, 1), 2, 1.0), ((0, 1, 2), 1, 1 / 3)]
)
def test_threads_without_a_core_of_their_own_are_slower_while_a_quota_lasts(tmp_path, ranks, num_cores, pace):
    """By how many threads there are for a core; of an old profile nobody knows the cores."""
    num_threads = placed(tmp_path, ["m"] * 4).profile_of(0).num_threads
    placement = placed(tmp_path, ["m"] * 4, num_cores * num_threads).of(ranks)
    assert list(paces_beside(placement).values()) == pytest.approx([pace] * len(ranks))
    assert set(paces_beside(placed(tmp_path, ["m"] * 4).of(ranks)).values()) == {1.0}
    assert set(paces_beside(placed(tmp_path, [None] * 4, num_cores).of(ranks)).values()) == {1.0}
