"""Coordinate descent: one technique's choice is changed at a time, and where that helps no more, two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import LAYOUT, AnyTechnique
from gnnplan.planner.search.evaluate import Evaluator, IsOver, has_pinned
from gnnplan.planner.search.pins import no_plan_under, options_of
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.profiles.errors import PinnedOutError

_MOST_ROUNDS = 12  # descents end much sooner; this one bounds how long shares may creep
_FAR_BEHIND = 1.1  # times as long: what later rounds gain is less, as a rule
_NEAR = 2.0  # times as long without a technique and without rows: what is longer is not worth another descent
_LEAST_GAIN = 1e-3  # of an epoch: less is no reason for another round


def is_better(one: Candidate, other: Candidate | None, least_gain: float = 0.0) -> bool:
    """Whether a candidate is the one to take: what fits before what does not, then the shorter epoch."""
    if other is None:
        return True
    if other.fits:  # seconds first: whose memory is asked for has it read
        return one.epoch_s < other.epoch_s * (1 - least_gain) and one.fits
    return one.fits or int(one.missing_bytes.max()) < int(other.missing_bytes.max())


def _goes_before(one: Candidate, other: Candidate | None) -> bool:
    """Whether a candidate is taken of those of several descents: what has all that is pinned, then what is better."""
    if other is None or has_pinned(one) == has_pinned(other):
        return is_better(one, other)
    return has_pinned(one)


def _least_s(to_beat_s: float, best: Candidate | None) -> float:
    return min(to_beat_s, best.epoch_s if best and best.fits and has_pinned(best) else math.inf)


class Descent:
    """Looks for the best choices in one setting."""

    def __init__(
        self,
        setting: Setting,
        is_over: IsOver = lambda _: False,
        keeps: Callable[[Candidate], bool] = lambda _: True,
    ) -> None:
        self.setting, self.evaluator = setting, Evaluator(setting, is_over, keeps)
        self._all = list(techniques().values())
        self._layouts = [each for each in self._all if LAYOUT in each.claims]
        self._others = [each for each in self._all if LAYOUT not in each.claims]

    def run(self, start: Sequence[Choice] = (), to_beat_s: float = math.inf) -> Candidate:
        """The best candidate found.

        Every layout has a descent of its own: what is worth choosing under one says nothing of another.

        Args:
            start: choices to begin with beside a layout; of techniques that are not among them what they propose first.
            to_beat_s: an epoch, of another setting. Where a round ends far behind it, there is no other.

        Raises `PinnedOutError` where no proposals can be composed, which only pins bring about.
        """
        best, of_layouts = None, list[Candidate]()
        for layout in self._layouts:
            if first := self._first(layout, start):
                first = self._with_pins(first)
                of_layouts.append(found := self._improved(first, _least_s(to_beat_s, best)))
                best = found if _goes_before(found, best) else best
        if best is None:
            raise PinnedOutError(no_plan_under(self.setting.job))
        for each in of_layouts:
            if each.fits and each.epoch_s < _FAR_BEHIND * _least_s(to_beat_s, best):
                best = self._from_without(each, start, best)
        return self.evaluator.whole(best)

    def _from_without(self, end: Candidate, start: Sequence[Choice], best: Candidate) -> Candidate:
        """The best, or what is better than it from a begin that does without what a technique proposes first.

        Rows are chosen anew there: beside that technique fewer may have paid, or none. Only then another order of
        operators, say, pays.
        """
        plain = [each for each in self._others if not each.arrays]
        (layout,) = (each for each in self._layouts if end.choice(each.name))
        has_rows = self.setting.num_workers > 1 and any(
            each.arrays and each.needs <= layout.offers for each in self._others
        )
        for each in plain if has_rows else ():
            options = self._proposed(each)
            if not (end.choice(each.name) and options[0] and None in options):
                continue
            if begin := self._first(layout, start, without=each.name):
                # Twice: without it the others may have to begin with what they propose last.
                begin = self._each(self._with_pins(begin), 2 * [other for other in plain if other is not each])
                if begin.epoch_s < _NEAR * end.epoch_s:
                    found = self._improved(begin, _least_s(math.inf, best))
                    best = found if _goes_before(found, best) else best
        return best

    def _with_pins(self, first: Candidate) -> Candidate:
        """With what is pinned and needs rows to choose of, before others leave it none."""
        asked = self.setting.job.pin.asked
        return self._each(
            first, [each for each in self._others if asked.get(each.name) and not first.choice(each.name)]
        )

    def _improved(self, best: Candidate, to_beat_s: float) -> Candidate:
        """The best candidate that is found from this one on, by a descent."""
        for _ in range(_MOST_ROUNDS):
            before = best
            best = self._each(best, [each for each in self._layouts if best.choice(each.name)])
            best = self._each(best, self._others)
            if best.fits and best.epoch_s > _FAR_BEHIND * to_beat_s:
                return best
            if best is before:
                best = self._pairs(best)
            if not is_better(best, before, _LEAST_GAIN):
                break
        return self.evaluator.whole(self._without_idle(self.evaluator.whole(best)))

    def _without_idle(self, best: Candidate) -> Candidate:
        """The best without techniques that gain nothing."""
        for each in self._others:
            if best.choice(each.name) and None in options_of(each, self.setting, self._joined(best, each)):
                candidate = self._candidate(_with(best.choices, each.name, None))
                if candidate and not is_better(best, candidate):
                    best = candidate
        return best

    def _first(self, layout: AnyTechnique, start: Sequence[Choice], without: str = "") -> Candidate | None:
        """A layout with what the others propose first; where that is nothing, with what one of them proposes next."""
        laid_out, among = self._proposed(layout), [each for each in self._others if each.name != without]
        known = {choice.technique: choice for choice in start if not choice.arrays}
        plain = [choice for each in among if (choice := self._begun(each, known.get(each.name)))]
        others = (_with(plain, each.name, option) for each in among for option in self._proposed(each))
        for choices in (plain, *others) if laid_out else ():
            found: Candidate | None = None
            for candidate in (self._candidate([option, *choices]) for option in laid_out):
                found = candidate if candidate and is_better(candidate, found) else found
            if found:
                return found
        return None

    def _proposed(self, of: AnyTechnique) -> list[Choice | None]:
        return options_of(of, self.setting, None)

    def _begun(self, of: AnyTechnique, known: Choice | None) -> Choice | None:
        """What is known of a technique where it may take part here, else what it proposes first."""
        options = self._proposed(of)
        return known if known and any(options) else next(iter(options), None)

    def _candidate(self, choices: Iterable[Choice | None], *, however_late: bool = False) -> Candidate | None:
        return self.evaluator.candidate([choice for choice in choices if choice], however_late=however_late)

    def _each(self, best: Candidate, among: Sequence[AnyTechnique]) -> Candidate:
        """The best, with each technique's choice in turn changed to its best one."""
        for each in among:
            best = self._best_of(self.evaluator.whole(best), each)
        return best

    def _best_of(self, best: Candidate, changed: AnyTechnique) -> Candidate:
        """The best, with one technique's choice changed. Who does not propose to be left out takes part, however late.

        Of layouts there is one already, so none of the others must.
        """
        options = options_of(changed, self.setting, self._joined(best, changed))
        must = LAYOUT not in changed.claims and None not in options and best.choice(changed.name) is None
        found = None if must and options else best
        for option in options:
            candidate = self._changed(best, changed, option, however_late=found is None)
            for each in self._with_users(candidate, changed) if candidate else ():
                found = each if is_better(each, found) else found
        return found or best

    def _joined(self, best: Candidate, by: AnyTechnique) -> Candidate:
        """What a technique would join: the best without what it cut before, which it cuts anew."""
        chosen = best.choice(by.name)
        if not chosen or not chosen.arrays or LAYOUT in by.claims:
            return best
        without = self._candidate(_with(best.choices, by.name, None))
        return self.evaluator.whole(without) if without else best

    def _with_users(self, candidate: Candidate, changed: AnyTechnique) -> Iterator[Candidate]:
        """A candidate, and what others make of it that use what the changed technique offers.

        Alone it may be no better, or not fit.
        One that was made before had others tried on it then.
        """
        is_new, users = candidate.cycle.arrays is not None, [o for o in self._others if changed.offers & o.uses]
        yield candidate
        for each in users if is_new and candidate.choice(changed.name) else ():
            for option in options_of(each, self.setting, candidate):
                found = self._candidate(_with(candidate.choices, each.name, option)) if option else None
                if found:
                    yield found

    def _changed(
        self, best: Candidate, changed: AnyTechnique, option: Choice | None, *, however_late: bool
    ) -> Candidate | None:
        if LAYOUT not in changed.claims:
            return self._candidate(_with(best.choices, changed.name, option), however_late=however_late)
        # Arrays belong to the layout that they were cut for: under another one they are chosen anew.
        names = {layout.name for layout in self._layouts}
        again = [choice.technique for choice in best.choices if choice.arrays and choice.technique not in names]
        plain = [choice for choice in best.choices if choice.technique not in {*names, *again}]
        found = self._candidate([option, *plain])
        return self._each(found, [each for each in self._others if each.name in again]) if found and again else found

    def _pairs(self, best: Candidate) -> Candidate:
        """The best, or what is better than it by two changes that may each be worse alone."""
        best = self.evaluator.whole(best)
        plain = [(each.name, option) for each in self._others for option in self._without_arrays(each, best)]
        for candidate in self._of_pairs(best, plain):
            if is_better(candidate, best):
                best = candidate
        return best

    def _without_arrays(self, of: AnyTechnique, best: Candidate) -> list[Choice | None]:
        """What it proposes beside arrays, which are costly to find and suit the present choices alone."""
        if of.arrays and not best.choice(of.name):
            return []
        return [option for option in options_of(of, self.setting, best) if not (option and option.arrays)]

    def _of_pairs(self, best: Candidate, changes: Sequence[tuple[str, Choice | None]]) -> Iterator[Candidate]:
        for (one, first), (other, second) in combinations(changes, 2):
            if one != other and (candidate := self._candidate(_with(_with(best.choices, one, first), other, second))):
                yield candidate


def _with(choices: Sequence[Choice], name: str, option: Choice | None) -> list[Choice]:
    """The choices with one technique's replaced, or without it; whatever claims the same makes room for it."""
    claims = technique(name).claims if option else frozenset()
    others = [each for each in choices if each.technique != name and not technique(each.technique).claims & claims]
    return others + ([option] if option else [])
