"""The changes from one plan to another, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.explain.difference import Change
from gnnplan.planner.explain.states import (
    State,
    machine_words,
    same_choice,
    same_workers,
    with_machines,
    with_workers,
    workers_words,
)
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.contract import Contract


@dataclass(frozen=True)
class Made:
    """A change, and how a state is changed by it."""

    change: Change
    apply: Callable[[State], State]


def changes_between(one: State, other: State) -> Iterator[Made]:
    """In the order of the page `docs/explain.md`.

    First goes what only the first plan has; then the graph, the workers, and what is cut for both; then model,
    training and machines; then other decisions, and last what only the second plan has.
    """
    for name in one.chosen:
        if name not in other.chosen:
            yield _choice_change(name, one, other)
    yield from _of_data(one, other)
    both = [name for name in other.chosen if name in one.chosen]
    both = [n for n in both if not same_choice(one.chosen[n].choice, other.chosen[n].choice)]
    yield from (_choice_change(name, one, other) for name in both if other.chosen[name].choice.arrays)
    yield from _of_job(one, other)
    if words := machine_words(one.placement, other.placement):
        change = Change(what="cluster", before=words, after=machine_words(other.placement, one.placement))
        yield Made(change, lambda state: replace(state, placement=with_machines(state.placement, other.placement)))
    yield from (_choice_change(name, one, other) for name in both if not other.chosen[name].choice.arrays)
    for name in other.chosen:
        if name not in one.chosen:
            yield _choice_change(name, one, other)


def _of_data(one: State, other: State) -> Iterator[Made]:
    if one.graph.fingerprint != other.graph.fingerprint:
        change = Change(what="graph", before=_graph(one), after=_graph(other))
        yield Made(change, lambda state: replace(_with_part("graph", other, state), graph=other.graph))
    if not same_workers(one.placement, other.placement):
        before, after = workers_words(one.placement), workers_words(other.placement)
        change = Change(what="workers", before=before, after=after)
        yield Made(change, lambda state: replace(state, placement=with_workers(state.placement, other.placement)))


def _graph(state: State) -> str:
    return f"{state.graph.name}, {state.graph.num_nodes:,} vertices, {state.graph.num_edges:,} edges"


def _of_job(one: State, other: State) -> Iterator[Made]:
    for name in ("model", "training"):
        before, after = getattr(one.job, name), getattr(other.job, name)
        if before != after:
            change = Change(what=name, before=_fields(before, after), after=_fields(after, before))
            yield Made(change, partial(_with_part, name, other))


def _with_part(name: str, other: State, state: State) -> State:
    """The state with a part of another one's job."""
    return replace(state, job=state.job.model_copy(update={name: getattr(other.job, name)}))


def _fields(of: Contract, other: Contract) -> str:
    """What a contract says that another one of its kind says differently."""
    own, others = of.model_dump(mode="json"), other.model_dump(mode="json")
    return ", ".join(f"{name} {value}" for name, value in own.items() if others.get(name) != value)


def _choice_change(name: str, one: State, other: State) -> Made:
    before, after = one.chosen.get(name), other.chosen.get(name)
    words = [_words(of.choice) if of else "left out" for of in (before, after)]
    if words[0] == words[1]:
        words[1] = f"{words[1]}, other rows" if after and after.choice.arrays else f"{words[1]}, other figures"
    shown = "shares" if name == LAYOUT else name.replace("_", " ")
    change = Change(what=shown, before=words[0], after=words[1])
    return Made(change, lambda state: state.with_chosen(name, after) if after else state.without(name))


def _words(choice: Choice) -> str:
    return technique(choice.technique).brief(choice.decision) or choice.technique.replace("_", " ")
