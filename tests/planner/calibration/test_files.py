"""Calibrated profiles go into files of their own, beside a cluster that names them; what they were made from stays."""

from pathlib import Path

import pytest

from gnnplan.planner.calibration.files import calibrated_files
from gnnplan.planner.cluster import CLUSTER_FILE, Cluster, DeviceSpec, HostSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError


def calibrated(device, **changes):
    """A profile of the catalog as calibration leaves it."""
    profile = catalog_profile(device)
    return profile.model_copy(update={"host_overhead_s": 1.0, "based_on": profile.fingerprint(), **changes})


def cluster_in(folder, *catalog):
    """The file of a cluster of one host, with two of each of these devices."""
    devices = tuple(DeviceSpec(catalog=name, count=2, memory_bytes=2**30) for name in catalog)
    return Cluster(hosts=(HostSpec(name="a", devices=devices, cpu_cores=0.5),)).save(folder / "given.json")


def test_one_profile_is_the_file_and_several_are_in_the_folder(tmp_path):
    """Under their names there; nothing is written yet."""
    one, other = calibrated("t4"), calibrated("gtx-1650")
    assert calibrated_files([one], tmp_path / "new.json") == {tmp_path / "new.json": one}
    files = calibrated_files([one, other], tmp_path / "new")
    assert files == {tmp_path / "new" / "t4.json": one, tmp_path / "new" / "gtx-1650.json": other}
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("profile", [calibrated("t4"), catalog_profile("t4")], ids=["corrected", "as it was"])
def test_a_cluster_names_what_was_calibrated_and_keeps_the_rest(profile, tmp_path):
    """Also of a profile that nothing was found to correct in, and for a single one too."""
    path, output = cluster_in(tmp_path, "t4", "l4"), tmp_path / "new"
    files = calibrated_files([profile], output, path)
    assert set(files) == {output / "t4.json", output / CLUSTER_FILE}
    (before,), (after,) = Cluster.load(path).hosts, files[output / CLUSTER_FILE].hosts
    renamed = DeviceSpec(profile=Path("t4.json"), count=2, memory_bytes=2**30)
    assert after.devices == (renamed, before.devices[1])
    assert after.model_copy(update={"devices": before.devices}) == before


def test_what_was_calibrated_is_not_written_over(tmp_path):
    """By its content, wherever it is; the calibrated one of before, and what is no profile, may be."""
    made, path = calibrated("t4"), tmp_path / "here.json"
    for others in (lambda: calibrated("t4", host_overhead_s=2.0).save(path), lambda: path.write_text("no profile")):
        others()
        assert calibrated_files([made], path) == {path: made}
    catalog_profile("t4").save(path)
    with pytest.raises(UserError, match=r"here\.json: what was calibrated is in this file, and would be lost"):
        calibrated_files([made], path)


def test_the_cluster_that_was_given_is_not_written_over(tmp_path):
    """Though what it is replaced by would name the new profiles."""
    path = cluster_in(tmp_path, "t4").rename(tmp_path / CLUSTER_FILE)
    with pytest.raises(UserError, match=r"cluster\.json: what was calibrated is in this file, and would be lost"):
        calibrated_files([calibrated("t4")], tmp_path, path)


def test_what_cannot_be_written_is_named(tmp_path):
    """A folder for a file, a cluster of other devices, a name that is no file's."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="taken: is a folder"):
        calibrated_files([calibrated("t4")], tmp_path / "taken")
    with pytest.raises(UserError, match=r"given\.json: none of its profiles is one that these runs were planned with"):
        calibrated_files([calibrated("t4")], tmp_path / "new", cluster_in(tmp_path, "l4"))
    with pytest.raises(UserError, match="profile 'a/b': it cannot be in a file of that name"):
        calibrated_files([calibrated("t4", name="a/b"), calibrated("l4")], tmp_path / "new")
