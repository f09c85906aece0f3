"""This machine as a cluster: a CPU shared out among workers, and left to one, unless a job's owner says how many."""

import pytest

from gnnplan.planner import here
from gnnplan.profiles.catalog import catalog_profile


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """For how many workers profiles were asked, of a machine of that kind."""
    numbers = []

    def kept_profile(*, num_workers, fresh, on_progress):
        numbers.append(num_workers)
        kind = {"device_kind": "cpu", "num_workers_beside": num_workers or 2}
        return catalog_profile("t4").model_copy(update=kind), tmp_path / f"{num_workers}.json"

    monkeypatch.setattr(here, "kept_profile", kept_profile)
    return numbers


def test_a_cpu_is_measured_shared_out_and_left_to_one(asked, tmp_path):
    """The cluster names both profiles."""
    (device,) = here.this_machine().hosts[0].devices
    assert (device.count, device.profile, device.as_one) == (2, tmp_path / "0.json", tmp_path / "1.json")
    assert asked == [0, 1]


def test_who_says_how_many_gets_so_many(asked):
    """Nothing else is measured."""
    (device,) = here.this_machine(num_workers=2).hosts[0].devices
    assert (device.count, device.as_one, asked) == (2, None, [2])


def test_a_gpu_is_one_worker_already(asked, monkeypatch):
    """It is not shared out."""
    asked.clear()
    monkeypatch.setattr(
        here,
        "kept_profile",
        lambda **options: (asked.append(options["num_workers"]) or catalog_profile("t4"), "t4.json"),
    )
    assert here.this_machine().hosts[0].devices[0].as_one is None
    assert asked == [0]
