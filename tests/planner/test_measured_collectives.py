"""Exchanges are predicted by tables that the profiler makes of a cluster whose every second is known."""

import json

import numpy as np
import pytest

from gnnplan.planner.cluster import resolve
from gnnplan.planner.network import Network
from gnnplan.profiles.machine import MachineProfile
from tests.planner.link_model import KIB, MBIT, MIB, LinkModel

SLOW_THIRD = LinkModel((1, 1, 1), (1000 * MBIT, 1000 * MBIT, 100 * MBIT))
SLOW_FOURTH = LinkModel((1, 1, 1, 1), (1000 * MBIT, 1000 * MBIT, 1000 * MBIT, 100 * MBIT))
FAST_FIRST = LinkModel((1, 1, 1, 1), (1000 * MBIT, 100 * MBIT, 100 * MBIT, 100 * MBIT))
TWO_EACH = LinkModel((2, 2), (100 * MBIT, 100 * MBIT))
UNEVEN_HOSTS = LinkModel((3, 1, 2), (500 * MBIT, 1000 * MBIT, 200 * MBIT))
ONE_HOST = LinkModel((3,), (1000 * MBIT,))
ONE_CORE = LinkModel((1, 1, 1), (1000 * MBIT,) * 3, shared_bytes_per_s=1600 * MBIT)
SHARED_UNEVEN = LinkModel((1, 1, 1), (100 * MBIT, 1000 * MBIT, 1000 * MBIT), shared_bytes_per_s=150 * MBIT)
ALL = {
    "slow third": SLOW_THIRD,
    "slow fourth": SLOW_FOURTH,
    "fast first": FAST_FIRST,
    "two each": TWO_EACH,
    "uneven hosts": UNEVEN_HOSTS,
    "one host": ONE_HOST,
    "one core": ONE_CORE,
    "shared and uneven": SHARED_UNEVEN,
}
MODELS = pytest.mark.parametrize("model", ALL.values(), ids=ALL)


def old(profiles):
    """As a version made them that knew neither pairs nor members."""
    return [
        profile.model_copy(
            update={
                "members": (),
                "host": "",
                "collectives": tuple(t for t in profile.collectives if t.collective != "all_to_all_pair"),
                "num_workers_beside": member.num_workers,
            }
        )
        for profile, member in zip(profiles, profiles[0].members)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "amounts"),
    [
        (SLOW_THIRD, {"w0_1": MIB}),
        (SLOW_THIRD, {"w0_2": MIB}),
        (SLOW_THIRD, {"w0_1": 2 * MIB, "w0_2": 10 * KIB, "w1_2": 10 * KIB}),
        (SLOW_FOURTH, {"w0_1": MIB, "w0_2": MIB, "w1_2": MIB}),
        (SLOW_FOURTH, {"w0_1": MIB, "w2_3": MIB / 4}),
        (FAST_FIRST, {"w0_1": MIB, "w0_2": MIB, "w0_3": MIB}),
        (FAST_FIRST, {"w0_1": MIB, "w2_3": MIB / 2}),
        (TWO_EACH, {"w0_1": MIB}),
        (TWO_EACH, {"w0_1": MIB, "w2_3": 2 * MIB}),
        (TWO_EACH, {"w0_2": MIB / 2, "w1_3": MIB / 2}),
        (TWO_EACH, {"w0_1": MIB, "w1_2": MIB / 2}),
        (UNEVEN_HOSTS, {"w0_1": MIB, "w1_2": MIB}),
        (UNEVEN_HOSTS, {"w0_3": MIB, "w4_5": MIB}),
        (UNEVEN_HOSTS, {"w3_4": MIB / 2, "w3_5": MIB / 2}),
        (ONE_CORE, {"w0_1": MIB}),
        (ONE_CORE, {"w0_1": MIB, "w0_2": MIB}),
    ],
)
def test_an_exchange_takes_what_its_own_links_need(model, amounts, tmp_path):
    """Whatever other links there are, and whatever an even exchange would take."""
    network, sent = Network(model.placement(tmp_path)), model.sent(**amounts)
    estimate = network.all_to_all(sent)
    assert estimate.seconds == pytest.approx(model.seconds(sent), rel=0.05)
    assert not estimate.unprofiled


@pytest.mark.long
@pytest.mark.parametrize("model", [SLOW_THIRD, SLOW_FOURTH, FAST_FIRST, TWO_EACH, UNEVEN_HOSTS, ONE_CORE])
@pytest.mark.parametrize("amounts", [{"w0_1": MIB}, {"w0_1": MIB / 4}])
def test_some_of_the_hosts_exchange_as_they_do_where_the_others_send_nothing(model, amounts, tmp_path):
    """In any order."""
    cluster = model.cluster(tmp_path)
    for left_out in range(2, len(model.workers)):
        hosts = [host for index, host in enumerate(cluster.hosts) if index != left_out]
        here = np.flatnonzero(model.host_of != left_out)
        network = Network(resolve(cluster.model_copy(update={"hosts": tuple(hosts)})))
        sent = model.sent(**amounts)
        estimate = network.all_to_all(sent[np.ix_(here, here)])
        assert estimate.seconds == pytest.approx(model.seconds(sent), rel=0.05)
        assert not estimate.unprofiled


