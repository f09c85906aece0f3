"""Sizes are those of the rows and matrices that workers get, and sender and receiver count the same rows."""

import numpy as np
import pytest
from pydantic import ValidationError

from gnnplan.planner.hybrid.matrices import cut_edges, cut_level
from gnnplan.planner.hybrid.sizes import Replicas, most_levels, most_sizes
from gnnplan.planner.hybrid.split import make_split
from gnnplan.planner.hybrid.steps import step_levels
from tests.planner.hybrid.shares import AFTER, CASES, Shares


@pytest.mark.parametrize(("kind", "layers"), CASES)
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_sizes_are_those_of_the_matrices(kind, layers, share):
    """Entries and rows of every part, counted where they are cut."""
    shares = Shares(kind, layers)
    masks = shares.masks(share)
    replicas = shares.replicas(masks)
    for rank, (mask, near, block) in enumerate(zip(masks, shares.nears, shares.halo.blocks)):
        split = make_split(near, shares.levels.first, mask)
        for level in range(shares.levels.first, shares.levels.count):
            cut, size = cut_level(block.remote, shares.rows[rank], split, level), replicas.size(rank, level)
            assert (size.near_edges, size.made_edges, size.far_edges) == (cut.near.nnz, cut.made.nnz, cut.far.nnz)
            assert size.num_replicas == len(split.replicas(level)) == replicas.num_replicas(rank, level)
            assert size.num_fetched == cut.far.shape[1] == replicas.counts(level)[:, rank].sum()
            assert size.num_sent == replicas.counts(level)[rank].sum()
        assert replicas.num_replicas(rank, shares.levels.count) == 0


def test_where_nothing_is_cached_everything_is_exchanged():
    """At every level all halo rows travel."""
    shares = Shares("gcn", (AFTER, AFTER))
    for level in (0, 1):
        np.testing.assert_array_equal(shares.replicas(shares.masks(0.0)).counts(level), shares.halo.send_counts())


def test_an_attention_sees_its_targets_and_sources():
    """Rows, sources beyond them, and all edges."""
    shares = Shares("gat", (AFTER, AFTER, AFTER))
    masks = shares.masks(0.5)
    replicas, levels = shares.replicas(masks), step_levels(shares.program, 0)
    for rank, block in enumerate(shares.halo.blocks):
        split = make_split(shares.nears[rank], 0, masks[rank])
        for step in shares.program.steps:
            if step.op == "attend":
                level = levels.rows[step.name]
                edges = cut_edges(block.local, block.remote, shares.rows[rank], split, level).edges
                shape = replicas.step_shape(rank, shares.shapes[rank], step, levels)
                assert (shape.num_local, shape.num_local + shape.num_halo) == edges.shape
                assert shape.num_edges == edges.nnz


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_a_worker_finds_its_most_by_itself(kind, layers):
    """As the planner finds them of all: no fewer of anything than under any split between nothing and the union."""
    shares = Shares(kind, layers)
    union, none, between = shares.masks(0.6), shares.masks(0.0), shares.masks(0.3)
    between = [some & most for some, most in zip(between, union)]
    most, some = most_sizes(shares.replicas(union), shares.replicas(none)), shares.replicas(between)
    for rank, (near, block) in enumerate(zip(shares.nears, shares.halo.blocks)):
        splits = [make_split(near, shares.levels.first, masks[rank]) for masks in (union, none)]
        found = most_levels(block.remote, shares.rows[rank], *splits, int(shares.halo.send_counts()[rank].sum()))
        assert found == most.workers[rank].levels
        for level, no_more in zip(found, some.workers[rank].levels, strict=True):
            assert all(value >= getattr(no_more, name) for name, value in level)


@pytest.mark.parametrize("change", ["row_counts", "levels", "fetched"])
def test_what_does_not_fit_together_is_refused(change):
    """A plan edited by hand."""
    raw = Shares("gcn", (AFTER, AFTER)).replicas(Shares("gcn", (AFTER, AFTER)).masks(0.5)).model_dump()
    if change == "row_counts":
        raw["row_counts"] = raw["row_counts"][:1]
    elif change == "levels":
        raw["workers"] = raw["workers"][:2]
    else:
        raw["workers"][0]["levels"][1]["num_fetched"] += 1
    with pytest.raises(ValidationError, match="row_counts"):
        Replicas.model_validate(raw)
