"""Whether a placement's workers were profiled side by side, alone or with more, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.profiles.machine import Link, MachineProfile, MeasuredHost

_MBIT = 125e3  # bytes a second


def session_places(placement: Placement) -> dict[int, int] | None:
    """The place of every host, by its index, among those of its profiles' session; None where it is not of one.

    The hosts may be some of the session's. Each must be here once, with its own profile, with as many workers, and with
    the link and cores it was measured under. Profiles that do not tell are taken by their session alone, one a host;
    then all hosts must be here.
    """
    workers = _by_host(placement)
    profiles = {host: placement.profiles[its[0].profile] for host, its in workers.items()}
    first = next(iter(profiles.values()))
    if any(worker.profile != its[0].profile for its in workers.values() for worker in its):
        return None
    if any((profile.session, profile.members) != (first.session, first.members) for profile in profiles.values()):
        return None
    if not first.members:
        return _places_by_session(workers, profiles)
    names = [member.name for member in first.members]
    here = [profile.host for profile in profiles.values()]
    if len(set(here)) < len(here) or not set(here) <= set(names):
        return None
    places = {host: names.index(profile.host) for host, profile in profiles.items()}
    as_measured = all(_is_as_measured(workers[host], first.members[place], places) for host, place in places.items())
    return places if as_measured else None


def changes_since_profiled(placement: Placement) -> list[str]:
    """In words, host by host: a link or cores that the cluster has and the host's profile was not measured under."""
    changes = []
    workers = _by_host(placement)
    for its in workers.values():
        worker, own = its[0], placement.profiles[its[0].profile].own_host
        if own is not None and len(workers) > 1 and worker.link != own.link:
            changes.append(f"{worker.host}: link {_link_words(worker.link)}, profiled with {_link_words(own.link)}")
        if own is not None and worker.cpu_cores != own.cpu_cores:
            now, then = (f"{cores:g}" if cores else "no limit" for cores in (worker.cpu_cores, own.cpu_cores))
            changes.append(f"{worker.host}: cpu_cores {now}, profiled with {then}")
    return changes


def _by_host(placement: Placement) -> dict[int, list[WorkerPlace]]:
    found: dict[int, list[WorkerPlace]] = {}
    for worker in placement.workers:
        found.setdefault(worker.host_index, []).append(worker)
    return found


def _places_by_session(
    workers: Mapping[int, Sequence[WorkerPlace]], profiles: Mapping[int, MachineProfile]
) -> dict[int, int] | None:
    """Of profiles that name no members: one machine on its own, or hosts profiled side by side by an older version."""
    if not any(profile.session for profile in profiles.values()):
        return dict.fromkeys(profiles, 0) if len(profiles) == 1 else None
    is_one_each = 1 < len(profiles) == len({its[0].profile for its in workers.values()})
    if is_one_each and all(len(workers[host]) == its.num_workers_beside for host, its in profiles.items()):
        return {host: place for place, host in enumerate(profiles)}
    return None


def _is_as_measured(workers: Sequence[WorkerPlace], member: MeasuredHost, hosts: Mapping[int, int]) -> bool:
    now = (len(workers), workers[0].cpu_cores)
    has_its_link = len(hosts) == 1 or workers[0].link == member.link  # which nothing passes where there is one host
    return now == (member.num_workers, member.cpu_cores) and has_its_link


def _link_words(link: Link) -> str:
    latency = f" and {link.latency_s:g} s" if link.latency_s else ""
    return f"{link.bytes_per_s / _MBIT:g} Mbit/s{latency}"
