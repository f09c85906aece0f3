"""Programs whose blocks are cut into tiles: the same numbers, and the bytes that the memory's reader says."""

import pytest
import torch

from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.project import project
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.program.sums import widest_sums
from gnnplan.planner.readers.block_bytes import blocks_bytes, edge_blocks
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.kernels import tiles
from gnnplan.profiles.kernels.tiles import Tiles
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.recorder import Recorder
from tests.planner.program.cases import MODELS, ORDERS, Case
from tests.runtime.execution.test_program_executor import compare, labelled

ON_CPU = catalog_profile("t4").model_copy(update={"device_kind": "cpu", "num_threads": 1})


@pytest.fixture(params=[1, 100])
def fewest(request, monkeypatch):
    """Tiles of eight columns for blocks of small graphs, from so many numbers of the dense rows on."""
    for name, value in {"_MIN_ROWS": 8, "_MIN_ENTRIES": 0.1, "_MIN_DEGREE": 0.5, "LARGE": request.param}.items():
        monkeypatch.setattr(tiles, name, value)
    return request.param


@pytest.mark.long
@pytest.mark.parametrize("passes", [(), ("split", "once", "refresh", "storage", "overlap")])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_tiles_give_the_same_numbers(name, order, passes, fewest):
    """Forward and backward, with parts and added to, on one worker and on three."""
    for num_workers in (1, 3) if not passes else (3,):
        table = labelled(name, num_workers) if passes else None
        compare(Case(MODELS[name], num_workers, ORDERS[order], table, passes, interval=3 if passes else 1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
def test_blocks_take_the_bytes_that_are_said(name, order, fewest):
    """What a worker has read stays beside its tiles, its transposed matrices and its edges one by one."""
    cycle = share_equal_arrays(Case(MODELS[name], 2, ORDERS[order]).cycle())
    programs = [program for key, program in cycle.programs.items() if key != "evaluate"]
    for worker in cycle.workers:
        widths = widest_sums(cycle, worker)
        context = context_of(cycle, worker)
        assert blocks_bytes(cycle, worker, programs, widths, beside_shard=True) == held_bytes(context)
        assert blocks_bytes(cycle, worker, programs, {}) < held_bytes(context)


@pytest.mark.parametrize("name", MODELS)
def test_the_setup_has_what_it_reads_alone(name, fewest):
    """What training makes of blocks comes later, and is no part of the setup's peak."""
    cycle = share_equal_arrays(Case(MODELS[name], 2, ORDERS["aggregated"], passes=("once", "storage")).cycle())
    for worker in cycle.workers:
        setup, whole = (held_bytes(context_of(cycle, worker), only) for only in (["setup"], None))
        later_bytes = estimate_memory(cycle, worker, ON_CPU).later_bytes
        assert 0 < later_bytes == whole - setup


def context_of(cycle, worker):
    """Of one worker, who has made nothing yet."""
    return Context(project(cycle, worker), torch.device("cpu"), Workers(Recorder(torch.device("cpu"))))


def held_bytes(context, only=None):
    """Of all arrays of blocks, and of what operators make of them, each once.

    Args:
        only: programs whose operators do (None: all that are run before evaluation).
    """
    arrays = [part for (matrix,) in context.cycle.arrays.matrices.values() for part in parts_of(matrix)]
    names = [name for name in context.cycle.programs if name != "evaluate"] if only is None else only
    for op in (op for name in names for op in context.cycle.programs.get(name, ())):
        if KINDS[op.kind].holds == "matrix":
            made = context.matrix(op)
            parts = [part for _, _, part in made.parts] if isinstance(made, Tiles) else [made]
            arrays += [each.numpy() for part in parts for each in tensors_of(part)]
        for block in edge_blocks(context.cycle, op):
            arrays += [each.numpy() for each in vars(context.edges(block)).values()]
    return sum({array.__array_interface__["data"][0]: array.nbytes for array in arrays if array.nbytes}.values())


def parts_of(matrix):
    """Of a CSR on the host."""
    return matrix.data, matrix.indices, matrix.indptr


def tensors_of(matrix):
    """Of a CSR of torch."""
    return matrix.values(), matrix.col_indices(), matrix.crow_indices()
