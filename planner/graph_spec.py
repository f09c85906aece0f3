"""Where a job's graph comes from, and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from gnnplan.planner.link.spec import LinkSpec
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_VERTICES, MAX_WIDTH, Edges, Vertices, Width

Fraction = Annotated[float, Field(ge=0, le=1)]


class GraphOptions(Contract):
    """What every source of a graph understands.

    Args:
        split: `file` takes the masks of the source; `random` draws `train_fraction` and
            `val_fraction` of the labelled vertices with `split_seed`, the rest is test; `auto`
            is `file` where the source has masks, else `random`.
        split_index: which one, where the source holds several splits.
        label_kind: `targets` takes labels as numbers to regress on, [N] or [N, T]; `auto` takes [N] as classes.
        make_undirected: add the reverse of every edge, merging duplicates.
        normalize_features: divide every feature row by its sum.
        one_hot_features: where the source has no features, a vertex has one of its own, so that the first layer trains
            a row of numbers for each of them.
        inverse_edge_types: add the reverse of every edge, of another type: R + t, where types are t of R.
        synthetic_feature_width: features to draw where the source has none (0: an error).
        synthetic_num_classes: classes to draw where the source has no labels (0: an error).
        sparse_feature_density: hold features as CSR where at most this share is non-zero.
        link: train embeddings that tell edges from other pairs of vertices, instead of labels (None: labels).
    """

    split: Literal["auto", "file", "random"] = "auto"
    split_index: NonNegativeInt = 0
    train_fraction: Fraction = 0.6
    val_fraction: Fraction = 0.2
    split_seed: NonNegativeInt = 0
    label_kind: Literal["auto", "targets"] = "auto"
    make_undirected: bool = False
    normalize_features: bool = False
    one_hot_features: bool = False
    inverse_edge_types: bool = False
    synthetic_feature_width: Annotated[int, Field(ge=0, le=MAX_WIDTH)] = 0
    synthetic_num_classes: Annotated[int, Field(ge=0, le=MAX_WIDTH)] = 0
    sparse_feature_density: Fraction = 0.1
    link: LinkSpec | None = None

    @model_validator(mode="after")
    def _fractions_leave_a_test_set(self) -> Self:
        if self.train_fraction <= 0 or self.train_fraction + self.val_fraction > 1:
            raise ValueError("train_fraction must be above 0 and train_fraction + val_fraction at most 1")
        if self.inverse_edge_types and self.make_undirected:
            raise ValueError("merged edges have no types: leave make_undirected or inverse_edge_types out")
        return self


class SbmGraph(GraphOptions):
    """Degree-corrected stochastic block model with planted labels and informative features.

    Args:
        homophily: share of edges drawn inside a class.
        degree_exponent: power-law exponent of the degree weights (larger is more even).
        feature_signal: distance of the class means in standard deviations of the noise.
    """

    source: Literal["sbm"]
    num_nodes: Vertices = 20_000
    average_degree: Annotated[float, Field(gt=0, le=MAX_VERTICES)] = 20.0
    num_classes: Width = 8
    num_features: Width = 128
    homophily: Fraction = 0.7
    degree_exponent: Annotated[float, Field(ge=1.1, le=100)] = 2.5
    feature_signal: Annotated[float, Field(ge=0, le=1e6)] = 0.5
    seed: NonNegativeInt = 0


class RmatGraph(GraphOptions):
    """R-MAT (Chakrabarti et al. 2004): skewed degrees at scale, random features and labels."""

    source: Literal["rmat"]
    num_nodes: Vertices = 100_000
    num_edges: Edges = 2_000_000
    num_classes: Width = 16
    num_features: Width = 128
    a: Fraction = 0.57
    b: Fraction = 0.19
    c: Fraction = 0.19
    seed: NonNegativeInt = 0


class NpzGraph(GraphOptions):
    """A NumPy `.npz`: `edge_index`, `num_nodes`, `x` or CSR parts `x_data/x_indices/x_indptr/x_shape`, `y`, masks."""

    source: Literal["npz"]
    path: Path


class PygGraph(GraphOptions):
    """A PyG dataset by class name from a local root, or a `Data` saved with `torch.save(data.to_dict())`.

    Args:
        root: folder holding the dataset's raw or processed files, or a `.pt` file.
        dataset: class in `torch_geometric.datasets`, e.g. `Planetoid` (not for a `.pt` file).
        dataset_name: its `name` argument, e.g. `Cora`.
    """

    source: Literal["pyg"]
    root: Path
    dataset: str = ""
    dataset_name: str = ""


class OgbGraph(GraphOptions):
    """An OGB node-property folder as downloaded: `raw/*.csv.gz` or `raw/*.npz`, and `split/`."""

    source: Literal["ogb"]
    path: Path


class EdgeListGraph(GraphOptions):
    """A text edge list, `source target` a line (`source,target` in a `.csv`), `#` comments, optionally gzip-compressed.

    Args:
        features: `.npy` float array [N, F].
        labels: `.npy` integer array [N], -1 unlabelled.
        num_nodes: N; 0 takes the largest id + 1.
    """

    source: Literal["edge_list"]
    path: Path
    features: Path | None = None
    labels: Path | None = None
    num_nodes: Annotated[int, Field(ge=0, le=MAX_VERTICES)] = 0


class MemoryGraph(GraphOptions):
    """A graph that a Python program has in memory and passes beside the job; nothing can load it again."""

    source: Literal["memory"] = "memory"


class StatisticsGraph(GraphOptions):
    """A graph of which only statistics are known: enough for `gnnplan whatif`, and for nothing that needs its edges.

    Args:
        path: a file of `gnnplan statistics`, or one written by hand, `.json` or `.toml`.
    """

    source: Literal["statistics"]
    path: Path

    @model_validator(mode="after")
    def _has_no_pairs(self) -> Self:
        if self.link:
            raise ValueError("statistics know no pairs of a link prediction; leave link out")
        return self


GraphSpec = Annotated[
    SbmGraph | RmatGraph | NpzGraph | PygGraph | OgbGraph | EdgeListGraph | MemoryGraph | StatisticsGraph,
    Field(discriminator="source"),
]
