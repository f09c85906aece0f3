"""Chunks on fast kernels give what the sequential executor gives."""

import pytest
import torch

from gnnplan.planner.readers.cost import COSTS
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from gnnplan.planner.techniques.source_chunks.kinds import EMPTY
from gnnplan.runtime.techniques.source_chunks import operators
from tests.planner.techniques.source_chunks.chunked import ORDERS, Chunked, chosen
from tests.runtime.execution.test_program_executor import compare

OVERLAP = (chosen("overlap"), chosen("first_aggregation"))


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [1, 2, 4])
@pytest.mark.parametrize("beside", [(), OVERLAP], ids=["alone", "overlapped"])
@pytest.mark.parametrize(
    ("model", "order"), [(m, o) for m in ("gcn", "sage") for o in ORDERS] + [("gat", "multiplied")]
)
def test_steps_of_chunks(model, order, beside, num_workers):
    """Losses, weights and the evaluation between."""
    chunked = Chunked(model, Chunks(num_chunks=3, seed=2), num_workers, orders=ORDERS[order], beside=beside)
    compare(chunked.case, chunked.cycle())


def test_corrected_gradients():
    """They are scaled on their way back."""
    chunked = Chunked("gcn", Chunks(num_chunks=3, correction=True, exact_every=2), 2)
    compare(chunked.case, chunked.cycle())


def test_no_mass_is_the_same_on_both_sides():
    """The planner's kinds and the runtime's kernels mean one number by it, and all are priced."""
    assert operators.EMPTY == EMPTY
    assert COSTS.keys() >= {"fold", "mass_left", "log_sum", "log_sum_grad", "keep"}
    assert torch.isfinite(torch.tensor(EMPTY))
