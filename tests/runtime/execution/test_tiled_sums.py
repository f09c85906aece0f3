"""Programs whose blocks are cut into tiles: the same numbers, and the bytes that the memory's reader says."""

import pytest
import torch

from gnnplan.planner.program.project import project
from gnnplan.planner.program.sharing import share_equal_arrays
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
def test_tiles_take_the_bytes_that_are_said(name, order, fewest):
    """Tiles have pointers to the begins of rows that a whole matrix has not, and lie beside what they were cut of."""
    cycle, on_cuda = share_equal_arrays(Case(MODELS[name], 2, ORDERS[order]).cycle()), on_a_gpu()
    for worker in cycle.workers:
        more = [estimate_memory(cycle, worker, profile).graph_bytes for profile in (ON_CPU, on_cuda)]
        assert more[0] - more[1] == bytes_of_being_cut(cycle, worker)
        assert more[0] > more[1] or fewest > 1 or name == "gat"  # which has no product with a block


def on_a_gpu():
    return ON_CPU.model_copy(update={"device_kind": "cuda"})


def bytes_of_being_cut(cycle, worker):
    """What the worker's blocks hold because they are cut."""
    context = Context(project(cycle, worker), torch.device("cpu"), Workers(Recorder(torch.device("cpu"))))
    found: dict[int, int] = {}
    for op in (op for name in context.cycle.programs if name != "evaluate" for op in context.cycle.programs[name]):
        if op.kind == "aggregate" and isinstance(matrix := context.matrix(op), Tiles):
            of = context.host_matrix(op.attributes["block"])
            beside = 0 if op.attributes.get("back") else of.data.nbytes + of.indices.nbytes + of.indptr.nbytes
            pointers = sum(part.crow_indices().nbytes for _, _, part in matrix.parts)
            found[id(matrix)] = beside + pointers - 4 * (matrix.shape[0] + 1)
    return sum(found.values())
