"""Where calibrated profiles are written: never over what they were made from, and with a cluster that names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gnnplan.planner.cluster import CLUSTER_FILE, Cluster, DeviceSpec, device_profile, profile_file, with_profile
from gnnplan.profiles.contract import Document, check_writable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile


def calibrated_files(
    profiles: Sequence[MachineProfile], output: Path, cluster_path: Path | None = None
) -> dict[Path, Document]:
    """What is to be written, by its path: the only profile to `output`, several as NAME.json into that folder.

    Args:
        cluster_path: a cluster file that names what was calibrated. Then the folder, for a single profile too, also has
            `cluster.json`: that cluster, with the calibrated profiles. Plans do not hold all that it says.

    Raises:
        UserError: a file cannot be written, it is what was calibrated, or the cluster names no profile that was.
    """
    files: dict[Path, Document]
    if cluster_path is None and len(profiles) == 1:
        files = {output: profiles[0]}
    else:
        files = {output / profile_file(profile.name): profile for profile in profiles}
    if cluster_path is not None:
        files[output / CLUSTER_FILE] = _calibrated_cluster(cluster_path, profiles)
    bases = {profile.based_on for profile in profiles}
    for path in files:
        check_writable(path)
        if path.resolve() == (cluster_path and cluster_path.resolve()) or _fingerprint_at(path) in bases:
            raise UserError(f"{path}: what was calibrated is in this file, and would be lost; name another with -o")
    return files


def _calibrated_cluster(path: Path, profiles: Iterable[MachineProfile]) -> Cluster:
    cluster = Cluster.load(path)
    # Of profiles that nothing was found to correct in, the old ones are the new ones.
    names = {of: profile.name for profile in profiles for of in (profile.based_on, profile.fingerprint()) if of}

    def of_device(device: DeviceSpec) -> DeviceSpec:
        name = names.get(device_profile(device).fingerprint())
        return with_profile(device, name) if name else device

    hosts = tuple(
        host.model_copy(update={"devices": tuple(of_device(device) for device in host.devices)})
        for host in cluster.hosts
    )
    if hosts == cluster.hosts:
        raise UserError(f"{path}: none of its profiles is one that these runs were planned with")
    return cluster.model_copy(update={"hosts": hosts})


def _fingerprint_at(path: Path) -> str | None:
    """Of the profile in a file; None where there is none, which may be written over."""
    try:
        return MachineProfile.load(path).fingerprint()
    except UserError:
        return None
