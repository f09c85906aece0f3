"""What workers that torchrun starts have in common: their command line, error reports, device and process group."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gnnplan.profiles.agents import die_with_parent
from gnnplan.profiles.launch import reporting_errors

if TYPE_CHECKING:
    import torch


def worker_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """For the arguments of `torchrun -m module` that come before the folder."""
    return argparse.ArgumentParser(prog=f"torchrun -m {module}", description=description)


def start_worker(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None]) -> None:
    """Parses what `parser` has, `folder` and `--timeout-s`, and runs; errors go to the folder, for the launcher.

    Args:
        run: imports what it needs itself, so that a failing import is reported too.
    """
    parser.add_argument("folder", type=Path, help="folder of the run, which receives error reports")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="longest wait for another worker, seconds")
    die_with_parent(signal.SIGKILL)  # torchrun's agent ends its workers, but not where it is killed itself
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with reporting_errors(arguments.folder, int(os.environ["RANK"])):
        run(arguments)


@contextmanager
def importing() -> Iterator[None]:
    """Within, garbage stays: what is imported is none, and looking through it again and again takes half a second."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def leave() -> NoReturn:
    """Ends a worker that has done all: to take apart what it has imported takes a second, and nothing waits for it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def local_device() -> torch.device:
    """This worker's CUDA device, made the current one; the CPU on a machine without."""
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def group_device() -> torch.device:
    """Where tensors lie that the default group sends."""
    import torch
    import torch.distributed as dist

    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


@contextmanager
def process_group(device: torch.device, timeout_s: float) -> Iterator[None]:
    """The default group of torchrun's workers, over NCCL on CUDA devices, else gloo; one alone needs none.

    Args:
        timeout_s: longest wait in a collective.
    """
    import torch.distributed as dist

    from gnnplan.profiles.roll_call import all_come

    if int(os.environ["WORLD_SIZE"]) > 1:
        backend, timeout = "nccl" if device.type == "cuda" else "gloo", timedelta(seconds=timeout_s)
        store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
        all_come(store, rank, size, timeout_s)
        store.set_timeout(timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def first_rank_of_host() -> list[int]:
    """For every rank, the first rank of its host; every worker of the default group must call it."""
    import torch
    import torch.distributed as dist

    mine = torch.tensor([int(os.environ["GROUP_RANK"])])
    hosts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(hosts, mine, group=dist.new_group(backend="gloo"))
    of_rank = [int(host) for host in hosts]
    return [of_rank.index(host) for host in of_rank]
