"""The search takes chunks where memory does not suffice without them, and only there."""

import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.pins import check_techniques
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from tests.planner.search.searched import found, job_of, placement_of

GAT = ModelSpec(kind="gat", num_layers=3, hidden_channels=256, heads=8)
NAME = "destination_chunks"


def searched(**on):
    return found("skewed", model=GAT, placement=placement_of("one", **on)).best


@pytest.mark.long
def test_chunks_are_taken_where_memory_does_not_suffice_otherwise():
    """With all the memory none; with a little less than that plan takes, some; with next to nothing no plan fits."""
    plain = searched()
    assert plain.choice(NAME) is None
    needed = plain.memory[0].peak_bytes
    least = searched(memory_bytes=needed - plain.memory[0].epoch_bytes // 20)
    chosen = least.choice(NAME)
    assert chosen
    assert least.fits
    assert chosen.decision.num_chunks > 1
    assert least.epoch_s > plain.epoch_s
    with pytest.raises(NoPlanFitsError, match=r"GiB|MiB|bytes"):
        searched(memory_bytes=plain.memory[0].peak_bytes // 8)


def test_a_job_may_say_how_many():
    """The number and what is computed again."""
    best = found("sbm", "one", decisions={NAME: {"num_chunks": 3, "recompute": "nothing"}}).best
    decision = best.choice(NAME).decision
    assert (decision.num_chunks, decision.recompute) == (3, "nothing")
    assert "3 chunks" in technique(NAME).words(decision)


@pytest.mark.parametrize("fields", [{"num_chunks": 0}, {"num_chunks": 101}, {"recompute": "all"}, {"chunks": 3}])
def test_what_no_decision_has_is_refused(fields):
    """In a line that says where."""
    with pytest.raises(UserError, match=f"pin.decisions.{NAME}"):
        check_techniques(job_of(decisions={NAME: fields}))
