"""Whoever may not be chosen together is told why and what to do, from claims, needs and fidelity alone."""

import numpy as np
import pytest

from gnnplan.planner.composition.refusals import refusals
from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.fidelity import ANY, EXACT, Fidelity, allows_decoupled, of_training, up_to
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.techniques.registry import alone, technique, techniques
from gnnplan.profiles.errors import UserError
from tests.planner.composition.chosen import Chosen, composed
from tests.planner.program.cases import Case


def choice(name, **decision):
    return Choice(name, technique(name).Decision(**decision))


HALO = choice("halo_exchange")


def test_nothing_is_refused_that_is_a_plan():
    """All that need and claim different things go together."""
    names = ("halo_exchange", "sparse_features", "operator_order", "replicas", "joint_cache", "first_aggregation")
    assert refusals([choice(name) for name in (*names, "overlap")], EXACT) == ()


def test_one_claim_has_one_technique():
    """Both techniques and what they claim are named."""
    lines = refusals([HALO, choice("feature_cache"), choice("first_aggregation")], EXACT)
    assert lines == ("feature_cache and first_aggregation both claim constants; leave one of them out",)


def test_a_layout_there_must_be():
    """The techniques that are one are named."""
    assert refusals([choice("overlap")], EXACT) == (
        "no technique says which worker has which rows; choose halo_exchange or feature_slices, for one worker too",
    )


@pytest.mark.parametrize("name", ["replicas", "pruning", "joint_cache", "feature_cache"])
def test_halo_rows_must_be_offered(name):
    """Who labels halo rows needs a layout that has some."""
    *_, line = refusals([choice(name)], ANY)
    wanted = f"choose halo_exchange as well, or leave {name} out"
    assert line == f"{name} needs halo rows, which no chosen technique offers; {wanted}"
    assert refusals([HALO, choice(name)], ANY) == ()


def test_fidelity_is_kept():
    """Decisions cost what they cost: an interval of 1 is exact, and pruning never."""
    kept = choice("joint_cache", interval=4)
    advice = "leave it out, or allow"
    assert refusals([HALO, kept], EXACT) == (
        f"joint_cache is stale(4), where at most exact is allowed; {advice} stale(4)",
    )
    assert refusals([HALO, kept], Fidelity("stale", 3)) == (
        f"joint_cache is stale(4), where at most stale(3) is allowed; {advice} stale(4)",
    )
    assert refusals([HALO, kept], Fidelity("stale", 4)) == ()
    assert refusals([HALO, choice("joint_cache")], EXACT) == ()
    assert refusals([HALO, choice("pruning")], up_to("stale")) == (
        f"pruning is approximate, where at most stale is allowed; {advice} approximate",
    )


def test_fidelities_are_ordered():
    """Each allows what stands before it."""
    ascending = [EXACT, Fidelity("stale", 2), Fidelity("stale", 9), up_to("stale"), Fidelity("approximate"), ANY]
    assert sorted(reversed(ascending)) == ascending
    assert len({str(each) for each in ascending}) == 5  # both approximate ones


def test_another_model_is_no_fidelity_of_training():
    """Decoupled, alone or behind a comma: how far training may be from its own numbers stays as it is."""
    for words in ("exact", "stale(3)", "stale", "approximate"):
        assert up_to(f"{words}, decoupled") == up_to(words)
        assert of_training(f"{words}, decoupled") == words
        assert allows_decoupled(f"{words}, decoupled")
        assert not allows_decoupled(words)
    assert up_to("decoupled") == up_to("exact")
    assert allows_decoupled("decoupled")
    assert of_training("decoupled") == "exact"
    for words in ("decoupled, stale", "stale,decoupled", "decoupled, decoupled", "Decoupled", ", decoupled"):
        with pytest.raises(ValueError, match="is none: write exact"):
            up_to(words)


def test_a_technique_is_chosen_once():
    """Two decisions of one technique are none."""
    assert refusals([HALO, HALO], EXACT) == ("halo_exchange is chosen 2 times; choose it once",)


def test_all_lines_come_at_once():
    """Nobody mends a plan line by line."""
    assert len(refusals([choice("pruning"), choice("feature_cache"), choice("first_aggregation")], EXACT)) == 5


def test_what_is_refused_is_not_composed():
    """A plan from elsewhere is told the same."""
    chosen = Chosen("gcn", ("feature_cache", "first_aggregation"))
    with pytest.raises(UserError, match="both claim constants; leave one of them out"):
        composed(chosen.case, chosen.choices())


def test_filters_need_an_order():
    """A model with abstract operators asks for the technique that expands them."""
    chosen = Chosen("gcn", ())
    with pytest.raises(UserError, match=r"l0/filter is a filter.*choose a technique that claims model:order"):
        composed(chosen.case, chosen.choices()[:1])


def test_one_worker_has_a_layout_too():
    """On one worker nothing travels, and the layout is the same technique's."""
    case = Case(ModelSpec(kind="gcn", hidden_channels=4), 1)
    part = {"part": np.zeros(case.graph.num_nodes, np.int32)}
    halo = Choice("halo_exchange", technique("halo_exchange").Decision(), part)
    cycle = composed(case, [halo, choice("operator_order")])
    assert not {"exchange", "all_reduce", "place"} & {op.kind for op in cycle.programs["train"]}


def test_what_stands_for_a_whole_epoch_stands_alone():
    """With a technique of full batches it is refused, whatever that one claims."""
    (found,) = alone()
    for name in techniques():
        why = refusals([choice(found), choice(name)], ANY)
        assert f"{found} stands for a whole epoch; leave {name} out" in why
    assert refusals([choice(found)], ANY) == ()


@pytest.mark.parametrize("name", [*techniques(), *alone()])
def test_every_technique_says_what_it_is(name):
    """Its decision has a default, and a report and the documentation have a sentence of it."""
    known = technique(name)
    assert known.name == name
    assert known.words(known.Decision()).endswith(".")
    assert (known.__doc__ or "").splitlines()[0].endswith(".")
    assert known.Decision.model_validate(known.Decision().model_dump()) == known.Decision()


def test_features_that_are_not_sparse_are_not_stored_so():
    """It is the graph that has no entries, so the technique is to be left out."""
    hook = next(iter(technique("sparse_features").hooks().values()))
    dense = Chosen("gcn", ()).case.forward()
    with pytest.raises(UserError, match="features are not sparse; leave the technique out"):
        hook(dense, technique("sparse_features").Decision(), None)
