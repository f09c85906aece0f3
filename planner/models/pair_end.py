"""What ends a program of a link prediction: pairs are scored, and told from others or ranked."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.pairs import RANKED, TRAINED, Pairs
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.in_use import whole_block
from gnnplan.planner.program.parts import ON_BLOCK, Space, Value


def add_pairs(emitter: Emitter, pairs: Pairs, num_nodes: int, level: int) -> None:
    """Blocks of pairs, from tails to heads, and what is told of them.

    Heads are a level of their own above the embeddings: so rows of tails come to whoever owns the heads as rows of
    neighbours do.

    Args:
        level: of the embeddings.
    """
    heads = f"v@{level + 1}"
    if heads not in emitter.cycle.spaces:
        emitter.add_space(Space(heads, (num_nodes,), (num_nodes,), level + 1), [np.arange(num_nodes)])
    for name, table in pairs.named().items():
        block = whole_block(name, heads, f"v@{level}", table.matrix)
        emitter.add_block(block, [table.matrix])
        emitter.add_value(Value(_told(name), block.edges, table.told.shape[1], role="input"))


def end_with_pairs(emitter: Emitter, pairs: Pairs, metric: str, embeddings: str, *, training: bool) -> None:
    """The loss over all pairs that are trained on, or where it evaluates the sums of a metric over ranks."""
    name = TRAINED if training else RANKED
    scores = emitter.emit("pair_score", embeddings, embeddings, key="pairs/score", block=name)
    if training:
        denominator = pairs.trained.num_pairs
        emitter.emit_all("loss", scores, _told(name), key="loss", multilabel=True, denominator=denominator)
        return
    ranked = {"block": name, "metric": metric, "of": embeddings}
    counted = emitter.emit("ranks", scores, _told(name), key="evaluate/count", **ranked)
    emitter.emit("all_reduce", counted, key="evaluate/reduce", writes=("hits",))


def _told(name: str) -> str:
    return f"{name}{ON_BLOCK}{name}"
