"""The 42 settings with which plain GNNs matched graph transformers.

Luo, Shi and Wu: "Classic GNNs are Strong Baselines", NeurIPS 2024. What concerns the model alone,
from LUOyk1999/tunedGNN, medium graphs, commit 70e9af7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layer = Literal["gcn", "sage", "gat"]
Norm = Literal["", "layer", "batch"]


@dataclass(frozen=True)
class Setting:
    """One of them; `residual` is a Linear beside every layer, `has_input` one before all of them."""

    layer: Layer
    dataset: str
    width: int
    num_layers: int
    dropout: float
    norm: Norm
    residual: bool
    has_input: bool

    @property
    def name(self) -> str:
        """In a table."""
        return f"{self.layer} on {self.dataset}"


SETTINGS = (
    Setting("gcn", "amazon-computer", 512, 3, 0.5, "layer", False, False),
    Setting("sage", "amazon-computer", 64, 4, 0.3, "layer", False, False),
    Setting("gat", "amazon-computer", 64, 2, 0.5, "layer", False, False),
    Setting("gcn", "amazon-photo", 256, 6, 0.5, "layer", True, False),
    Setting("sage", "amazon-photo", 64, 6, 0.2, "layer", True, False),
    Setting("gat", "amazon-photo", 64, 3, 0.5, "layer", True, False),
    Setting("gcn", "coauthor-cs", 512, 2, 0.3, "layer", True, False),
    Setting("sage", "coauthor-cs", 512, 2, 0.5, "layer", True, False),
    Setting("gat", "coauthor-cs", 256, 1, 0.3, "layer", True, False),
    Setting("gcn", "coauthor-physics", 64, 2, 0.3, "layer", True, False),
    Setting("sage", "coauthor-physics", 64, 2, 0.7, "batch", True, False),
    Setting("gat", "coauthor-physics", 256, 2, 0.7, "batch", True, False),
    Setting("gcn", "wikics", 256, 3, 0.5, "layer", False, False),
    Setting("sage", "wikics", 256, 2, 0.7, "layer", False, False),
    Setting("gat", "wikics", 512, 2, 0.7, "layer", True, False),
    Setting("gcn", "cora", 512, 3, 0.7, "", False, False),
    Setting("sage", "cora", 256, 3, 0.7, "", False, False),
    Setting("gat", "cora", 512, 3, 0.2, "", True, False),
    Setting("gcn", "citeseer", 512, 2, 0.5, "", False, False),
    Setting("sage", "citeseer", 512, 3, 0.2, "", False, False),
    Setting("gat", "citeseer", 256, 3, 0.5, "", True, False),
    Setting("gcn", "pubmed", 256, 2, 0.7, "", False, False),
    Setting("sage", "pubmed", 512, 4, 0.7, "", False, False),
    Setting("gat", "pubmed", 512, 2, 0.5, "", False, False),
    Setting("gcn", "amazon-ratings", 512, 4, 0.5, "batch", True, False),
    Setting("sage", "amazon-ratings", 512, 9, 0.5, "batch", True, False),
    Setting("gat", "amazon-ratings", 512, 4, 0.5, "batch", True, False),
    Setting("gcn", "minesweeper", 64, 12, 0.2, "batch", True, False),
    Setting("sage", "minesweeper", 64, 15, 0.2, "batch", True, False),
    Setting("gat", "minesweeper", 64, 15, 0.2, "batch", True, False),
    Setting("gcn", "roman-empire", 512, 9, 0.5, "batch", True, True),
    Setting("sage", "roman-empire", 256, 9, 0.3, "batch", False, True),
    Setting("gat", "roman-empire", 512, 10, 0.3, "batch", True, True),
    Setting("gcn", "questions", 512, 10, 0.3, "", True, True),
    Setting("sage", "questions", 512, 6, 0.2, "layer", False, True),
    Setting("gat", "questions", 512, 3, 0.2, "layer", True, True),
    Setting("gcn", "squirrel", 256, 4, 0.7, "batch", True, False),
    Setting("sage", "squirrel", 256, 3, 0.7, "batch", True, False),
    Setting("gat", "squirrel", 512, 7, 0.5, "batch", True, False),
    Setting("gcn", "chameleon", 512, 5, 0.2, "", False, False),
    Setting("sage", "chameleon", 256, 4, 0.7, "batch", True, False),
    Setting("gat", "chameleon", 256, 2, 0.7, "batch", True, False),
)
