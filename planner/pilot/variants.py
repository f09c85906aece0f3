"""Full batch by a decision that seconds alone cannot choose, for it changes what an epoch brings.

Techniques name such decisions (`Technique.to_pilot`). Each is a family of its own: it is trained for a short while and
planned, and what comes to an accuracy first is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from gnnplan.planner.fidelity import EXACT, Fidelity
from gnnplan.planner.job import Job
from gnnplan.planner.pilot.batches import batches_words
from gnnplan.planner.techniques.registry import techniques


def variants_of(job: Job) -> Iterator[dict[str, Any]]:
    """The pins of each variant that a job's fidelity allows, and the fidelity that it asks for.

    What the job pins of such a decision stays so; variants that are the same then come once.
    """
    for technique in techniques().values():
        seen: list[Any] = []
        for pins in technique.to_pilot(job):
            given = {**pins["decisions"][technique.name], **job.pin.decisions.get(technique.name, {})}
            try:
                decision = technique.Decision.model_validate(given)
            except ValidationError:  # what is pinned does not go with this variant
                continue
            fidelity = technique.fidelity(decision)
            if decision not in seen and fidelity <= job.most:
                seen.append(decision)
                yield {"pin": {**pins, "decisions": {technique.name: given}}, "fidelity": str(fidelity)}


def without_piloted(pin: dict[str, Any], job: Job) -> dict[str, Any]:
    """A job's pins, as JSON has them, but those of techniques whose decisions have to be piloted."""
    names = {name for name, each in techniques().items() if any(each.to_pilot(job))}
    kept = {key: {n: v for n, v in pin[key].items() if n not in names} for key in ("decisions", "techniques")}
    return {**pin, **kept}


def piloted_of(job: Job) -> dict[str, dict[str, Any]]:
    """By the technique, what a job pins of decisions that have to be piloted."""
    found = techniques()
    return {
        name: fields
        for name, fields in job.pin.decisions.items()
        if job.mini_batch is None and name in found and any(found[name].to_pilot(job))
    }


def variant_of(job: Job) -> str:
    """What tells a job's variant from plain full batch, in a few words (none: it is plain)."""
    found = techniques()
    briefs = (found[name].brief(found[name].Decision.model_validate(of)) for name, of in piloted_of(job).items())
    return ", ".join(filter(None, briefs))


def told_of(job: Job) -> str:
    """What tells a job's family from others of its kind, in a few words (none: it is plain full batch)."""
    return batches_words(job.mini_batch) if job.mini_batch else variant_of(job)


def fidelity_of(job: Job) -> Fidelity:
    """What a job's variant costs in exactness by itself."""
    found = techniques()
    costs = (found[name].fidelity(found[name].Decision.model_validate(of)) for name, of in piloted_of(job).items())
    return max(costs, default=EXACT)


def in_file_names(words: str) -> str:
    """A variant as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