def test_some_of_the_hosts_share_what_all_do(tmp_path):
    """Two of three that a core copies for: half as many links are busy, so they wait for each other less."""
    cluster = ONE_CORE.cluster(tmp_path)
    two = Network(resolve(cluster.model_copy(update={"hosts": cluster.hosts[:2]})))
    sent = np.array([[0, MIB], [MIB, 0]])
    assert two.all_to_all(sent).seconds == pytest.approx(ONE_CORE.seconds(ONE_CORE.sent(w0_1=MIB)), rel=0.05)


@pytest.mark.long
def test_a_sum_over_some_of_the_hosts_is_a_smaller_ring_over_their_links(tmp_path):
    """Where the slow one takes no part it holds up nobody; a quarter of the steps is left out."""
    cluster = SLOW_FOURTH.cluster(tmp_path)
    whole = Network(resolve(cluster))
    three = {at: Network(resolve(cluster.model_copy(update={"hosts": cluster.hosts[at : at + 3]}))) for at in (0, 1)}
    assert three[1].all_reduce(3 * MIB).seconds == pytest.approx(2 / 3 * whole.all_reduce(4 * MIB).seconds)
    assert three[0].all_reduce(3 * MIB).seconds == pytest.approx(three[1].all_reduce(3 * MIB).seconds / 10, rel=0.05)
    used = [each[0].seconds for each in (three[0].all_reduce_processor(3 * MIB), whole.all_reduce_processor(4 * MIB))]
    assert used[0] == pytest.approx(2 / 3 * used[1])


def test_rows_one_way_take_no_longer_than_both_ways(tmp_path):
    """Links carry both directions at once, as they did when they were measured."""
    network, both = Network(SLOW_THIRD.placement(tmp_path)), SLOW_THIRD.sent(w0_1=MIB)
    assert network.all_to_all(np.triu(both)).seconds == pytest.approx(network.all_to_all(both).seconds)


@pytest.mark.long
@MODELS
@pytest.mark.parametrize("version", ["with pairs", "without"])
@pytest.mark.parametrize("num_bytes", [64 * KIB, MIB])
def test_an_even_exchange_takes_what_was_measured(model, version, num_bytes, tmp_path):
    """At a size that was timed exactly, however uneven the ports are, and however many workers share one."""
    profiles = model.profiles() if version == "with pairs" else old(model.profiles())
    (table,) = (t.table for t in profiles[0].collectives if t.collective == "all_to_all")
    (measured_s,) = (point.median_s for point in table.points if point.shape == (num_bytes,))
    if version == "without" and len(model.workers) == 1:
        profiles = [profiles[0].model_copy(update={"session": ""})]
    estimate = Network(model.placement(tmp_path, profiles)).all_to_all(model.even(num_bytes))
    assert estimate.seconds == pytest.approx(measured_s, rel=1e-6)
    assert not estimate.unprofiled


def test_all_ports_busy_wait_for_what_they_share(tmp_path):
    """A core that copies all bytes: two links at once take as long as one after the other."""
    network, sent = Network(ONE_CORE.placement(tmp_path)), ONE_CORE.sent(w0_1=MIB, w1_2=MIB / 2, w0_2=MIB / 2)
    assert network.all_to_all(sent).seconds == pytest.approx(ONE_CORE.seconds(sent), rel=0.05)


@pytest.mark.long
@MODELS
def test_more_bytes_than_were_measured_are_a_guess(model, tmp_path):
    """Over any link."""
    network = Network(model.placement(tmp_path))
    assert network.all_to_all(model.sent(w0_1=64 * MIB)).unprofiled


def test_noise_of_the_largest_even_exchange_does_not_grow_beyond_it(tmp_path):
    """Timed 15% too long, four times as many bytes are predicted to take no more than 15% too long."""
    profiles = []
    for profile in SLOW_THIRD.profiles():
        tables = [
            slower_at_the_end(entry) if entry.collective == "all_to_all" else entry for entry in profile.collectives
        ]
        profiles.append(profile.model_copy(update={"collectives": tuple(tables)}))
    (even,) = (entry.table for entry in profiles[0].collectives if entry.collective == "all_to_all")
    sent = SLOW_THIRD.even(4 * even.points[-1].shape[0])
    estimate = Network(SLOW_THIRD.placement(tmp_path, profiles)).all_to_all(sent)
    assert estimate.seconds == pytest.approx(1.15 * SLOW_THIRD.seconds(sent), rel=0.02)
    assert estimate.unprofiled


