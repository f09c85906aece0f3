"""The search keeps rows in the host's memory where a GPU has no room for them, and the host has."""

from dataclasses import replace
from functools import cache

import pytest

from gnnplan.planner.search.pins import check_techniques
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from tests.planner.search.searched import found, job_of, placement_of

NAME = "offload"
GCN = {"op_order": "aggregate_first", "precompute": False, "sparse_features": False}
TIGHT = 900_000  # bytes of a GPU: about what the parameters and one chunk of 64 columns take


@cache
def searched(memory_bytes=None, pinned_bytes=None):
    """On one GPU, whose host may have a limit."""
    placement = placement_of("one", memory_bytes=memory_bytes)
    (worker,) = placement.workers
    placement = placement.model_copy(update={"workers": (worker.model_copy(update={"pinned_bytes": pinned_bytes}),)})
    return found("skewed", placement=placement, **GCN).best


def test_only_where_nothing_else_fits():
    """With room for all none; with none for rows they are the host's, in chunks."""
    assert searched().choice(NAME) is None
    least = searched(TIGHT)
    assert least.fits
    assert least.choice(NAME).decision.to == "host"
    assert least.choice("destination_chunks")
    assert least.epoch_s > searched().epoch_s


def test_the_host_must_have_it():
    """To the byte; with less no plan fits."""
    needed = searched(TIGHT).memory[0].pinned_bytes
    assert searched(TIGHT, needed).memory[0].pinned_bytes <= needed
    with pytest.raises(NoPlanFitsError, match=r"bytes of host h0, whose pinned_bytes is .*: raise pinned_bytes"):
        searched(TIGHT, needed // 2)


def test_bytes_that_a_host_lacks_are_those_of_all_its_gpus():
    """Each lacks what all of them together do."""
    best = searched(TIGHT)
    place = best.setting.placement
    limited = place.model_copy(
        update={"workers": (place.workers[0].model_copy(update={"pinned_bytes": best.memory[0].pinned_bytes - 7}),)}
    )
    short = replace(best, setting=replace(best.setting, placement=limited))
    assert short.missing_bytes.tolist() == [7]
    assert not short.fits


def test_where_a_gpu_cannot_keep_rows_is_refused():
    """In a line that says what is wrong."""
    with pytest.raises(UserError, match="rows on disk are read by CPUs alone"):
        found("sbm", "one", decisions={NAME: {"to": "disk"}}, techniques={"destination_chunks": True})
    with pytest.raises(UserError, match=f"pin.decisions.{NAME}"):
        check_techniques(job_of(decisions={NAME: {"to": "tape"}}))


def test_words_say_where():
    """For each of both."""
    of = technique(NAME)
    assert "in the host's memory" in of.words(of.Decision(to="host"))
    assert "on disk" in of.words(of.Decision())
    assert of.brief(of.Decision(to="host")) == "rows in the host's memory"
