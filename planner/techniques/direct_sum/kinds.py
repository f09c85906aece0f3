"""The kind of a sum in one step, with what it costs."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.kind import Kind, Need, like, register
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import Collective, register_collective
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


def summed_bytes(cycle: Cycle, op: Operator) -> int:
    """Bytes of what is summed, which are as many on every worker."""
    return cycle.num_bytes(op.reads[0], 0)


def sent_bytes(num_workers: int, num_bytes: float) -> np.ndarray:
    """float64 [W, W]: everyone sends everyone all of it."""
    return num_bytes * (1 - np.eye(num_workers))


def seconds(network: Network, num_bytes: float) -> float:
    """Of a direct sum of `num_bytes` on every worker."""
    return network.all_to_all(sent_bytes(network.num_workers, num_bytes)).seconds


def _copies(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """One for every worker, to send and to receive."""
    return [op.attributes["num_workers"] * summed_bytes(cycle, op)] * 2


TEMPORARIES["direct_sum"] = _copies
register_collective(
    "direct_sum",
    Collective(
        summed_bytes,
        lambda network, num_bytes: network.all_to_all(sent_bytes(network.num_workers, num_bytes)),
        lambda network, num_bytes: network.all_to_all_processor(sent_bytes(network.num_workers, num_bytes)),
    ),
)
