"""A worker's arrays come back as they were written, and others are refused before a kernel reads them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.program_shard import ProgramShard, check_shard, cut_program_shard
from gnnplan.profiles.errors import UserError
from tests.planner.program.cases import MODELS, ORDERS, Case

CASE = Case(MODELS["sage"], 3, ORDERS["mixed"], passes=("split", "once", "storage"))
CYCLE = share_equal_arrays(CASE.cycle())
SPARSE = Case(MODELS["gcn"], 3, ORDERS["multiplied"], passes=("split", "storage"), sparse=True)


@pytest.fixture
def shard():
    """Of the second worker."""
    return cut_program_shard(CYCLE, CASE.graph, 1)


def test_what_is_written_is_read(shard, tmp_path):
    """Arrays, what is shared among them, and inputs."""
    shard.save(tmp_path / "worker_1.npz")
    found = ProgramShard.load(tmp_path / "worker_1.npz")
    check_shard(CYCLE, found, 1)
    assert found.arrays.matrices.keys() == shard.arrays.matrices.keys()
    for name, (matrix,) in shard.arrays.matrices.items():
        assert (found.arrays.matrices[name][0] != matrix).nnz == 0
    for name, (rows,) in shard.arrays.rows.items():
        assert np.array_equal(found.arrays.rows[name][0], rows)
    assert all(np.array_equal(found.inputs[name], value) for name, value in shard.inputs.items())
    shared = {id(each[0]) for each in found.arrays.matrices.values()}
    assert len(shared) < len(found.arrays.matrices), "levels without labels share their blocks"


def test_sparse_features_stay_sparse(tmp_path):
    """As CSR, of the worker's own rows."""
    cycle = share_equal_arrays(SPARSE.cycle())
    cut_program_shard(cycle, SPARSE.graph, 0).save(tmp_path / "worker_0.npz")
    found = ProgramShard.load(tmp_path / "worker_0.npz")
    check_shard(cycle, found, 0)
    assert sp.issparse(found.inputs["x"])


def matrix_with(matrix: sp.csr_matrix, **parts):
    """A CSR matrix with other parts, unchecked."""
    changed = matrix.copy()
    for name, value in parts.items():
        setattr(changed, name, value)
    return changed


def changed(shard: ProgramShard, what: str) -> ProgramShard:
    """The shard with something wrong."""
    arrays, inputs = shard.arrays, dict(shard.inputs)
    name, (matrix,) = next(iter(arrays.matrices.items()))
    index, (rows,) = next((n, each) for n, each in arrays.rows.items() if n.startswith("pack"))
    matrices = {
        "column out of range": matrix_with(matrix, indices=np.full_like(matrix.indices, 10**8)),
        "pointers that fall": matrix_with(matrix, indptr=matrix.indptr[::-1].copy()),
        "values of another type": matrix_with(matrix, data=matrix.data.astype(np.float64)),
    }
    if what in matrices:
        return replace(shard, arrays=replace(arrays, matrices={**arrays.matrices, name: (matrices[what],)}))
    other_rows = {
        "row out of range": rows + 10**6,
        "rows of another type": rows.astype(float),
        "rows too few": rows[:-1],
    }
    if what in other_rows:
        return replace(shard, arrays=replace(arrays, rows={**arrays.rows, index: (other_rows[what],)}))
    if what == "ids too few":
        ids = {space: (each[0][:1],) for space, each in arrays.ids.items()}
        return replace(shard, arrays=replace(arrays, ids=ids))
    if what == "another block":
        return replace(shard, arrays=replace(arrays, matrices={**arrays.matrices, "more": (matrix,)}))
    x = inputs["x"]
    inputs["x"] = {"x too short": x[:-1], "x of another type": x.astype(np.float64), "x sparse": sp.csr_matrix(x)}.get(
        what
    )
    if inputs["x"] is None:
        del inputs["x"]
    return replace(shard, inputs=inputs)


@pytest.mark.parametrize(
    "what",
    [
        "column out of range",
        "pointers that fall",
        "values of another type",
        "row out of range",
        "rows of another type",
        "rows too few",
        "ids too few",
        "another block",
        "x too short",
        "x of another type",
        "x sparse",
        "no x",
    ],
)
def test_what_is_not_the_plans_is_refused(shard, what):
    """In one line that names the worker, before anything runs."""
    with pytest.raises(UserError, match=r"shard of worker 1: .* not the plan's; cut the shards again"):
        check_shard(CYCLE, changed(shard, what), 1)


def test_a_file_of_something_else_is_no_shard(tmp_path):
    """Arrays under other names come to nothing, which is not what the plan asks for."""
    np.savez(tmp_path / "worker_1.npz", rank=np.array(1))
    with pytest.raises(UserError, match="not a shard"):
        check_shard(CYCLE, ProgramShard.load(tmp_path / "worker_1.npz"), 1)
