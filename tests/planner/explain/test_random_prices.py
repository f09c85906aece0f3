"""Prices are those of better machines on clusters that nobody chose: within a fifth of what was said."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks._planner_shadow import worst_shadow_error
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.profiles.machine import Link
from tests.planner.explain.explained import planned

WITHIN = 0.2
hosts = st.builds(
    lambda device, rate, latency_us: (device, Link(bytes_per_s=rate, latency_s=latency_us / 1e6)),
    st.sampled_from(["rtx-3090", "gtx-1650", "t4", "v100"]),
    st.floats(1e8, 1e11),
    st.integers(1, 200),
)


@pytest.mark.long
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(hosts, min_size=2, max_size=3), st.sampled_from(["sbm", "skewed"]))
def test_prices_are_those_of_better_machines(described, graph):
    """Every resource of the plan is moved by 5%, and the plan is simulated on the machines described anew."""
    specs = (
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=device),), link=link)
        for i, (device, link) in enumerate(described)
    )
    plan, _ = planned(resolve(Cluster(hosts=tuple(specs))), graph, num_workers=len(described))
    error = worst_shadow_error(plan)
    assert error is not None  # something has a price
    assert error <= WITHIN
