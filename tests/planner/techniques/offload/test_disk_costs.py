"""What a disk takes: nothing where all has room, else the bytes that are moved, page by page where rows lie apart."""

from types import SimpleNamespace

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.parts import ITEM_BYTES
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.readers.cost_disk import PAGE_BYTES, DiskCosts, Moved, likely_pages
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.pinned import outside_bytes
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.disk import DiskRates
from tests.planner.techniques.feature_slices.sliced import choice

RATES = DiskRates(read_bytes_per_s=1000, write_bytes_per_s=100, scattered_bytes_per_s=10)
ROOM, NONE = 2**60, 0
PROFILE = catalog_profile("rtx-3090").model_copy(
    update={"device_kind": "cpu", "num_threads": 1, "process_base_bytes": 0}
)


@pytest.fixture(scope="module")
def cycle():
    """Rows of three workers on disk, of 256 bytes and more, in three chunks."""
    spec = RmatGraph(source="rmat", num_nodes=4000, num_edges=12_000, num_features=64, num_classes=4)
    graph = generate_rmat(spec)
    cluster = Cluster(hosts=(HostSpec(name="h", devices=(DeviceSpec(catalog="t4"),)),))
    job = Job(graph=spec, model=ModelSpec(kind="gcn", num_layers=3, hidden_channels=64))
    choices = [
        Choice("halo_exchange", technique("halo_exchange").Decision(), {"part": np.zeros(graph.num_nodes, np.int32)}),
        choice("operator_order", of={f"l{layer}/filter": "multiply_first" for layer in range(3)}),
        choice("destination_chunks", num_chunks=3),
        choice("offload", to="disk"),
    ]
    return compose_candidate(setting_of(job, resolve(cluster), graph), choices).cycle


def program_of(cycle):
    return cycle.programs[cycle.order[0]]


def seconds(cycle, op, memory_bytes, rates=RATES):
    costs = SimpleNamespace(profile=PROFILE.model_copy(update={"disk": rates}))
    return DiskCosts(cycle, program_of(cycle), [memory_bytes])(op, 0, costs)


def on_disk(cycle, op, *, is_view):
    """Whether an operator names rows of a file, consecutive ones or not."""
    outer = (op.reads if op.kind == "take" else op.writes)[0]
    return cycle.values[outer].tier == "disk" and cycle.indexes[op.attributes["index"]].is_view == is_view


def test_where_files_have_room_the_disk_takes_nothing(cycle):
    """All of them, beside what the worker takes itself."""
    needed = estimate_memory(cycle, 0, PROFILE).peak_bytes + outside_bytes(cycle, 0, "disk")
    of_all = [sum(seconds(cycle, op, has).seconds for op in program_of(cycle)) for has in (ROOM, needed, needed - 1)]
    assert of_all[:2] == [0, 0]
    assert of_all[2] > 0


