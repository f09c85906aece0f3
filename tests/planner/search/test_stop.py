"""A search that ends early has a plan all the same, and says what it left."""

import math

import pytest

from gnnplan.planner.job import Job
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.report.words import searched_words
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.make import plan_of
from gnnplan.planner.search.stop import Stop
from gnnplan.planner.search_spec import SearchSpec
from gnnplan.profiles.errors import NoPlanFitsError
from tests.planner.search.searched import GRAPHS, SBM, job_of, placement_of, sparse_graph

_NO_TIME = SearchSpec(longest_s=1e-9)


def _searched(cluster, spec, *, graph="sbm", memory_bytes=None):
    job = job_of().model_copy(update={"search": spec})
    return decide(job, placement_of(cluster, memory_bytes=memory_bytes), GRAPHS[graph])


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["network", "mixed", "contrary"])
@pytest.mark.parametrize("gap", [0.05, 0.5, 5.0])
def test_a_gap_is_kept(cluster, gap):
    """Fewer candidates are made, and the epoch is within the gap of the whole search's."""
    whole, some = _searched(cluster, SearchSpec()), _searched(cluster, SearchSpec(gap=gap))
    assert whole.ended_by == ""
    assert whole.num_left == 0
    assert some.best.epoch_s <= whole.best.epoch_s * (1 + gap)
    assert some.searched.seconds <= whole.best.epoch_s
    assert len(some.looked_at) <= len(whole.looked_at)
    if gap == 5.0:
        assert some.ended_by == "gap"
        assert len(some.looked_at) < len(whole.looked_at)


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["one", "network", "contrary"])
def test_out_of_time_the_first_that_fits_is_taken(cluster):
    """There is a plan, its bounds hold, and sets that might be better are said to be left."""
    whole, none = _searched(cluster, SearchSpec()), _searched(cluster, _NO_TIME)
    assert none.best.fits
    assert none.ended_by == "time"
    assert none.searched.seconds <= whole.best.epoch_s <= none.best.epoch_s
    assert none.num_sets == whole.num_sets
    assert none.num_left <= none.num_sets - none.num_passed_over
    assert len(none.looked_at) < len(whole.looked_at)


@pytest.mark.long
@pytest.mark.parametrize("graph", ["sbm", "sparse"])
def test_out_of_time_bounds_are_those_of_the_whole_search(graph):
    """Of features nearly all zero the first candidate is a slow one, and no bound."""
    held = sparse_graph() if graph == "sparse" else GRAPHS[graph]
    whole, none = (
        decide(job_of().model_copy(update={"search": spec}), placement_of("contrary"), held)
        for spec in (SearchSpec(), _NO_TIME)
    )
    assert none.bound.seconds == pytest.approx(whole.bound.seconds)
    assert none.bound.seconds <= whole.best.epoch_s


@pytest.mark.parametrize("spec", [_NO_TIME, SearchSpec(gap=0.9)], ids=["time", "gap"])
@pytest.mark.parametrize(
    ("pin", "name"),
    [
        ({"dependencies": "cache"}, "replicas"),
        ({"techniques": {"replicas": True}}, "replicas"),
        ({"techniques": {"joint_cache": True}, "dependencies": "communicate"}, "joint_cache"),
    ],
)
def test_what_is_pinned_takes_part_however_early_the_search_ends(spec, pin, name):
    """Also what can only be chosen once a layout is."""
    job = job_of(fidelity="stale(4)", num_workers=2, **pin).model_copy(update={"search": spec})
    assert decide(job, placement_of("network"), GRAPHS["sbm"]).best.choice(name)


@pytest.mark.long
def test_it_goes_on_until_something_fits():
    """Where the first candidates need too much memory, time is no reason to end."""
    needed = max(each.peak_bytes for each in _searched("network", SearchSpec()).best.memory)
    for memory_bytes in (needed, needed // 2):
        try:
            whole = _searched("network", SearchSpec(), memory_bytes=memory_bytes)
        except NoPlanFitsError:
            with pytest.raises(NoPlanFitsError):
                _searched("network", _NO_TIME, memory_bytes=memory_bytes)
        else:
            assert _searched("network", _NO_TIME, memory_bytes=memory_bytes).best.fits
            assert whole.best.fits


def test_a_plan_says_what_ended_its_search():
    """And how many sets of workers were left."""
    job = job_of().model_copy(update={"search": _NO_TIME})
    plan, _ = plan_of(job, GRAPHS["sbm"], decide(job, placement_of("contrary"), GRAPHS["sbm"]))
    assert plan.searched.ended_by == "time"
    assert plan.searched.num_left > 0
    words = searched_words(plan.searched)
    if passed_over := plan.searched.num_passed_over:
        assert f"no plan of the {passed_over} passed over can be better" in words
    assert words.endswith(f"; the search ended at its time, with {plan.searched.num_left} set(s) of workers left")


def test_several_forms_have_the_time_together():
    """Each has its share, and ends by it."""
    late, early = Stop(SearchSpec(longest_s=1000.0), share=1e-12), Stop(SearchSpec(longest_s=1000.0))
    assert late.is_over(1.0, 0.0)
    assert not early.is_over(1.0, 0.0)
    assert (late.ended_by, early.ended_by) == ("time", "")


def test_nothing_ends_before_a_plan_fits():
    """Neither by time nor by the gap."""
    assert not Stop(SearchSpec(longest_s=1e-9, gap=1.0)).is_over(math.inf, 1.0)


def test_mini_batches_have_no_search():
    """All their ways are looked at, so a job that limits it says what it does not mean."""
    raw = {"graph": SBM.model_dump(), "model": {"kind": "sage"}, "search": {"gap": 0.1}}
    Job.model_validate({**raw, "schema_version": 1})
    with pytest.raises(ValueError, match="leave search out"):
        Job.model_validate({**raw, "schema_version": 1, "mini_batch": {"fan_outs": [5, 5], "batch_size": 10}})


def test_a_gap_ends_with_nothing_that_goes_over_a_limit():
    """A deadline that the first candidates go over is kept: the search goes on until some do not."""
    whole = _searched("network", SearchSpec(), graph="skewed")
    limit_s, size = 1.05 * whole.best.epoch_s, whole.best.setting.num_workers
    first = next(each for each in whole.looked_at if each.fits and each.setting.num_workers == size)
    assert first.epoch_s > limit_s
    job = job_of().model_copy(update={"search": SearchSpec(gap=5.0)})
    limits = ObjectiveSpec(deadline_s=limit_s * job.training.epochs)
    best = decide(job.model_copy(update={"objective": limits}), placement_of("network"), GRAPHS["skewed"]).best
    assert best.epoch_s <= limit_s
