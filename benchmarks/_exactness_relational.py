"""R-GCN as a module: what the `exactness` benchmark trains where a graph's edges have types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import RGCNConv

NUM_TYPES, NUM_BASES = 4, 3


class RelationalNet(nn.Module):
    """R-GCN with ReLU and dropout between its layers, the first with a basis (Schlichtkrull et al. 2018, eq. 2, 3)."""

    def __init__(self, widths: Sequence[int], dropout: float, input_dropout: float) -> None:
        super().__init__()
        bases = (NUM_BASES, *[None] * (len(widths) - 2))
        self.convs = nn.ModuleList(
            [RGCNConv(*pair, NUM_TYPES, num_bases=count) for pair, count in zip(pairwise(widths), bases, strict=True)]
        )
        self.dropout, self.input_dropout = dropout, input_dropout

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """[N, classes]."""
        x = functional.dropout(x, self.input_dropout, self.training)
        for conv in self.convs[:-1]:
            x = functional.dropout(functional.relu(conv(x, edge_index, edge_type)), self.dropout, self.training)
        return self.convs[-1](x, edge_index, edge_type)


def relational_net(widths: Sequence[int], *, dropout: float, input_dropout: float, seed: int) -> RelationalNet:
    """With the same weights for equal seeds; `widths` of the features, between layers, and of the classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RelationalNet(widths, dropout, input_dropout)
