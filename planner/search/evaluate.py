"""From choices to a candidate: composed once for every set of choices, however often it is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gnnplan.planner.composition.compose import compose
from gnnplan.planner.composition.refusals import epochs_a_pass, refusals
from gnnplan.planner.composition.unable import unable
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Situation
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.sharing import Contents, share_equal_arrays
from gnnplan.planner.search.entries import sum_of, with_entries
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.profiles.errors import UserError

IsOver: TypeAlias = Callable[[float], bool]
_MOST_BYTES = 2**29  # of arrays that were cut, held at a time


@dataclass
class Evaluator:
    """Makes candidates of one setting. Of those it made it keeps what readers say, without the arrays.

    Args:
        is_over: whether no more are made, told the shortest epoch of those that fit, have all that is pinned, and keep
            the limits.
        keeps: whether a candidate keeps the limits of its job's objective.
    """

    setting: Setting
    is_over: IsOver = lambda _: False
    keeps: Callable[[Candidate], bool] = lambda _: True
    _shortest_s: float = math.inf
    _made: dict[frozenset, Candidate | None] = field(default_factory=dict)

    def candidate(self, choices: Sequence[Choice], *, however_late: bool = False) -> Candidate | None:
        """What the choices come to; None where they may not be chosen together, not under the job's fidelity, or late.

        It has arrays where it is asked for the first time, and later where it is asked for by `whole`.
        """
        key = frozenset(choice.key for choice in choices)
        if key in self._made:
            return self._made[key]
        is_refused = bool(refusals(choices, self.setting.job.most))
        if not (is_refused or however_late) and self.is_over(self._shortest_s):
            return None
        found = None if is_refused else self._composed(choices)
        if found and has_pinned(found) and found.epoch_s < self._shortest_s and found.fits and self.keeps(found):
            self._shortest_s = found.epoch_s
        self._made[key] = found.without_arrays() if found else None
        return found

    def whole(self, candidate: Candidate) -> Candidate:
        """The candidate with arrays."""
        return candidate if candidate.cycle.arrays else compose_candidate(self.setting, candidate.choices)

    def looked_at(self) -> Iterator[Candidate]:
        """All candidates that were made, in the order in which they were asked for, without arrays."""
        return (candidate for candidate in self._made.values() if candidate)

    def _composed(self, choices: Sequence[Choice]) -> Candidate | None:
        memo = self.setting.memo
        if memo.cut("contents", Contents).num_bytes > _MOST_BYTES:
            memo.forget_cuts()
        found = compose_candidate(self.setting, choices)
        return found if is_played(found.cycle) else None


def has_pinned(candidate: Candidate) -> bool:
    """Whether all techniques take part that the job asks for; on one worker nothing is shared out, and none has to."""
    asked = {name for name, is_on in candidate.setting.job.pin.asked.items() if is_on}
    return candidate.setting.num_workers == 1 or asked <= {choice.technique for choice in candidate.choices}


_OF_DENSE_ROWS = frozenset({"aggregate", "weigh", "dot"})


def is_played(cycle: Cycle) -> bool:
    """Whether there are kernels for all that epochs do: sparse rows are summed over edges in the setup alone."""
    ops = (op for op in cycle.operators_of_epochs() if op.kind in _OF_DENSE_ROWS)
    return not any(cycle.values[name].layout == "csr" for op in ops for name in op.reads)


def compose_candidate(setting: Setting, choices: Sequence[Choice]) -> Candidate:
    """The programs of choices in a setting, with arrays.

    Raises `UserError` where the choices may not be chosen together.
    """
    for choice in choices:
        if words := unable(technique(choice.technique), setting.forward):
            raise UserError(f"{setting.job.name}: {words}")
    order = list(techniques())
    choices = sorted(choices, key=lambda choice: order.index(choice.technique))
    training, place, memo = setting.job.training, setting.placement, setting.memo
    situation = Situation(setting.job.model, setting.num_workers, place.host_of, memo=memo)
    optimizer = Optimizer.of(training)
    cycle = share_equal_arrays(compose(setting.forward, choices, situation, optimizer), memo.cut("contents", Contents))
    whole = setting.forward.arrays.matrices if setting.forward.arrays else {}
    of_sums = {sum_of(block): matrices[0] for block, matrices in whole.items()}
    cycle = with_entries(cycle, setting.graph, setting.matrix, memo, of_sums)
    return Candidate(setting, tuple(choices), cycle, epochs_a_pass(choices))
