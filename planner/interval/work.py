"""What a run trains, in a word that is equal for equal work."""

from __future__ import annotations

import hashlib

from gnnplan.planner.model_spec import ModelSpec


def work_of(graph_fingerprint: str, model: ModelSpec) -> str:
    """16 hex digits, equal for the same graph and model."""
    return hashlib.sha256(f"{graph_fingerprint} {model.model_dump_json()}".encode()).hexdigest()[:16]
