"""Models of the `source_chunks` benchmark: layers with a LayerNorm between, as the paper has them.

What the paper calls GCN is in its code a mean of the neighbours beside the row itself (GraphSAGE): `sage` here. Wide
attention has the row itself beside it too, by a Linear: without one exact training of three layers comes to 44% in 150
steps on flickr7k.
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
    """Layers of one kind; LayerNorm, ReLU and dropout between.

    Args:
        has_skips: every layer adds a Linear of the row itself.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        kind: str,
        num_layers: int,
        hidden: int = HIDDEN,
        has_skips: bool = False,
    ) -> None:
        super().__init__()
        pairs = list(itertools.pairwise([num_features, *[hidden] * (num_layers - 1), num_classes]))
        self.convs = nn.ModuleList([LAYERS[kind](*pair) for pair in pairs])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(num_layers - 1)])
        self.skips = nn.ModuleList([nn.Linear(*pair, bias=False) for pair in pairs] if has_skips else [])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, num_classes]."""
        for number, norm in enumerate(self.norms):
            x = F.dropout(F.relu(norm(self._layer(number, x, edge_index))), DROPOUT, self.training)
        return self._layer(len(self.norms), x, edge_index)

    def _layer(self, number: int, x: Tensor, edge_index: Tensor) -> Tensor:
        made = self.convs[number](x, edge_index)
        return made + self.skips[number](x) if len(self.skips) else made


gcn_3, sage_3, gat_3 = (partial(Normed, kind=kind, num_layers=3) for kind in LAYERS)
gcn_4, sage_4, gat_4 = (partial(Normed, kind=kind, num_layers=4) for kind in LAYERS)
wide_sage_3, wide_sage_4 = (partial(Normed, kind="sage", num_layers=num, hidden=WIDE) for num in (3, 4))
wide_gat_3 = partial(Normed, kind="gat", num_layers=3, hidden=WIDE, has_skips=True)
