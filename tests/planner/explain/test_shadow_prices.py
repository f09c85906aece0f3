"""A shadow price is what the epoch changes by where the machines really are that much better."""

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.explain.binding import worker_bindings
from gnnplan.planner.explain.epochs import played_programs
from gnnplan.planner.explain.prices import BETTER, prices_of
from gnnplan.planner.search import simulate_plan
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import CpuQuota, Link
from tests.planner.explain.explained import plan_on, plan_on_three, planned
from tests.planner.link_model import MBIT, LinkModel

WITHIN = 0.2  # of what was said, as the issue asks
RATES = (4e8, 1e9, 2e9)


def prices(plan):
    """Every price by its resource's words, and the combined ones."""
    single, combined = prices_of(plan, worker_bindings(played_programs(plan), plan.placement))
    return {price.resources[0]: price for price in single}, combined


def moved_s(plan, placement):
    """Seconds by which the same program takes longer on other machines."""
    return simulate_plan(plan.model_copy(update={"placement": placement})).median_epoch_s - plan.prediction.epoch_s


def hosts(rates, latency_s=2e-5, devices=("rtx-3090", "gtx-1650", "t4")):
    """A device a host, each behind a link of its own."""
    specs = (
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=device),), link=Link(bytes_per_s=rate, latency_s=latency_s))
        for i, (device, rate) in enumerate(zip(devices, rates))
    )
    return resolve(Cluster(hosts=tuple(specs)))


@pytest.fixture(scope="module")
def plan():
    """On three hosts with different links, whose rows all travel."""
    return planned(hosts(RATES), num_workers=3, dependencies="communicate")[0]


@pytest.mark.long
@pytest.mark.parametrize("moved", [0, 1, 2, "all"])
def test_prices_of_links_are_those_of_faster_links(plan, moved):
    """The hosts are described again, with 5% more bytes a second."""
    rates = [BETTER * rate if moved in (rank, "all") else rate for rank, rate in enumerate(RATES)]
    price = prices(plan)[0]["links of all hosts" if moved == "all" else f"link of h{moved}"]
    assert price.moved_s == pytest.approx(moved_s(plan, hosts(rates)), rel=WITHIN, abs=1e-9)
    assert price.share == pytest.approx(price.moved_s / plan.prediction.epoch_s)
    if moved in (0, "all"):
        assert price.share < -0.005


def test_the_price_of_latency_is_that_of_shorter_messages(plan):
    """All hosts' at once."""
    placement = hosts(RATES, latency_s=2e-5 / BETTER)
    device = plan.placement.device_link
    placement = placement.model_copy(
        update={"device_link": device.model_copy(update={"latency_s": device.latency_s / BETTER})}
    )
    price = prices(plan)[0]["latency of all links"]
    assert price.moved_s == pytest.approx(moved_s(plan, placement), rel=WITHIN)
    assert price.moved_s < 0


def timed_as(profile, factor):
    """A profile all of whose operators took so many times as long."""
    tables = {
        name: table.model_copy(
            update={"points": tuple(p.model_copy(update={"median_s": factor * p.median_s}) for p in table.points)}
        )
        for name, table in profile.operators.items()
    }
    return profile.model_copy(update={"operators": tables})


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_price_of_compute_is_that_of_a_faster_device(plan, rank):
    """The device is profiled again, 5% faster."""
    places = plan.placement
    profiles = {**places.profiles, places.workers[rank].profile: timed_as(places.profile_of(rank), 1 / BETTER)}
    price = prices(plan)[0][f"compute of worker {rank} (h{rank})"]
    expected_s = moved_s(plan, places.model_copy(update={"profiles": profiles}))
    assert price.moved_s == pytest.approx(expected_s, rel=WITHIN, abs=1e-9)


def test_a_price_is_a_rate():
    """Where one thing binds, half the move gives half the gain, within what was said."""
    alone = plan_on("one")
    half = timed_as(alone.placement.profile_of(0), 2 / (1 + BETTER))
    (name,) = alone.placement.profiles
    halfway_s = moved_s(alone, alone.placement.model_copy(update={"profiles": {name: half}}))
    price = prices(alone)[0]["compute of worker 0 (h0)"]
    assert price.moved_s == pytest.approx(2 * halfway_s, rel=WITHIN)
    assert price.moved_s < 0


def test_combined_moves_are_simulated(plan):
    """The first is the best resource twice as good, the second that and the best of another sort, not less."""
    single, (one, two) = prices(plan)
    assert one.resources == (next(iter(single)),)
    assert set(one.resources) < set(two.resources)
    assert one.factor == two.factor == 2
    assert two.moved_s <= one.moved_s < next(iter(single.values())).moved_s
    twice = moved_s(plan, hosts([2 * rate for rate in RATES]))
    assert one.moved_s == pytest.approx(twice, rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        LinkModel((1, 1, 1), (1000 * MBIT, 1000 * MBIT, 100 * MBIT)),
        LinkModel((1, 1), (1000 * MBIT, 100 * MBIT)),
        LinkModel((2, 2), (1000 * MBIT, 100 * MBIT)),
    ],
    ids=["three hosts", "two hosts", "two workers a host"],
)
def test_prices_of_measured_links_are_those_of_faster_links(model, tmp_path):
    """The hosts are profiled again with a faster link; only the slow one's moves anything."""
    size, slow = len(model.bytes_per_s), len(model.bytes_per_s) - 1
    plan, _ = planned(model.placement(tmp_path), num_workers=model.size, dependencies="communicate")
    rates = (*model.bytes_per_s[:-1], model.bytes_per_s[-1] * BETTER)
    faster = LinkModel(model.workers, rates).placement(tmp_path)
    found, _ = prices(plan)
    expected_s = moved_s(plan, faster)
    assert expected_s < 0
    assert found[f"link of h{slow}"].moved_s == pytest.approx(expected_s, rel=WITHIN)
    assert all(abs(found[f"link of h{other}"].share) < 2e-3 for other in range(size) if other != slow)


def test_a_larger_quota_is_worth_what_computing_in_it_is():
    """A worker alone that computes for a part of every period: 5% more of it is 5% more speed."""
    alone = plan_on("one")
    profile = catalog_profile("t4").model_copy(
        update={"device_kind": "cpu", "cpu_quota": CpuQuota(share=0.4, period_s=2e-5), "host_overhead_s": 0.0}
    )
    (name,) = alone.placement.profiles
    placement = alone.placement.model_copy(update={"profiles": {name: profile}})
    single, _ = prices(alone.model_copy(update={"placement": placement}))
    assert single["CPU quota of h0"].share == pytest.approx(1 / BETTER - 1, rel=WITHIN)


@pytest.mark.long
def test_one_worker_has_no_links():
    """Only what could be better is priced."""
    assert list(prices(plan_on("one"))[0]) == ["compute of worker 0 (h0)"]
    assert "links within hosts" in prices(plan_on("host", num_workers=4, dependencies="communicate"))[0]
    assert len(prices(plan_on_three())[0]) == 9
