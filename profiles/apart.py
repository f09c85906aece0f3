"""How much faster a host is while the others of its machine rest: of hosts that share one, such as emulated ones.

Operators are timed while all hosts compute, as they do in a run of all. In a run of some the others rest, and what they
had of the memory's bandwidth and of the physical cores is free.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.profiles.clocks import boot_number, of_all_workers
from gnnplan.profiles.grids import Grid
from gnnplan.profiles.machine import CpuQuota, SharedMachine
from gnnplan.profiles.measure import sustained
from gnnplan.profiles.operators import timed_call
from gnnplan.profiles.probes import Workers
from gnnplan.profiles.torchrun import first_rank_of_host

_MOST_HOSTS = 8  # of a machine, which are timed one after the other
_TIMED = ("matmul_forward", "matmul_grad_weight", "spmm", "spmm_transposed", "gather_rows", "idt")  # most of an epoch
_WARM_S = 0.3  # after which nothing is left of a quota that was saved up while resting
_BUDGET_S = 0.5
_MOST_CORES = 4096  # that are told apart


@dataclass(frozen=True)
class Turns:
    """Whose turn it is to compute alone: the hosts of every machine one after the other, all machines at once.

    Args:
        hosts: by machine the hosts that share it, each by its first rank; machines of a single host are left out.
        own: this host.
    """

    hosts: tuple[tuple[int, ...], ...]
    own: int

    @staticmethod
    def of(machines: Sequence[int], first_of_host: Sequence[int], rank: int) -> Turns:
        """Of every rank its machine, and the first rank of its host."""
        hosts = sorted(set(first_of_host))
        of_machine = [tuple(h for h in hosts if machines[h] == machine) for machine in dict.fromkeys(machines)]
        return Turns(tuple(its for its in of_machine if 1 < len(its) <= _MOST_HOSTS), first_of_host[rank])

    @property
    def count(self) -> int:
        """Turns that all take together."""
        return max(map(len, self.hosts), default=0)

    @property
    def beside(self) -> tuple[int, ...]:
        """The hosts of this one's machine, this one among them; none where it is by itself."""
        return next((its for its in self.hosts if self.own in its), ())

    def is_own(self, turn: int) -> bool:
        """Whether this host computes."""
        return self.beside[turn : turn + 1] == (self.own,)


def shared_machine(
    grid: Grid, device: torch.device, beside: Workers, quota: CpuQuota | None = None
) -> SharedMachine | None:
    """How much faster this host is while the others of its machine rest; every worker must call it.

    Each host in turn is timed alone, right after all together, at a larger shape of some operators. None where it
    is the only one of its machine, where there are many, and on a GPU, which a host has for itself.

    Args:
        beside: the workers of this host.
        quota: of this worker: what waits for a processor that others have may still get its share.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1 or device.type == "cuda":
        return None
    machines = of_all_workers(torch.tensor(boot_number())).tolist()
    turns = Turns.of(machines, first_rank_of_host(), dist.get_rank())
    num_cores = _num_cores_of(boot_number(), machines)
    shares = []
    for name in _TIMED if turns.count else ():
        shapes = grid.shapes(name)
        call = timed_call(name, shapes[len(shapes) * 2 // 3], device)
        together_s = _timed_s(call, device, beside, quota)
        for turn in range(turns.count):
            alone_s = _timed_s(call if turns.is_own(turn) else None, device, beside, quota)
            shares += [alone_s / together_s] if turns.is_own(turn) else []
    if not shares:
        return None
    return SharedMachine(
        name=str(boot_number()),
        num_hosts=len(turns.beside),
        alone_share=float(np.median(shares)),
        num_cores=num_cores,
    )


def _num_cores_of(machine: int, machines: Sequence[int]) -> int:
    """Cores that any worker of a machine may run on; every worker must call it."""
    own = torch.zeros(_MOST_CORES, dtype=torch.uint8)
    own[[core for core in os.sched_getaffinity(0) if core < _MOST_CORES]] = True
    of_all = of_all_workers(own).reshape(len(machines), _MOST_CORES)
    return int(of_all[torch.tensor(machines) == machine].any(dim=0).sum())


def _timed_s(call: Callable[[], object] | None, device: torch.device, beside: Workers, quota: CpuQuota | None) -> float:
    """Seconds of a call between two barriers, the mean over this host's workers; whoever has none rests meanwhile."""
    dist.barrier()
    own_s = 0.0
    if call:
        until_s = time.monotonic() + _WARM_S
        while time.monotonic() < until_s:
            call()
        own_s = sustained(call, device, budget_s=_BUDGET_S, quota=quota).median_s
    dist.barrier()
    return beside.mean([own_s], device)[0]
