"""Rows turned into slices of their columns, and back."""

from itertools import pairwise

import pytest
import torch

from gnnplan.profiles.kernels.columns import pack_columns_, unpack_columns_


@pytest.mark.parametrize(("heads", "bounds"), [(1, (0, 3, 3, 8)), (2, (0, 4, 12, 16)), (4, (0, 16))])
def test_slices_stand_one_after_another(heads, bounds):
    """Each has of every head as many columns; unpacked the rows are as they were."""
    slices = list(pairwise(bounds))
    rows = torch.arange(5.0 * bounds[-1]).view(5, bounds[-1])
    packed = pack_columns_(torch.empty_like(rows), rows, slices, heads)
    by_head = rows.view(5, heads, -1)
    expected = [by_head[:, :, start // heads : stop // heads].reshape(-1) for start, stop in slices]
    assert torch.equal(packed.view(-1), torch.cat(expected))
    assert torch.equal(unpack_columns_(torch.empty_like(rows), packed, slices, heads), rows)
