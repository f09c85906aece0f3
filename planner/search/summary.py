"""A candidate in a line."""

from __future__ import annotations

from collections import Counter

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.techniques.registry import technique


def summary(candidate: Candidate) -> str:
    """Who takes part, and what each technique does."""
    workers = candidate.setting.placement.workers
    hosts = ", ".join(f"{count} on {host}" for host, count in Counter(worker.host for worker in workers).items())
    briefs = (technique(choice.technique).brief(choice.decision) for choice in candidate.choices)
    return "; ".join([f"{len(workers)} worker(s): {hosts}", *(brief for brief in briefs if brief)])