def slower_at_the_end(entry):
    """A table whose last point was timed 15% too long."""
    *points, last = entry.table.points
    late = last.model_copy(update={"median_s": 1.15 * last.median_s})
    return entry.model_copy(update={"table": entry.table.model_copy(update={"points": (*points, late)})})


@pytest.mark.long
def test_ports_move_what_passes_them(tmp_path):
    """A fast host's port is its own, a slow peer's time is that one's; rows within a host pass no port."""
    fast = Network(SLOW_THIRD.placement(tmp_path))
    assert fast.port_s(0, MIB) == pytest.approx(MIB / (1000 * MBIT), rel=0.05)
    assert fast.port_s(2, MIB) == pytest.approx(MIB / (100 * MBIT), rel=0.05)
    of_first = FAST_FIRST.sent(w0_1=MIB, w0_2=MIB, w0_3=MIB)
    assert Network(FAST_FIRST.placement(tmp_path)).ports_s(of_first)[0] == pytest.approx(
        FAST_FIRST.seconds(of_first), rel=0.05
    )
    inside = Network(TWO_EACH.placement(tmp_path)).ports_s(TWO_EACH.sent(w0_1=MIB))
    assert inside.tolist() == pytest.approx([MIB / 1e9 + 1e-4] * 2 + [0, 0], rel=0.05)
    leaving = Network(TWO_EACH.placement(tmp_path)).ports_s(TWO_EACH.sent(w0_2=MIB / 2, w1_3=MIB / 2))
    assert leaving.tolist() == pytest.approx([MIB / (100 * MBIT)] * 4, rel=0.05)


def test_two_workers_alone_are_a_pair(tmp_path):
    """Of two hosts, of one, and the other way round."""
    network = Network(UNEVEN_HOSTS.placement(tmp_path))
    for one, other in ((0, 1), (0, 3), (3, 0), (4, 3), (5, 4)):
        expected_s = UNEVEN_HOSTS.seconds(UNEVEN_HOSTS.sent(**{f"w{one}_{other}": MIB}))
        assert network.pair_s(one, other, MIB) == pytest.approx(expected_s, rel=0.05)
    assert network.pair_s(0, 0, MIB) == network.pair_s(0, 1, 0) == 0


def test_two_workers_need_no_other_table(tmp_path):
    """What one of them sends and receives is what both do: nothing is timed but what all do together."""
    two = LinkModel((1, 1), (1000 * MBIT, 100 * MBIT))
    profiles = two.profiles()
    assert [t.collective for t in profiles[0].collectives] == ["all_reduce", "all_to_all"]
    network, sent = Network(two.placement(tmp_path, profiles)), two.sent(w0_1=MIB)
    for seconds in (network.all_to_all(sent).seconds, network.port_s(0, MIB), network.pair_s(0, 1, MIB)):
        assert seconds == pytest.approx(two.seconds(sent), rel=0.01)


def test_an_old_profile_has_ports_alone(tmp_path):
    """It is read and used as before: each port at what it took with all others at once."""
    profiles = old(SLOW_THIRD.profiles())
    raw = json.loads(profiles[0].model_dump_json())
    del raw["members"], raw["host"]
    for table in raw["collectives"]:
        del table["peer"]
    (tmp_path / "old.json").write_text(json.dumps(raw))
    assert MachineProfile.load(tmp_path / "old.json") == profiles[0]
    network = Network(SLOW_THIRD.placement(tmp_path, profiles))
    port_s = SLOW_THIRD.seconds(SLOW_THIRD.sent(w0_1=MIB / 2, w0_2=MIB / 2))
    assert network.port_s(0, MIB) == pytest.approx(port_s, rel=0.05)
    assert network.pair_s(0, 2, MIB) == pytest.approx(SLOW_THIRD.seconds(SLOW_THIRD.sent(w0_2=MIB)), rel=0.05)
    assert not network.all_to_all(SLOW_THIRD.sent(w0_1=MIB)).unprofiled


@pytest.mark.parametrize("count", [2, 3])
def test_some_workers_of_one_machine_pass_what_was_measured(count, tmp_path):
    """Of one that was profiled with four: fewer exchange over the same memory, not over a link that is guessed."""
    profile = LinkModel((4,), (1000 * MBIT,)).profiles()[0]
    profile = profile.model_copy(update={"members": (), "host": "", "session": "", "num_workers_beside": 4})
    few = LinkModel((count,), (1000 * MBIT,))
    network, sent = Network(few.placement(tmp_path, [profile])), few.even(MIB)
    assert network.all_to_all(sent).seconds == pytest.approx(few.seconds(sent), rel=0.05)
    of_all = Network(LinkModel((4,), (1000 * MBIT,)).placement(tmp_path, [profile]))
    share = (count - 1) / 3
    assert network.all_reduce(count * MIB).seconds == pytest.approx(share * of_all.all_reduce(4 * MIB).seconds)
