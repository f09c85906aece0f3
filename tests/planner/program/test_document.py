"""A cycle in a document comes back as it was, without its arrays."""

import numpy as np
import pytest
from pydantic import ValidationError

from gnnplan.planner.program.document import CycleDocument, ValueDocument
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.profiles.limits import MAX_PARAMETERS
from tests.planner.program.cases import MODELS, ORDERS, Case, codes, subset


def shared(name: str, **more):
    """A cycle whose equal arrays are one."""
    return share_equal_arrays(
        Case(MODELS[name], 3, ORDERS["mixed"], passes=("split", "once", "storage"), **more).cycle()
    )


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_is_read(name):
    """Through JSON: programs, values, spaces, blocks and routes."""
    cycle = shared(name)
    found = CycleDocument.model_validate_json(CycleDocument.of(cycle).model_dump_json()).cycle()
    assert found.programs == cycle.programs
    assert (found.order, found.results, found.parameters) == (cycle.order, cycle.results, dict(cycle.parameters))
    for kind in ("values", "spaces", "blocks", "indexes"):
        before, after = getattr(cycle, kind), getattr(found, kind)
        assert after
        assert {each: before[each] for each in after} == dict(after)
    for route in cycle.routes:
        assert np.array_equal(found.routes[route].counts, cycle.routes[route].counts)
    assert CycleDocument.of(found) == CycleDocument.of(cycle)


def test_everything_that_an_operator_names_is_there():
    """So that a document alone can be priced."""
    cycle = CycleDocument.of(shared("gat")).cycle()
    for program in cycle.programs.values():
        for op in program:
            assert set(op.reads) | set(op.writes) <= set(cycle.values)
            assert set(op.attributes.get("blocks", ())) <= set(cycle.blocks)
            assert op.attributes.get("index", "train") in cycle.indexes
    assert {value.space for value in cycle.values.values()} <= set(cycle.spaces)


def test_an_unknown_field_is_refused():
    """As in every document."""
    document = CycleDocument.of(shared("gcn")).model_dump(mode="json")
    document["programs"]["train"][0]["colour"] = "red"
    with pytest.raises(ValidationError, match="colour"):
        CycleDocument.model_validate(document)


def test_levels_without_labels_share_their_arrays():
    """Stored and held once; levels with labels of their own have their own."""
    plain = shared("gcn")
    assert len({block.content for block in plain.blocks.values() if block.content}) == 2  # local and remote
    model = MODELS["gcn"]
    marked = np.zeros_like(codes(model, 3, {}))
    marked[1] = codes(model, 3, {Label.DROPPED: subset(model, 3, 5, 0.5)})[1]
    apart = shared("gcn", labels=marked)
    assert len({block.content for block in apart.blocks.values() if block.content}) > 2


def test_a_model_of_many_parameters_has_a_document():
    """Their gradients stand in one row, which is wider than any row of features may be."""
    assert ValueDocument(space="r1", width=20_000_000).width == 20_000_000
    with pytest.raises(ValidationError, match="width"):
        ValueDocument(space="r1", width=MAX_PARAMETERS + 1)
