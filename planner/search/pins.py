"""What a job pins: techniques by their names, and what its cluster cannot be."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from gnnplan.planner.composition.unable import unable
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import LAYOUT, AnyTechnique
from gnnplan.planner.job import Job
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError


def options_of(each: AnyTechnique, setting: Setting, so_far: Candidate | None) -> list[Choice | None]:
    """What is worth trying of a technique, as far as the job pins nothing else.

    On one worker nothing is shared out: a pin there asks for what does something, and else for nothing.
    """
    pinned = setting.job.pin.asked
    if words := unable(each, setting.forward):
        if pinned.get(each.name):
            raise UserError(f"{setting.job.name}: pin.techniques.{each.name}: {words}")
        return [] if LAYOUT in each.claims else [None]
    options: list[Choice | None] = [None]
    if _has_its_needs(each, so_far):
        options = list(each.options(setting, so_far))
    if setting.num_workers == 1:
        if pinned.get(each.name) is False and None in options:
            return [None]
        return [option for option in options if option and pinned.get(each.name)] or options
    if pinned.get(each.name):
        return [option for option in options if option]
    is_out = pinned.get(each.name) is False or _is_crowded_out(each, pinned)
    return [None] if is_out and None in options else [] if is_out else options


def _has_its_needs(each: AnyTechnique, so_far: Candidate | None) -> bool:
    """Whether what is chosen offers all that a technique needs: what it would propose else is cut for nothing."""
    chosen = so_far.choices if so_far else ()
    return not chosen or each.needs <= {offer for choice in chosen for offer in technique(choice.technique).offers}


def _is_crowded_out(each: AnyTechnique, pinned: Mapping[str, bool]) -> bool:
    """Whether a technique that is pinned claims what this one claims."""
    return any(technique(name).claims & each.claims for name, is_on in pinned.items() if is_on)


def no_plan_under(job: Job) -> str:
    """Why nothing can be composed, which only pins bring about."""
    if job.pin.asked:
        names = ", ".join(f"{name} = {str(is_on).lower()}" for name, is_on in job.pin.asked.items())
        return (
            f"{job.name}: no plan keeps pin.techniques ({names}) beside the job's other pins; docs/techniques.md says "
            f"what combines with what, so leave one of them out"
        )
    return (
        f"{job.name}: pin.op_order and pin.precompute ask for what {job.model.kind} on these features cannot do "
        f"exactly; leave one of them out"
    )


def check_techniques(job: Job) -> None:
    """`UserError` where a job pins a technique that is not known or not allowed, or a decision that it has not."""
    for name, is_on in job.pin.techniques.items():
        least = technique(name).least
        if is_on and least > job.most:
            raise UserError(f'{job.name}: pin.techniques.{name} is {least}; write fidelity = "{least}" to allow it')
    for name, fields in job.pin.decisions.items():
        of = technique(name)
        if free := [field for field in fields if field in of.Decision.model_fields.keys() - of.pins]:
            others = f", only {', '.join(sorted(of.pins))} can" if of.pins else ""
            where = f"{job.name}: pin.decisions.{name}: {free[0]}"
            raise UserError(f"{where} cannot be pinned here{others}; [pin] itself may have a key for it")
        try:
            decision = of.Decision.model_validate(fields)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) or "its fields"
            raise UserError(f"{job.name}: pin.decisions.{name}: {where}: {error.errors()[0]['msg']}") from error
        if (cost := of.fidelity(decision)) > job.most:
            raise UserError(f'{job.name}: pin.decisions.{name} is {cost}; write fidelity = "{cost}" to allow it')


def check_partial_reduce(job: Job) -> None:
    """`UserError` where a job pins partial reduce in a section of its own, and a technique that does not go with it."""
    if job.pin.partial_reduce is None:
        return
    own = technique("partial_reduce")
    for name, is_on in job.pin.asked.items():
        if is_on and name != own.name and technique(name).claims & own.claims:
            raise UserError(f"{job.name}: pin.partial_reduce does not go with {name}, which is pinned; leave one out")


def check_least_group(job: Job, num_workers: int) -> None:
    """`UserError` where a job pins more workers as the least group than there are."""
    least = job.pin.partial_reduce.min_group if job.pin.partial_reduce else None
    if least and least > num_workers:
        raise UserError(f"{job.name}: pin.partial_reduce.min_group is {least}, and there are {num_workers} workers")
