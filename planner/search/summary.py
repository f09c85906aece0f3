"""A candidate in a line."""

from __future__ import annotations

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.techniques.registry import technique


def summary(candidate: Candidate) -> str:
    """Who takes part, and what each technique does."""
    placement = candidate.setting.placement
    workers, threads = placement.workers, placement.threads_by_host
    hosts = ", ".join(_on(host, count, threads[host]) for host, count in placement.workers_by_host.items())
    briefs = (technique(choice.technique).brief(choice.decision) for choice in candidate.choices)
    return "; ".join([f"{len(workers)} worker(s): {hosts}", *(brief for brief in briefs if brief)])


def _on(host: str, num_workers: int, num_threads: int) -> str:
    with_threads = f" with {num_threads} threads" if num_threads > 1 else ""
    return f"{num_workers} on {host}{with_threads}{' each' if with_threads and num_workers > 1 else ''}"
