"""Which ways to overlap the search looks at, and what a job may settle."""

import pytest

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from tests.planner.search.searched import GRAPHS, job_of, placement_of


@pytest.mark.parametrize("waits_late", [False, True])
def test_where_waiting_stands_may_be_settled(waits_late):
    """Whatever is faster."""
    pins = {"num_workers": 3, "dependencies": "communicate", "decisions": {"overlap": {"waits_late": waits_late}}}
    found = decide(job_of(ModelSpec(hidden_channels=32), "exact", **pins), placement_of("mixed"), GRAPHS["sbm"])
    assert found.best.choice("overlap").decision.waits_late == waits_late
