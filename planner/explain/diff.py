"""Two plans compared: what differs, and how many seconds of an epoch each difference moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnnplan.planner.explain.changes import Made, changes_between
from gnnplan.planner.explain.difference import Change, Difference, Step
from gnnplan.planner.explain.states import State
from gnnplan.planner.graph import Graph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.lowering import lower_cycle
from gnnplan.planner.plan import GraphFacts, Plan
from gnnplan.planner.readers.sustained import long_run_epoch_s
from gnnplan.planner.search.decide import OnStep, setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError

_NOT_COMPOSED = (UserError, ValueError, LookupError, AssertionError)
"""What a program raises whose parts do not belong together."""


def diff_plans(one: Path, other: Path, *, graph: Graph | None = None, on_step: OnStep = lambda _: None) -> Difference:
    """One difference after the other is changed from the first plan to the second, and each plan is simulated.

    Where a plan cannot be composed, the change is made together with the next one. The graph is needed for plans in
    between alone: where there is one difference, none is loaded.

    Args:
        one, other: plan files, each with its partition beside it.
        graph: of both plans, where it is loaded already.
        on_step: told in words what is done.

    Raises `UserError` where a plan or its partition cannot be read, or a graph is not its plan's.
    """
    (first, state), (last, end) = State.load(one), State.load(other)
    before_s, after_s = (long_run_epoch_s(lower_cycle(plan)) for plan in (first, last))
    simulated = _Simulated(_Graphs([first, last], graph), on_step)
    steps = tuple(simulated.steps(state, list(changes_between(state, end)), before_s, after_s))
    if not steps and before_s != after_s:
        raise UserError(f"{one} and {other} have the same decisions, but other programs; make both plans again")
    return Difference(before_s=before_s, after_s=after_s, steps=steps)


class _Graphs:
    """The graphs of plans, loaded when they are first asked for."""

    def __init__(self, plans: Sequence[Plan], graph: Graph | None) -> None:
        self._plans, self._loaded = plans, {graph.fingerprint: graph} if graph else {}

    def of(self, facts: GraphFacts) -> Graph:
        if facts.fingerprint not in self._loaded:
            plan = next(plan for plan in self._plans if plan.graph.fingerprint == facts.fingerprint)
            graph = load_graph(plan.job.graph)
            plan.check_graph(graph)
            self._loaded[facts.fingerprint] = graph
        return self._loaded[facts.fingerprint]


@dataclass
class _Simulated:
    graphs: _Graphs
    on_step: OnStep

    def steps(self, state: State, changes: list[Made], before_s: float, after_s: float) -> Iterator[Step]:
        """From a state on; the epochs before the first and after the last change are known."""
        together: list[Change] = []
        for number, made in enumerate(changes, start=1):
            self.on_step(f"simulating other {made.change.what}")
            state = made.apply(state)
            is_last = number == len(changes)
            epoch_s, obstacle = (after_s, "") if is_last else self._epoch_s(state)
            together.append(made.change.model_copy(update={"obstacle": obstacle}))
            if not obstacle:
                yield Step(changes=tuple(together), moved_s=epoch_s - before_s, epoch_s=epoch_s)
                together, before_s = [], epoch_s

    def _epoch_s(self, state: State) -> tuple[float, str]:
        """Simulated seconds of a state's epoch, or why there are none."""
        if obstacle := state.obstacle:
            return 0.0, obstacle
        # Of all pins this one alone changes what is composed from: sparse features need their entries counted.
        is_sparse = any(choice.technique == "sparse_features" for choice in state.choices)
        pin = state.job.pin.model_copy(update={"sparse_features": is_sparse})
        job = state.job.model_copy(update={"pin": pin})
        setting = setting_of(job, state.placement, self.graphs.of(state.graph))
        for choice in state.choices:
            if fault := technique(choice.technique).fault(choice, setting):
                return 0.0, f"{choice.technique} {fault}"
        try:
            return compose_candidate(setting, state.choices).epoch_s, ""
        except _NOT_COMPOSED as error:
            return 0.0, " ".join(str(error).split()) or type(error).__name__
