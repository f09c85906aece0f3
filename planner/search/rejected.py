"""Of all candidates that a search looked at, the best of every kind that it did not choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

from gnnplan.planner.contracts.candidate import Candidate, by_merit
from gnnplan.planner.plan import Rejected
from gnnplan.planner.search.predict import loads_of, trace_of
from gnnplan.planner.search.summary import summary
from gnnplan.planner.techniques.registry import techniques

Kind = Literal["alone", "workers", "without", "with", "decided", "memory", "model"]
Test = Callable[[Candidate], bool]


def rejected(best: Candidate, looked_at: Sequence[Candidate]) -> Iterator[Rejected]:
    """One of every kind that there is; those that fit go before those that do not, then the shorter epoch counts."""
    chosen = summary(best)
    others = [each for each in looked_at if summary(each) != chosen]
    for kind, technique, is_of_kind in _kinds(best):
        of_kind = [each for each in others if is_of_kind(each)]
        if of_kind:
            yield _kept(kind, technique, next(by_merit(of_kind)))


def rejected_model(candidate: Candidate) -> Rejected:
    """The best candidate of another form of the job's model."""
    kept = _kept("model", "", candidate)
    return kept.model_copy(update={"summary": f"{candidate.setting.job.model.words}; {kept.summary}"})


def _kinds(best: Candidate) -> Iterator[tuple[Kind, str, Test]]:
    workers, names = best.setting.placement.workers, _names(best)

    def is_alone(each: Candidate) -> bool:
        return each.setting.num_workers == 1

    def is_here(each: Candidate) -> bool:
        return each.setting.placement.workers == workers

    def has_changed(name: str, each: Candidate) -> bool:
        return is_here(each) and (name in _names(each)) != (name in names)

    if len(workers) > 1:
        yield "alone", "", is_alone
    yield "workers", "", lambda each: not is_here(each) and not is_alone(each)
    for name in techniques():
        yield ("without" if name in names else "with"), name, partial(has_changed, name)
    yield "decided", "", lambda each: is_here(each) and _names(each) == names
    yield "memory", "", lambda each: each.epoch_s < best.epoch_s and not each.fits


def _names(candidate: Candidate) -> set[str]:
    return {choice.technique for choice in candidate.choices}


def _kept(kind: Kind, technique: str, candidate: Candidate) -> Rejected:
    """What a plan keeps of a candidate."""
    schedules, placement = [candidate.schedules[name] for name in candidate.cycle.order], candidate.setting.placement
    loads = loads_of(candidate.cycle, placement, candidate.memory)
    trace = trace_of(schedules, "", loads)
    lacking = int(candidate.missing_bytes.argmax())
    return Rejected(
        kind=kind,
        technique=technique,
        summary=summary(candidate),
        epoch_s=candidate.epoch_s,
        compute_s=trace.category_s("compute"),
        communicate_s=trace.category_s("communicate"),
        host_s=trace.category_s("host"),
        missing_bytes=max(int(candidate.missing_bytes[lacking]), 0),
        missing_on="" if candidate.fits else placement.workers[lacking].host,
    )
