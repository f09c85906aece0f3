"""A plan keeps the best of every kind that the search looked at and did not choose."""

import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.make import plan_of
from gnnplan.planner.search.rejected import rejected
from gnnplan.planner.search.summary import summary
from tests.planner.search.searched import GRAPHS, found, job_of, placement_of

NETWORK = {"bytes_per_s": 1e9}


def by_kind(result):
    """What was rejected, by kind and technique."""
    return {(each.kind, each.technique): each for each in rejected(result.best, [*result.looked_at, *result.alone])}


@pytest.fixture(scope="module")
def result():
    """A search over three workers."""
    return found("skewed", "mixed", num_workers=3, dependencies="communicate", on=NETWORK)


def test_each_kind_is_the_best_of_its_kind(result):
    """None is better that the search looked at, and none is the plan itself."""
    kept = by_kind(result)
    assert {kind for kind, _ in kept} >= {"alone", "without", "with", "decided"}
    for (kind, name), each in kept.items():
        assert each.summary != summary(result.best)
        for candidate in result.looked_at:
            has = {choice.technique for choice in candidate.choices}
            if candidate.fits and (kind, name in has) in (("without", False), ("with", True)):
                assert each.epoch_s <= candidate.epoch_s
        assert each.compute_s > 0


def test_a_technique_of_the_plan_is_left_out_and_another_taken(result):
    """Once each, for all techniques that have such a candidate."""
    chosen, kept = {choice.technique for choice in result.best.choices}, by_kind(result)
    assert {name for kind, name in kept if kind == "without"} <= chosen
    assert not {name for kind, name in kept if kind == "with"} & chosen
    assert ("without", "overlap") in kept
    assert ("with", "feature_cache") in kept


def test_one_worker_alone_is_kept_also_where_more_are_pinned(result):
    """So that whoever pins workers sees what it costs."""
    alone = by_kind(result)["alone", ""]
    assert alone.summary.startswith("1 worker(s): ")
    assert alone.communicate_s == 0


def test_what_memory_rules_out_is_kept_with_its_bytes():
    """Where more of it would be faster."""
    needs = int(found("wide", "one").best.memory[0].peak_bytes)
    tight = by_kind(found("wide", "one", on={"memory_bytes": needs - 1}))
    assert tight["memory", ""].missing_bytes == 1
    assert tight["memory", ""].missing_on == "h0"
    assert ("memory", "") not in by_kind(found("wide", "one"))


def test_a_plan_keeps_them():
    """As `gnnplan explain` reads it."""
    job, placement = job_of(ModelSpec(hidden_channels=32)), placement_of("mixed")
    result = decide(job, placement, GRAPHS["skewed"])
    plan, _ = plan_of(job, GRAPHS["skewed"], result)
    assert plan.rejected == tuple(by_kind(result).values()) != ()
    assert any(each.kind in ("alone", "workers") for each in plan.rejected)
    assert type(plan).parse(plan.model_dump(mode="json"), where="plan").rejected == plan.rejected