def test_rows_that_lie_apart_cost_their_pages(cycle):
    """Nearly as many as they lie on, whether they are read or added to."""
    costs, seen = DiskCosts(cycle, program_of(cycle), [NONE]), set()
    for op in program_of(cycle):
        if op.kind in ("take", "scatter_add") and on_disk(cycle, op, is_view=False):
            inner = (op.writes if op.kind == "take" else op.reads)[0]
            row_bytes = cycle.values[inner].num_columns(0) * ITEM_BYTES[cycle.values[inner].dtype]
            rows = cycle.arrays.rows[op.attributes["index"]][0]
            begins = rows * row_bytes
            pages = len(np.union1d(begins // PAGE_BYTES, (begins + row_bytes - 1) // PAGE_BYTES))
            moved = costs.moved(op, 0)
            assert pages > 10
            assert moved.scattered_bytes / PAGE_BYTES == pytest.approx(pages, rel=0.1)
            cleared = 0 if op.has_base else cycle.num_bytes(op.writes[0], 0)
            assert moved.written_bytes == (0 if op.kind == "take" else cleared + moved.scattered_bytes)
            seen.add((op.kind, op.has_base))
    assert seen == {("take", False), ("scatter_add", False), ("scatter_add", True)}


def test_consecutive_rows_cost_their_bytes(cycle):
    """Read where they are taken, written where they are put."""
    costs = DiskCosts(cycle, program_of(cycle), [NONE])
    takes, puts = (
        [op for op in program_of(cycle) if op.kind == kind and on_disk(cycle, op, is_view=True)]
        for kind in ("take", "put")
    )
    assert takes
    assert puts
    for op in takes:
        assert costs.moved(op, 0) == Moved(read_bytes=cycle.num_bytes(op.writes[0], 0))
    for op in puts:
        assert costs.moved(op, 0) == Moved(written_bytes=cycle.num_bytes(op.reads[0], 0))


def test_seconds_are_those_of_the_rates(cycle):
    """Each kind of bytes by its own; guessed ones are marked."""
    costs = DiskCosts(cycle, program_of(cycle), [NONE])
    for op in program_of(cycle):
        moved = costs.moved(op, 0)
        right = moved.read_bytes / 1000 + moved.written_bytes / 100 + moved.scattered_bytes / 10
        found = seconds(cycle, op, NONE)
        assert (found.seconds, found.unprofiled) == (pytest.approx(right), False)
        older = seconds(cycle, op, NONE, RATES.model_copy(update={"scattered_bytes_per_s": None}))
        assert older.unprofiled == (moved.scattered_bytes > 0)
        assert seconds(cycle, op, NONE, None).unprofiled == (moved != Moved())


def test_pages_that_have_room_are_read_once(cycle):
    """Of a value's pages as large a share is still there as the memory has room for beside the worker."""
    needed, costs = estimate_memory(cycle, 0, PROFILE).peak_bytes, DiskCosts(cycle, program_of(cycle), [NONE])
    for op in (op for op in program_of(cycle) if op.kind == "take" and on_disk(cycle, op, is_view=False)):
        moved, value_bytes = costs.moved(op, 0), cycle.num_bytes(op.reads[0], 0)
        for free_bytes, missing in ((0, 1.0), (value_bytes // 2, 0.5), (value_bytes, 0.0)):
            right = moved.read_bytes / 1000 + missing * moved.scattered_bytes / 10
            assert seconds(cycle, op, needed + free_bytes).seconds == pytest.approx(right, rel=0.01)


def lone_and_together(share, num_together):
    """Rows of 100,000: a share of all, drawn evenly, and many in a row."""
    lone = np.flatnonzero(np.random.default_rng(1).random(100_000) < share)
    return np.union1d(lone, np.arange(num_together))


@pytest.mark.parametrize("offset_bytes", [0, 20])
@pytest.mark.parametrize("row_bytes", [32, 300, 512, 3072, 4096, 6144, 8192])
@pytest.mark.parametrize(("share", "num_together"), [(0.002, 0), (0.02, 0), (0.2, 0), (0.02, 5000), (0, 3000)])
def test_pages_are_told_from_runs(share, num_together, row_bytes, offset_bytes):
    """Of rows that lie anywhere and of many together, in a file of their own or within another."""
    rows = lone_and_together(share, num_together)
    num_runs = 1 + int((np.diff(rows) != 1).sum())
    found = likely_pages(len(rows), 100_000, num_runs, row_bytes, unit_bytes=4 if offset_bytes else 0)
    begins = rows * row_bytes + offset_bytes
    pages = {p for b in begins.tolist() for p in range(b // PAGE_BYTES, (b + row_bytes - 1) // PAGE_BYTES + 1)}
    assert found == pytest.approx(len(pages), rel=0.1, abs=1)


def test_a_plan_that_is_read_again_costs_the_same(cycle):
    """Its program has no arrays; runs were counted when it had."""
    again = CycleDocument.model_validate_json(CycleDocument.of(share_equal_arrays(cycle)).model_dump_json()).cycle()
    costs, known = (DiskCosts(each, program_of(each), [NONE]) for each in (again, cycle))
    assert all(costs.moved(op, 0) == known.moved(op, 0) for op in program_of(cycle))
    assert any(index.num_runs for index in again.indexes.values())
