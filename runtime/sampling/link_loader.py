"""PyG's `LinkNeighborLoader` with our sampler inside: seeds are both ends of edges, negative edges among them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import LinkLoader
from torch_geometric.loader import LinkNeighborLoader as PygLinkNeighborLoader
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.csc import csc_from_edges
from gnnplan.profiles.kernels.sampling import NeighbourSampler, hop_key
from gnnplan.profiles.kernels.sampling_variants import VariantSampler
from gnnplan.runtime.sampling.arguments import check_edges, check_fan_outs, check_range, variant_of

_TEMPORAL = ("edge_label_time", "time_attr")
_IN_SAMPLER = ("replace", "subgraph_type", "disjoint", "weight_attr")


class PygSampler(BaseSampler):
    """Our sampler as PyG's loaders take one; draws follow torch's generator, in each of their worker processes.

    Args:
        data: one homogeneous graph.
        num_neighbors: fan-out a hop, -1 for all neighbours.
        wishes: `replace`, `subgraph_type`, `disjoint` and `weight_attr`, as `NeighborLoader` takes them.
    """

    def __init__(self, data: Data, num_neighbors: Sequence[int], **wishes: Any) -> None:
        self._fan_outs, self._num_nodes = check_fan_outs(num_neighbors), data.num_nodes
        graph = csc_from_edges(check_edges(data).numpy(), data.num_nodes)
        asked = {"replace": False, "subgraph_type": "directional", "disjoint": False, "weight_attr": None, **wishes}
        self._variant = variant_of(data, graph, **asked)
        plain = self._variant.is_plain
        self._sampler = NeighbourSampler(graph) if plain else VariantSampler(graph, self._variant)

    def sample_from_nodes(self, index: NodeSamplerInput, **_: object) -> SamplerOutput:
        """As PyG asks for it."""
        out = self._sample(index.node)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """As PyG asks for it; it draws the negative edges itself."""
        return edge_sample(index, self._sample, self._num_nodes, self._variant.disjoint, None, neg_sampling)

    def _sample(self, seed: Tensor, *_: object, **__: object) -> SamplerOutput:
        if seed.numel():
            check_range("edge_label_index", seed, self._num_nodes or 0)
        base = int(torch.empty((), dtype=torch.int64).random_())
        keys = [hop_key(base, 0, 0, hop) for hop in range(len(self._fan_outs))]
        made = self._sampler.sample(seed.to(torch.int64).numpy(), self._fan_outs, keys)
        return SamplerOutput(
            node=made.n_id,
            row=made.edge_index[0],
            col=made.edge_index[1],
            edge=made.e_id,
            batch=made.tree,
            num_sampled_nodes=made.num_nodes,
            num_sampled_edges=made.num_edges,
        )


class LinkNeighborLoader(LinkLoader):
    """In place of `torch_geometric.loader.LinkNeighborLoader`, on one homogeneous graph.

    Args:
        data, num_neighbors: as `NeighborLoader` takes them.
        edge_label_index: int64 [2, L], the edges that are drawn (None: all of the graph's).
        edge_label: their labels.
        keywords: all others of PyG's loader of that name. Temporal ones are refused.
    Raises:
        UserError: what is asked for is not there.
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        edge_label_index: Tensor | None = None,
        edge_label: Tensor | None = None,
        **keywords: Any,
    ) -> None:
        for name in _TEMPORAL:
            if keywords.pop(name, None) is not None:
                raise UserError(f"LinkNeighborLoader does not support {name}: temporal sampling; leave it out")
        if keywords.pop("neighbor_sampler", None) is not None:
            raise UserError("LinkNeighborLoader does not support neighbor_sampler: it has one of its own; leave it out")
        if not keywords.pop("directed", True):
            keywords["subgraph_type"] = "induced"
        wishes = {name: keywords.pop(name) for name in _IN_SAMPLER if name in keywords}
        sampler = PygSampler(data, num_neighbors, **wishes)
        for name in inspect.signature(PygLinkNeighborLoader.__init__).parameters.keys() - _KEPT:
            keywords.pop(name, None)  # they change nothing here
        super().__init__(data, sampler, edge_label_index=edge_label_index, edge_label=edge_label, **keywords)


_KEPT = inspect.signature(LinkLoader.__init__).parameters.keys() | {"kwargs"}
