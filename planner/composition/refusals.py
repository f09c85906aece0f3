"""Why techniques may not be chosen together: all of it follows from claims, needs and fidelity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from gnnplan.planner.contracts.technique import LAYOUT, AnyTechnique, Choice
from gnnplan.planner.fidelity import Fidelity
from gnnplan.planner.techniques.registry import alone, technique, techniques


def refusals(choices: Sequence[Choice], most: Fidelity) -> tuple[str, ...]:
    """Why these choices are no plan: a line each, none where they are one.

    Args:
        most: what the plan may cost in exactness.
    """
    chosen = [technique(choice.technique) for choice in choices]
    return (
        *_twice(choices),
        *_alone(chosen),
        *_claimed(chosen),
        *_no_layout(chosen),
        *_not_offered(chosen),
        *_beyond(choices, most),
    )


def needed_beside(chosen: Sequence[AnyTechnique]) -> tuple[AnyTechnique, ...]:
    """What has to be chosen as well: of the techniques that offer what others need, the first. Layouts aside."""
    offered = {what for each in chosen for what in each.offers}
    found: list[AnyTechnique] = []
    for need in sorted({need for each in chosen for need in each.needs} - offered):
        could = [each for each in techniques().values() if need in each.offers]
        found += [] if any(LAYOUT in each.claims for each in could) else could[:1]
    return tuple(found)


def fidelity_of(choice: Choice, beside: Sequence[Choice] = ()) -> Fidelity:
    """What a choice costs in exactness, beside others that may take several epochs for a pass over the graph."""
    cost = technique(choice.technique).fidelity(choice.decision)
    passes = epochs_a_pass(each for each in beside if each.technique != choice.technique)
    return replace(cost, epochs=cost.epochs * passes) if cost.limit else cost


def epochs_a_pass(choices: Iterable[Choice]) -> int:
    """Epochs that choices take for a pass over the graph."""
    return prod(technique(each.technique).epochs_a_pass(each.decision) for each in choices)


def _twice(choices: Sequence[Choice]) -> Iterable[str]:
    counts = Counter(choice.technique for choice in choices)
    return (f"{name} is chosen {count} times; choose it once" for name, count in counts.items() if count > 1)


def _alone(chosen: Sequence[AnyTechnique]) -> Iterable[str]:
    others = [each.name for each in chosen if each.name not in alone()]
    for each in chosen:
        if others and each.name in alone():
            yield f"{each.name} stands for a whole epoch; leave {_all(others)} out"


def _claimed(chosen: Sequence[AnyTechnique]) -> Iterable[str]:
    for one, other in combinations(chosen, 2):
        both = sorted(one.claims & other.claims)
        if both and one.name != other.name:
            yield f"{one.name} and {other.name} both claim {_all(both)}; leave one of them out"


def _no_layout(chosen: Sequence[AnyTechnique]) -> Iterable[str]:
    if not any(LAYOUT in each.claims for each in chosen):
        could = [each.name for each in techniques().values() if LAYOUT in each.claims]
        yield f"no technique says which worker has which rows; choose {_either(could)}, for one worker too"


def _not_offered(chosen: Sequence[AnyTechnique]) -> Iterable[str]:
    offered = {what for each in chosen for what in each.offers}
    for each in chosen:
        for need in sorted(each.needs - offered):
            could = [other.name for other in techniques().values() if need in other.offers]
            choose = f"choose {_either(could)} as well, or leave {each.name} out" if could else f"leave {each.name} out"
            yield f"{each.name} needs {need}, which no chosen technique offers; {choose}"


def _beyond(choices: Sequence[Choice], most: Fidelity) -> Iterable[str]:
    for choice in choices:
        cost = fidelity_of(choice, choices)
        if cost > most:
            yield f"{choice.technique} is {cost}, where at most {most} is allowed; leave it out, or allow {cost}"


def _all(names: Sequence[str]) -> str:
    return " and ".join(names)


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)
