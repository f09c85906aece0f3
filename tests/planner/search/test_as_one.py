"""A host's cores may be shared out among workers or left to one; the search asks for both and takes the faster."""

import pytest
from pydantic import ValidationError

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link
from tests.planner.search.searched import found

LARGE = generate_rmat(RmatGraph(source="rmat", num_nodes=20_000, num_edges=200_000, num_features=128))
SLOW, FAST = Link(bytes_per_s=1e6, latency_s=1e-3), Link(bytes_per_s=1e12)


def scaled(factor, **facts):
    """A catalog device so many times as fast."""
    profile = catalog_profile("t4")
    operators = {
        name: table.model_copy(
            update={
                "points": tuple(p.model_copy(update={"median_s": p.median_s / factor}) for p in table.points),
            }
        )
        for name, table in profile.operators.items()
    }
    return profile.model_copy(update={"operators": operators, "host_overhead_s": 0.0, **facts})


@pytest.fixture
def placement(tmp_path):
    """One host with two workers, or one that is so many times as fast as one of them; a link between the two."""

    def make(factor, link):
        one = scaled(factor, name="one", num_threads=2).save(tmp_path / "one.json")
        half = scaled(1.0, name="half").save(tmp_path / "half.json")
        device = DeviceSpec(profile=half, count=2, as_one=one)
        return resolve(Cluster(hosts=(HostSpec(name="h", devices=(device,)),), device_link=link))

    return make


def used(candidate):
    """Profiles of the workers that take part."""
    return [worker.profile.split("@")[0] for worker in candidate.setting.placement.workers]


def test_one_worker_wins_where_exchanging_costs_more(placement):
    """Its plan names its profile alone, with its threads."""
    best = found(placement=placement(1.9, SLOW)).best
    assert used(best) == ["one"]
    assert best.setting.placement.threads_by_host == {"h": 2}
    assert [profile.name for profile in best.setting.placement.profiles.values()] == ["one"]


def test_two_workers_win_where_threads_gain_little(placement):
    """One with both threads is hardly faster than one of two."""
    result = found(LARGE, placement=placement(1.05, FAST))
    assert used(result.best) == ["half", "half"]
    assert ["one"] in [used(each) for each in result.looked_at]


@pytest.mark.long
@pytest.mark.parametrize(("factor", "link"), [(1.9, SLOW), (1.05, FAST)])
def test_the_bound_is_of_both(placement, factor, link):
    """No plan of either is faster."""
    result = found(LARGE, placement=placement(factor, link))
    assert result.bound.seconds <= min(each.epoch_s for each in result.looked_at)


@pytest.mark.long
def test_pinned_numbers_of_workers_are_kept(placement):
    """Two are two; one may be either."""
    assert used(found(placement=placement(1.9, SLOW), num_workers=2).best) == ["half", "half"]
    assert used(found(placement=placement(1.9, FAST), num_workers=1).best) == ["one"]


def test_a_catalog_device_has_no_other_form():
    """It is refused by name."""
    with pytest.raises(ValidationError, match="as_one goes with profile"):
        DeviceSpec(catalog="t4", as_one="one.json")
