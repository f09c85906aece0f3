"""Which orders of multiplication and aggregation a layer may take; all give the same numbers."""

from __future__ import annotations

from gnnplan.planner.job import Job
from gnnplan.planner.steps import LayerDecision


def layer_options(job: Job, layer: int, *, sparse_features: bool) -> tuple[LayerDecision, ...]:
    """The orders open to a layer under the job's pins, none where the pins ask for what is not exact.

    - GAT scores transformed rows, so it multiplies first.
    - Input features without dropout never change, so their aggregation can be done once.
    - Sparse features are aggregated only once: each epoch anew would be a sparse-sparse product
      that the one-time product makes superfluous.
    """
    options = [LayerDecision(op_order="multiply_first")]
    if job.model.kind != "gat":
        if layer == 0 and not job.model.input_dropout:
            options.append(LayerDecision(op_order="aggregate_first", precompute=True))
        if layer > 0 or not sparse_features:
            options.append(LayerDecision(op_order="aggregate_first"))
    pin = job.pin
    return tuple(
        option
        for option in options
        if (pin.op_order is None or option.op_order == pin.op_order)
        and (layer > 0 or pin.precompute is None or option.precompute == pin.precompute)
    )
