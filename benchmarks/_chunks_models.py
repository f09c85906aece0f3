"""Models of the `source_chunks` benchmark: layers with a LayerNorm between, as the paper has them.

What the paper calls GCN is in its code a mean of the neighbours beside the row itself (GraphSAGE): `sage` here.
"""

from __future__ import annotations

import itertools
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

HIDDEN, WIDE, DROPOUT = 64, 128, 0.3
LAYERS = {"gcn": pyg.GCNConv, "sage": pyg.SAGEConv, "gat": pyg.GATConv}


class Normed(nn.Module):
    """Layers of one kind; LayerNorm, ReLU and dropout between."""

    def __init__(self, num_features: int, num_classes: int, kind: str, num_layers: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        widths = [num_features, *[hidden] * (num_layers - 1), num_classes]
        self.convs = nn.ModuleList([LAYERS[kind](*pair) for pair in itertools.pairwise(widths)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(num_layers - 1)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, num_classes]."""
        for conv, norm in zip(self.convs[:-1], self.norms, strict=True):
            x = F.dropout(F.relu(norm(conv(x, edge_index))), DROPOUT, self.training)
        return self.convs[-1](x, edge_index)


gcn_3, sage_3, gat_3 = (partial(Normed, kind=kind, num_layers=3) for kind in LAYERS)
gcn_4, sage_4, gat_4 = (partial(Normed, kind=kind, num_layers=4) for kind in LAYERS)
wide_gcn_3, wide_sage_3, wide_gat_3 = (partial(Normed, kind=kind, num_layers=3, hidden=WIDE) for kind in LAYERS)
wide_gcn_4, wide_sage_4, wide_gat_4 = (partial(Normed, kind=kind, num_layers=4, hidden=WIDE) for kind in LAYERS)
