"""Every pair of techniques that is not refused composes, and differs from one worker only as its labels say."""

from dataclasses import replace
from itertools import combinations

import pytest

from gnnplan.planner.composition.refusals import refusals
from gnnplan.planner.contracts.technique import Stage
from gnnplan.planner.fidelity import ANY, EXACT
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.techniques.registry import ours, technique
from tests.planner.composition.chosen import BASE, NOT_FOR_GAT, Chosen, composed, cycle_of, not_in_place, situation_of
from tests.planner.program import cases
from tests.planner.program.cases import exact

APART = (
    "source_chunks",
    "late_halos",
    "boundary_sampling",
    "compression",
    "half_precision",
)  # what they compute is no matter of labels, so they have oracles and pairs of their own
NAMES = tuple(name for name in ours() if name not in APART)
REFUSED = [
    ("halo_exchange", "feature_slices"),
    *(("feature_slices", name) for name in ("replicas", "joint_cache", "feature_cache", "host_region")),
    *(("feature_slices", name) for name in ("partial_reduce", "pruning")),
    ("feature_cache", "first_aggregation"),
    ("host_region", "partial_reduce"),
    ("direct_sum", "partial_reduce"),
]
REFUSED_APART = [
    *(("source_chunks", name) for name in ("feature_slices", "late_halos", "boundary_sampling", "partial_reduce")),
    *(("feature_slices", name) for name in ("late_halos", "boundary_sampling")),
    ("replicas", "boundary_sampling"),
    *(("joint_cache", name) for name in ("late_halos", "boundary_sampling")),
    ("late_halos", "boundary_sampling"),
    *((name, other) for name in ("late_halos", "boundary_sampling") for other in ("host_region", "partial_reduce")),
    ("boundary_sampling", "pruning"),
    ("feature_slices", "compression"),
    ("compression", "partial_reduce"),
]
PAIRS = [
    Chosen(model, pair)
    for model in ("gcn", "gat")
    for pair in combinations(NAMES, 2)
    if pair not in REFUSED and not (model == "gat" and NOT_FOR_GAT.intersection(pair))
]


def without(*names):
    """All techniques but some."""
    return tuple(name for name in NAMES if name not in names)


ALL = [
    Chosen("gcn", without("feature_slices", "feature_cache", "partial_reduce")),
    Chosen("gcn", without("feature_slices", "first_aggregation", "partial_reduce")),
    Chosen("gcn", without("feature_slices", "feature_cache", "host_region", "direct_sum")),
    Chosen("gat", without("feature_slices", *NOT_FOR_GAT, "partial_reduce")),
    Chosen("gat", without("feature_slices", *NOT_FOR_GAT, "host_region", "direct_sum")),
    Chosen("gcn", ("sparse_features", "operator_order", "feature_slices", "first_aggregation", "overlap")),
]
# Sums over slices are not computed again, for their sources do not stay; the halo layout and attention show that hook.
NOTHING_AGAIN = ("gcn", "feature_slices", "destination_chunks", "storage")
each_pair = pytest.mark.parametrize("chosen", [*PAIRS, *ALL], ids=lambda each: f"{each.model}: {'+'.join(each.names)}")


def fidelity_of(chosen):
    return max(technique(each.technique).fidelity(each.decision) for each in chosen.choices())


def parts(cycle):
    """All that a technique may change."""
    sizes = {name: space.sizes for name, space in cycle.spaces.items()}
    return cycle.programs, cycle.order, cycle.values, sizes


def test_pairs_are_refused_as_listed():
    """The pairs below are all that are allowed, and no more."""
    found = [pair for pair in combinations(NAMES, 2) if refusals(Chosen("gcn", pair).choices(), ANY)]
    assert found == REFUSED


@each_pair
def test_equals_the_oracle_of_its_labels(chosen):
    """Losses, gradients and parameters are the oracle's; those of one worker exactly where fidelity says so."""
    run, case = chosen.case.play(cycle_of(chosen)), chosen.case
    assert run.off(*case.oracle()) < cases.EXACT
    from_one_worker = run.off(*exact(case.model))
    if fidelity_of(chosen) == EXACT:
        assert from_one_worker < cases.EXACT
    else:
        assert from_one_worker > 1e-4


@pytest.mark.long
@each_pair
def test_is_the_same_in_storage_of_its_own(chosen):
    """What is written in place is written to nobody's harm."""
    cycle = cycle_of(chosen)
    assert any(op.inplace is not None for op in cycle.programs["train"])
    in_place, apart = chosen.case.play(cycle), chosen.case.play(not_in_place(cycle))
    assert in_place.losses == pytest.approx(apart.losses, rel=1e-12)
    for name, workers in apart.params.items():
        for got, want in zip(in_place.params[name], workers, strict=True):
            assert cases.worst(got, want) < 1e-12, name


@each_pair
def test_every_hook_of_it_changes_the_program(chosen, monkeypatch):
    """A pair in which one does nothing would say nothing of it."""
    cycle = cycle_of(chosen)
    for name in chosen.names:
        if name == "halo_exchange":
            assert any(op.kind == "exchange" for op in cycle.programs["train"])
        elif name == "feature_slices":
            assert any(op.kind == "transpose" for op in cycle.programs["train"])
        elif name == "operator_order":
            assert parts(composed(chosen.case, chosen.choices(reordered=False))) != parts(cycle)
        else:
            hooks = technique(name).hooks()
            for stage in hooks:
                if (chosen.model, *chosen.names, stage) == NOTHING_AGAIN:
                    continue
                rest = {each: hook for each, hook in hooks.items() if each != stage}
                monkeypatch.setattr(technique(name), "hooks", lambda rest=rest: rest)
                assert parts(composed(chosen.case, chosen.choices())) != parts(cycle), (name, stage)
                monkeypatch.undo()


@pytest.mark.parametrize("name", ["operator_order", "first_aggregation"])
def test_what_attention_has_no_use_for_does_nothing_to_it(name):
    """These are no pairs above, for there they would be vacuous."""
    alone, base = Chosen("gat", (name,)), Chosen("gat", BASE)
    assert parts(cycle_of(alone)) == parts(cycle_of(base))


def test_attention_has_no_features_to_keep():
    """What travels first is a product already, so nothing of it leaves the epoch."""
    assert "setup" not in cycle_of(Chosen("gat", ("feature_cache",))).programs
    assert "setup" in cycle_of(Chosen("gcn", ("feature_cache",))).programs


@pytest.mark.parametrize("chosen", ALL, ids=lambda each: f"{each.model}: {'+'.join(each.names)}")
def test_the_order_of_choices_does_not_matter(chosen):
    """Stages and the registry say it."""
    assert parts(composed(chosen.case, reversed(chosen.choices()))) == parts(cycle_of(chosen))


def test_hooks_that_label_commute():
    """Labels combine by the greater one, in whichever order they are marked."""
    chosen = ALL[1]
    hooks = [
        (technique(choice.technique).hooks()[Stage.LABELS], choice)
        for choice in chosen.choices()
        if Stage.LABELS in technique(choice.technique).hooks()
    ]
    assert len(hooks) == 5
    found = []
    for order in (hooks, hooks[::-1]):
        labels = Labels()
        for hook, choice in order:
            labels = hook(labels, choice.decision, replace(situation_of(chosen.case), arrays=choice.arrays))
        found.append([labels.signature(level) for level in range(3)])
    assert found[0] == found[1]
