"""A graph for link prediction: edges that are summed over, and pairs to train on and to rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.graph import Graph
from gnnplan.planner.link.negatives import drawn
from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.pairs import NUM_TOLD, Pairs, PairTable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.memory import check_fits

_BYTES_A_PAIR = 64  # keys, orders and tables while they are made
_SPLIT_STREAM, _NEGATIVE_STREAM, _RANKED_STREAM = range(3, 6)
TRAIN, VAL, TEST = range(3)


def link_graph(graph: Graph, spec: LinkSpec, seed: int) -> Graph:
    """The graph without the edges that are kept for validation and test, with its pairs.

    Args:
        graph: with all edges.
        seed: of the split and of the negatives.

    Raises:
        UserError: there are no edges, or too many pairs for the memory.
    """
    heads, tails, is_symmetric = _pairs(graph)
    most = len(heads) * (1 + spec.num_negatives) + graph.num_nodes * spec.num_ranked
    check_fits(most * _BYTES_A_PAIR, graph.name, f"{most:,} pairs of a link prediction")
    split = _split(len(heads), spec, np.random.default_rng([seed, _SPLIT_STREAM]))
    found = _Found(graph, heads, tails, split, is_symmetric)
    choices = np.unique(tails) if spec.tails == "tails" else np.arange(graph.num_nodes)
    trained = _trained(found, spec, choices, np.random.default_rng([seed, _NEGATIVE_STREAM]))
    ranked = _ranked(found, spec, choices, np.random.default_rng([seed, _RANKED_STREAM]))
    stays = found.stays()
    masks = (np.bincount(heads[split == part], minlength=graph.num_nodes) > 0 for part in (TRAIN, VAL, TEST))
    train_mask, val_mask, test_mask = masks
    return replace(
        graph,
        edge_index=np.ascontiguousarray(graph.edge_index[:, stays]),
        y=np.zeros(graph.num_nodes, np.int64),
        train_mask=train_mask,
        val_mask=val_mask,
        test_mask=test_mask,
        num_classes=spec.width,
        edge_values={name: values[stays] for name, values in graph.edge_values.items()},
        pairs=Pairs(trained, ranked),
    )


def _pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray, bool]:
    """Heads and tails of all pairs that are edges, each once, and whether every edge is there both ways."""
    n, (source, target) = graph.num_nodes, graph.edge_index.astype(np.int64)
    keys = np.unique((source * n + target)[source != target])
    heads, tails = keys // n, keys % n
    is_symmetric = bool(np.array_equal(np.sort(tails * n + heads), keys))
    if is_symmetric:
        once = heads < tails
        heads, tails = heads[once], tails[once]
    if not len(heads):
        raise UserError(f"{graph.name}: a link prediction needs edges between different vertices, and there are none")
    return heads, tails, is_symmetric


def _split(count: int, spec: LinkSpec, rng: np.random.Generator) -> np.ndarray:
    """int8 [count]: where each pair belongs."""
    num_val, num_test = int(spec.val_fraction * count), int(spec.test_fraction * count)  # so some are left to train on
    split = np.full(count, TRAIN, np.int8)
    order = rng.permutation(count)
    split[order[:num_val]] = VAL
    split[order[num_val : num_val + num_test]] = TEST
    return split


@dataclass(frozen=True)
class _Found:
    """The pairs of a graph that are edges, and where each belongs."""

    graph: Graph
    heads: np.ndarray
    tails: np.ndarray
    split: np.ndarray
    is_symmetric: bool

    @property
    def n(self) -> int:
        return self.graph.num_nodes

    def keys(self) -> np.ndarray:
        """Ascending keys of all edges, both ways where these go together."""
        keys = self.heads * self.n + self.tails
        both = [keys, self.tails * self.n + self.heads] if self.is_symmetric else [keys]
        return np.sort(np.concatenate(both))

    def stays(self) -> np.ndarray:
        """bool [E]: which edges of the graph are summed over."""
        kept = self.split != TRAIN
        heads, tails = self.heads[kept], self.tails[kept]
        gone = [heads * self.n + tails, *([tails * self.n + heads] if self.is_symmetric else [])]
        source, target = self.graph.edge_index.astype(np.int64)
        return ~np.isin(source * self.n + target, np.concatenate(gone))


def _trained(found: _Found, spec: LinkSpec, choices: np.ndarray, rng: np.random.Generator) -> PairTable:
    of = found.split == TRAIN
    heads, counts = np.unique(found.heads[of], return_counts=True)
    negative = drawn(heads, counts * spec.num_negatives, choices, found.keys(), found.n, rng)
    told = np.concatenate([np.ones(of.sum()), np.zeros(len(negative[0]))])[:, None]
    return _table(found, of, negative, told)


def _ranked(found: _Found, spec: LinkSpec, choices: np.ndarray, rng: np.random.Generator) -> PairTable:
    """All edges that are kept, as many that are trained on as are tested, and the pairs they are ranked among."""
    of_train = np.flatnonzero(found.split == TRAIN)
    most = max(int((found.split == TEST).sum()), 1)
    shown = found.split != TRAIN
    shown[rng.permutation(of_train)[:most]] = True
    heads = np.unique(found.heads[shown])
    negative = drawn(heads, np.full(len(heads), spec.num_ranked), choices, found.keys(), found.n, rng)
    told = np.zeros((shown.sum() + len(negative[0]), NUM_TOLD))
    told[np.arange(shown.sum()), found.split[shown]] = 1
    told[shown.sum() :, -1] = 1
    return _table(found, shown, negative, told)


def _table(found: _Found, chosen: np.ndarray, negative: tuple[np.ndarray, np.ndarray], told: np.ndarray) -> PairTable:
    """Some edges, and behind them pairs that are none."""
    heads, tails = (
        np.concatenate([edges[chosen], others])
        for edges, others in zip((found.heads, found.tails), negative, strict=True)
    )
    return PairTable.of(found.n, heads, tails, told)
