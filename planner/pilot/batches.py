"""Which mini-batches are piloted: fan-outs and batch sizes change what an epoch brings, so only curves compare them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.job import Job
from gnnplan.profiles.errors import UserError

_FAN_OUT, _BATCH_SIZE = 10, 512
_MOST = 20  # trainings of several epochs each


def usual_batches(job: Job) -> MiniBatchSpec:
    """Those that the job asks for; else common ones."""
    if job.mini_batch:
        return job.mini_batch
    # As many vertices as with so many a layer, however often a layer sums.
    num_layers, num_hops = job.model.num_layers, max(1, sum(job.model.hops_of_layers))
    fan_out = max(2, round(_FAN_OUT ** (num_layers / num_hops)))
    return MiniBatchSpec(fan_outs=(fan_out,) * num_hops, batch_size=_BATCH_SIZE)


def kinds_of(
    job: Job, fan_outs: Sequence[tuple[int, ...]], batch_sizes: Sequence[int] = ()
) -> tuple[MiniBatchSpec, ...]:
    """Every combination, a kind of mini-batches each; of what is not given that of the job. None where neither is.

    Raises `UserError` where they are too many.
    """
    if not (fan_outs or batch_sizes):
        return ()
    usual = usual_batches(job)
    pairs = dict.fromkeys(product(fan_outs or [usual.fan_outs], batch_sizes or [usual.batch_size]))
    if len(pairs) > _MOST:
        raise UserError(f"{len(pairs)} kinds of mini-batches to be piloted, {_MOST} at most; leave some out")
    return tuple(usual.model_copy(update={"fan_outs": of, "batch_size": size}) for of, size in pairs)


def batches_words(spec: MiniBatchSpec) -> str:
    """Mini-batches in a few words."""
    hops = " and ".join("all" if count < 0 else str(count) for count in spec.fan_outs)
    return f"fan-outs {hops}, batches of {spec.batch_size}"
