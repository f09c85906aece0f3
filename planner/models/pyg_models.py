"""PyG's models of a job's kinds, whose parameters the engine trains."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import APPNP, Linear, SGConv, TAGConv
from torch_geometric.nn.inits import glorot
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.utils import add_self_loops, remove_self_loops, softmax

from gnnplan.planner.model_spec import ModelSpec


class TAGCN(BasicGNN):
    """PyG has the convolution (`TAGConv`) but no ready model of it."""

    supports_edge_weight = True
    supports_edge_attr = False

    def init_conv(self, in_channels, out_channels, **kwargs):
        """One `TAGConv` with K = `num_hops`."""
        return TAGConv(in_channels, out_channels, K=kwargs["num_hops"])


class SGC(BasicGNN):
    """SGConvs with ReLU between; with one of them as published."""

    supports_edge_weight = True
    supports_edge_attr = False

    def init_conv(self, in_channels, out_channels, **kwargs):
        """One `SGConv` with K = `num_hops`."""
        return SGConv(in_channels, out_channels, K=kwargs["num_hops"])


class _Rows(torch.nn.Module):
    """A Linear, and where `prop` is something that propagation behind it."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin, self.prop = Linear(in_channels, out_channels), None

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, out_channels]."""
        z = self.lin(x)
        return z if self.prop is None else self.prop(z, edge_index)


class AttentionPropagation(torch.nn.Module):
    """K propagations by one attention, as `GATConv` computes it, of the rows that are propagated.

    Args:
        channels: of a head.
    """

    def __init__(self, channels: int, heads: int, num_hops: int, alpha: float) -> None:
        super().__init__()
        self.heads, self.num_hops, self.alpha = heads, num_hops, alpha
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, channels))
        for vector in (self.att_src, self.att_dst):
            glorot(vector)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The mean over heads, [N, channels], of x [N, heads * channels]."""
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=len(x))
        source, target = edge_index
        start = z = x.view(len(x), self.heads, -1)
        score = (z * self.att_src).sum(-1)[source] + (z * self.att_dst).sum(-1)[target]
        weight = softmax(F.leaky_relu(score, 0.2), target, num_nodes=len(x))[:, :, None]
        for _ in range(self.num_hops):
            z = torch.zeros_like(z).index_add(0, target, weight * z[source])
            z = (1 - self.alpha) * z + self.alpha * start
        return z.mean(1)


class PredictThenPropagate(BasicGNN):
    """Linears with ReLU between, and `APPNP` behind the last one: PyG has the propagation but no ready model of it."""

    supports_edge_weight = False
    supports_edge_attr = False

    def __init__(self, *args, num_hops: int, alpha: float, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.convs[-1].prop = APPNP(K=num_hops, alpha=alpha)

    def init_conv(self, in_channels, out_channels, **kwargs):
        """One Linear."""
        return _Rows(in_channels, out_channels)


class DecoupledGAT(PredictThenPropagate):
    """The same, by attention: the last Linear makes the rows of every head, which are averaged in the end."""

    def __init__(self, *args, num_hops: int, alpha: float, heads: int, **kwargs) -> None:
        super().__init__(*args, num_hops=num_hops, alpha=alpha, **kwargs)
        last, channels = self.convs[-1].lin, self.out_channels
        self.convs[-1] = _Rows(last.in_channels, channels * heads)
        self.convs[-1].prop = AttentionPropagation(channels, heads, num_hops, alpha)


def build_pyg_model(model: ModelSpec, num_features: int, num_classes: int, seed: int) -> BasicGNN:
    """The PyG model with its own initial weights, equal for equal seeds on any number of workers."""
    common = {
        "in_channels": num_features,
        "hidden_channels": model.hidden_channels,
        "num_layers": model.num_layers,
        "out_channels": num_classes,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match model.kind:
            case "gcn":
                return GCN(**common)
            case "sage":
                return GraphSAGE(**common)
            case "gat":
                return GAT(**common, heads=model.heads)
            case "gin":
                return GIN(**common)
            case "tagcn":
                return TAGCN(**common, num_hops=model.num_hops)
            case "sgc":
                return SGC(**common, num_hops=model.num_hops)
            case "appnp":
                return PredictThenPropagate(**common, num_hops=model.num_hops, alpha=model.alpha)
            case "decoupled_gat":
                return DecoupledGAT(**common, num_hops=model.num_hops, alpha=model.alpha, heads=model.heads)
            case "module":
                raise AssertionError("a user's own module is built by itself")
