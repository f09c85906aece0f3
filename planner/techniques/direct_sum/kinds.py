"""The kind of a sum in one step, with what it costs."""

from __future__ import annotations

from gnnplan.planner.crowd import Crowd
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import Collective, register_collective
from gnnplan.planner.readers.cost_rows import summed_bytes
from gnnplan.planner.readers.temporaries import TEMPORARIES

DIRECT_SUM = register(
    Kind(
        "direct_sum",
        "w = r0 summed over all `num_workers`: everyone sends it to everyone, and adds up in the order of ranks",
        (Need.WHOLE,),
        like(),
        collective=True,
        inplace=(0,),
        meant_in="gnnplan.planner.techniques.direct_sum.meanings",
        executed_in="gnnplan.runtime.techniques.direct_sum.operators",
    )
)


def seconds(network: Network, num_bytes: float) -> float:
    """Of a direct sum of `num_bytes` on every worker."""
    return network.all_to_all(network.to_everyone(num_bytes)).seconds


def _copies(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """One for every worker, to send and to receive."""
    return [op.attributes["num_workers"] * summed_bytes(cycle, op)] * 2


TEMPORARIES["direct_sum"] = _copies
register_collective(
    "direct_sum",
    Collective(
        summed_bytes,
        lambda network, num_bytes: network.all_to_all(network.to_everyone(num_bytes)),
        lambda network, num_bytes: network.all_to_all_processor(network.to_everyone(num_bytes)),
        of_crowd=Crowd.to_everyone,
    ),
)
