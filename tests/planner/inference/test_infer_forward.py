"""The forward half of a plan gives the module's own rows, and nothing of the training is left in it."""

import pytest
import torch

from gnnplan.planner.inference.forward import INFER, forward_of, predict_forward
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.reference import dense_features
from tests.planner.models.test_planned_modules import Dropped, NormFirst
from tests.planner.models.trained_modules import made
from tests.planner.planned_training import LAYOUTS, graph_of, planned


def rows_of(forward, plan, graph):
    """What all workers make of their own vertices, in the order of the graph."""
    executor = SequentialExecutor(forward.cycle, plan.inputs, plan.start)
    (rows,) = executor.run(INFER).values()
    value = forward.value
    space, out = forward.cycle.spaces[value.space], torch.full((graph.num_nodes, value.width), torch.nan).double()
    for rank, each in enumerate(rows):
        own = forward.cycle.arrays.ids[value.space][rank][: space.num_own[rank]]
        start, stop = value.columns[rank] if value.columns else (0, value.width)
        out[own, start:stop] = each[: len(own)]
    return out


@pytest.mark.long
@pytest.mark.parametrize("kind", [Dropped, NormFirst])
@pytest.mark.parametrize(("num_workers", "pins"), LAYOUTS, ids=str)
def test_rows_are_the_modules(kind, num_workers, pins, tmp_path):
    """In evaluation mode, of every vertex, whoever owns it; running statistics are those that are given."""
    graph, module = graph_of("classes"), made(kind, graph_of("classes"))
    plan = planned(module, graph, TrainingSpec(epochs=1), num_workers, pins, tmp_path)
    with torch.no_grad():
        edges = torch.from_numpy(graph.edge_index).long()
        want = module.eval()(torch.from_numpy(dense_features(graph)), edges).double()
    forward = forward_of(plan.cycle)
    torch.testing.assert_close(rows_of(forward, plan, graph), want, rtol=1e-4, atol=1e-6)
    kinds = {op.kind for op in forward.cycle.operators()}
    assert kinds.isdisjoint({"loss", "step", "hits", "dropout", "all_reduce", "activate_grad"})


@pytest.mark.parametrize(("num_workers", "pins"), LAYOUTS[1:3], ids=str)
def test_rows_of_an_operator_are_embeddings(num_workers, pins, tmp_path):
    """Hidden rows by the key that `gnnplan show` prints; by columns they are put together."""
    graph, module = graph_of("classes"), made(Dropped, graph_of("classes"))
    plan = planned(module, graph, TrainingSpec(epochs=1), num_workers, pins, tmp_path)
    (key,) = (
        op.key for op in plan.cycle.programs["evaluate"] if op.key.startswith("relu/relu") and op.kind == "elementwise"
    )
    with torch.no_grad():
        x, edges = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.edge_index).long()
        want = torch.relu(module.a(x, edges) + module.skip(x)).double()
    torch.testing.assert_close(rows_of(forward_of(plan.cycle, key), plan, graph), want, rtol=1e-4, atol=1e-6)


def test_what_makes_no_rows_is_refused(tmp_path):
    """With the operators that make some."""
    module = made(Dropped, graph_of("classes"))
    plan = planned(module, graph_of("classes"), TrainingSpec(epochs=1), 2, {}, tmp_path)
    for key in ("evaluate/count", "nothing"):
        with pytest.raises(UserError, match=f"--of {key}: .* name one of "):
            forward_of(plan.cycle, key)


def test_it_takes_less_than_an_epoch(tmp_path):
    """Of time and of memory: there is no backward half, and no optimizer."""
    module = made(Dropped, graph_of("classes"))
    planned(module, graph_of("classes"), TrainingSpec(epochs=1), 2, {"halo_exchange": True}, tmp_path)
    from gnnplan.planner.plan import Plan

    plan = Plan.load(tmp_path / "plan.json")
    predicted = predict_forward(forward_of(plan.cycle.cycle()), plan.placement)
    assert 0 < predicted.seconds < plan.prediction.epoch_s
    for peak_bytes, worker in zip(predicted.peak_bytes, plan.prediction.workers, strict=True):
        assert 0 < peak_bytes < worker.peak_bytes


def test_columns_that_are_packed_are_no_rows(tmp_path):
    """They lie slice by slice, and would be written as if they were rows."""
    graph, module = graph_of("classes"), made(Dropped, graph_of("classes"))
    slices = next(pins for size, pins in LAYOUTS if size > 1 and "feature_slices" in str(pins))
    plan = planned(module, graph, TrainingSpec(epochs=1), 2, slices, tmp_path)
    packed = [op.key for op in plan.cycle.programs["evaluate"] if op.kind in ("pack_columns", "transpose")]
    assert packed
    for key in packed:
        with pytest.raises(UserError, match="its rows are not the vertices of the graph"):
            forward_of(plan.cycle, key)
