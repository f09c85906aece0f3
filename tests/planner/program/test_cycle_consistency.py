"""A document that is no cycle is refused in a line, whatever is wrong with it."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gnnplan.planner.program.consistency import fault_of
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.sharing import share_equal_arrays
from tests.planner.program.cases import MODELS, ORDERS, Case


def document(name: str = "sage"):
    """A cycle of three workers as JSON values."""
    case = Case(MODELS[name], 3, ORDERS["mixed"], passes=("split", "once", "storage", "overlap"))
    return CycleDocument.of(share_equal_arrays(case.cycle())).model_dump(mode="json")


DOCUMENT = document()


def first(found, kind: str):
    """The first operator of a kind."""
    return next(op for op in found["programs"]["train"] if op["kind"] == kind)


CHANGES = {
    "unknown kind": lambda d: first(d, "multiply").update(kind="divide"),
    "unknown read": lambda d: first(d, "multiply").update(reads=["nothing", "nobody"]),
    "unknown program": lambda d: d.update(order=["nowhere"]),
    "no program": lambda d: d.update(order=[]),
    "attribute is missing": lambda d: (
        first(d, "activate")["attributes"].clear() or first(d, "take")["attributes"].clear()
    ),
    "attribute of another type": lambda d: first(d, "aggregate")["attributes"].update(block={}),
    "sizes of too few workers": lambda d: d["spaces"]["v@0"].update(sizes=[1]),
    "size beyond any memory": lambda d: d["spaces"]["v@0"].update(sizes=[10**18, 1, 1]),
    "counts that are no square": lambda d: next(iter(d["routes"].values())).update(counts=[[1, 2, 3], [1], [1, 2, 3]]),
    "counts of other workers": lambda d: next(iter(d["routes"].values())).update(counts=[[1]]),
    "in place of nothing": lambda d: first(d, "activate").update(inplace=9),
    "too few writes": lambda d: first(d, "loss").update(writes=["loss"]),
    "another width": lambda d: d["values"][first(d, "multiply")["writes"][0]].update(width=3000),
    "another space": lambda d: d["values"][first(d, "multiply")["writes"][0]].update(space="r1"),
    "two of one name": lambda d: d["programs"]["train"].append(copy.deepcopy(d["programs"]["train"][0])),
    "read before it is written": lambda d: d["programs"]["train"].reverse(),
    "computing on the network": lambda d: first(d, "multiply").update(lane="network"),
    "columns beyond the width": lambda d: d["values"]["x"].update(columns=[[4, 2]] * 3),
    "runs of too few workers": lambda d: next(iter(d["indexes"].values())).update(num_runs=[1]),
    "more runs than rows": lambda d: next(iter(d["indexes"].values())).update(num_runs=[10**6] * 3),
    "a space that is not there": lambda d: d["spaces"].pop("v@1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wrong_is_refused(change):
    """Not with a traceback, and not in silence."""
    changed = copy.deepcopy(DOCUMENT)
    CHANGES[change](changed)
    with pytest.raises(ValidationError):
        CycleDocument.model_validate(changed)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_right_is_taken(name):
    """Every model's programs."""
    found = CycleDocument.model_validate(document(name)).cycle()
    assert fault_of(found) is None


PLACES = st.lists(st.integers(0, 40), min_size=1, max_size=6)
ODD = st.one_of(st.none(), st.integers(-5, 10**19), st.floats(), st.text(max_size=3), st.just([]), st.just({}))


@pytest.mark.long
@given(PLACES, ODD)
@settings(max_examples=150, deadline=None)
def test_any_one_change_is_refused_or_harmless(places, odd):
    """A value anywhere in the document replaced by another: a refusal, or a cycle that can be read."""
    changed = copy.deepcopy(DOCUMENT)
    at = changed
    for place in places:
        keys = sorted(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        if not len(keys):
            break
        key = list(keys)[place % len(keys)]
        if not isinstance(at[key], (dict, list)) or place == places[-1]:
            at[key] = odd
            break
        at = at[key]
    try:
        cycle = CycleDocument.model_validate(changed).cycle()
    except ValidationError:
        return
    for program in cycle.programs.values():
        edges(cycle, program)
