"""All that generic code knows of a technique."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Memo, Setting
from gnnplan.planner.fidelity import EXACT, Fidelity
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Labels
from gnnplan.profiles.contract import Contract

LAYOUT = "layout"  # the claim that exactly one chosen technique makes


class Stage(StrEnum):
    """Where in the one canonical order a hook stands. Between `once` and `travel` the backward half is derived.

    What changes where values are computed comes before that; what changes only when messages travel comes after, so
    that rows and their returned gradients are treated alike.
    """

    FORWARD = "forward"
    LABELS = "labels"
    LAYOUT = "layout"
    SPLIT = "split"
    ONCE = "once"
    TRAVEL = "travel"
    STORAGE = "storage"
    SCHEDULE = "schedule"
    LANES = "lanes"


@dataclass(frozen=True)
class Situation:
    """What a hook may look at beside the program.

    Args:
        host_of: the number of every worker's host.
        arrays: what belongs to the technique's own decision, by name.
        memo: of what is costly to make, where many compositions follow one another.
    """

    model: ModelSpec
    num_workers: int
    host_of: tuple[int, ...]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo, compare=False)


D = TypeVar("D", bound=Contract)
CycleHook = Callable[[Cycle, D, Situation], Cycle]
LabelsHook = Callable[[Labels, D, Situation], Labels]
LayoutHook = Callable[[Cycle, D, Situation, Labels], Cycle]
Hook = CycleHook[D] | LabelsHook[D] | LayoutHook[D]
"""What a technique does at a stage: labels at `labels`, a cycle under labels at `layout`, a cycle at all others."""


class Technique(ABC, Generic[D]):
    """One way to train faster or in less memory. The first line of its docstring describes it in the documentation.

    Args:
        name: in the registry, in plans and in reports.
        Decision: its part of a plan. Without arguments it is one that the technique could take.
        arrays: names of the arrays that belong to a decision.
        claims: what it takes for itself: of all chosen techniques one at most may claim it.
        needs: what some chosen technique must offer.
        offers: what others may need or use.
        uses: what it gains by where another one offers it: the search tries it on top of whatever does.
        pins: fields of a decision that its options take from `pin.decisions`; a job that pins another is refused.
        saves_memory: it is for what does not fit without it, and is not tried elsewhere (`to_save`).
        sums_only: it rewrites sums over edges, and can do nothing with a layer that is one whole operator.
        changes_edges: a worker may have other edges at one level than at another.
        drops_edges: an epoch may be without some edges.
        costs: in exactness, in words; `fidelity` says it of a decision.
        least: what it costs at least where it does anything.
    """

    name: ClassVar[str]
    Decision: type[D]
    arrays: ClassVar[frozenset[str]] = frozenset()
    claims: ClassVar[frozenset[str]] = frozenset()
    needs: ClassVar[frozenset[str]] = frozenset()
    offers: ClassVar[frozenset[str]] = frozenset()
    uses: ClassVar[frozenset[str]] = frozenset()
    pins: ClassVar[frozenset[str]] = frozenset()
    saves_memory: ClassVar[bool] = False
    sums_only: ClassVar[bool] = False
    changes_edges: ClassVar[bool] = False
    drops_edges: ClassVar[bool] = False
    costs: ClassVar[str] = "exact"
    least: ClassVar[Fidelity] = EXACT

    def fidelity(self, decision: D) -> Fidelity:
        """What a decision costs in exactness."""
        return EXACT

    def epochs_a_pass(self, decision: D) -> int:
        """Epochs of the program that make one pass over the graph: what others use again is as many times as old."""
        return 1

    def to_pilot(self, job: Job) -> Iterable[Mapping[str, Any]]:
        """Pins of decisions that change what an epoch brings, so that seconds alone cannot choose between them.

        They are those that the job's fidelity allows. A pilot trains each. `decisions` of a pin has this technique's
        fields.
        """
        return ()

    @abstractmethod
    def hooks(self) -> Mapping[Stage, Hook[D]]:
        """What it does, at the stages where it does something."""

    @abstractmethod
    def words(self, decision: D) -> str:
        """A decision as one plain sentence of a report."""

    def brief(self, decision: D) -> str:
        """A decision in a few words of a table, none where there is nothing to say."""
        return self.name.replace("_", " ")

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        """What is worth trying, the most promising first; None is to leave the technique out.

        Args:
            so_far: what it would join or change (None: nothing is chosen yet; the first option is what the search
                begins with).
        """
        plain = Choice(self.name, self.Decision())
        if LAYOUT in self.claims:
            return (plain,)
        return (None,) if self.arrays else (None, plain)

    def settled(self, choice: Choice, best: Candidate) -> Choice:
        """The choice with what no simulated epoch depends on, decided last of all, for the candidate that was found.

        It must need no more memory than the choice that the search has looked at.
        """
        return choice

    def counted(self, cycle: Cycle, counts: Counts) -> Cycle | None:
        """Of a layout: the program that it made of a small graph, with the counts of another (None: it cannot say).

        So a graph of which only statistics are known has a program that readers can price.
        """
        return None

    def to_save(self, setting: Setting) -> Iterable[Choice]:
        """Of what saves memory: what is worth trying where a program costs next to nothing to make."""
        return ()

    def counted_on(self, cycle: Cycle, counts: Counts, decision: D) -> Cycle:
        """Of what works on a layout: the program that the layout has counted, with counts of its own rows and blocks.

        Of its rows and blocks the layout has not known what they are.
        """
        return cycle

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        """What is wrong with a choice that was read from a file, in words after the technique's name."""
        return None

    def fault_in(self, choice: Choice, made: Candidate) -> str | None:
        """What is wrong with a choice that was read from a file beside the program that it makes: as in `fault`."""
        return None


AnyTechnique = Technique[Any]
