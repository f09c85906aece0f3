"""Memory of a worker that replicates: more with more replicas, and what may be cached is counted though it is not."""

import pytest

from gnnplan.planner.hybrid.memory import Staging, estimate_hybrid_memory
from gnnplan.profiles.catalog import catalog_profile
from tests.planner.hybrid.shares import CASES, Shares

NOTHING = Staging(num_places=100, num_entries=0, input_entries=0, num_dependencies=0)


def estimate(shares, share, staging=NOTHING, rank=0):
    return estimate_hybrid_memory(
        shares.program,
        shares.shapes[rank],
        catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu"}),
        shares.replicas(shares.masks(share)),
        staging,
        rank,
        num_features=10,
        num_classes=3,
        has_optimizer_state=True,
    )


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_grows_with_what_is_cached(kind, layers):
    """Graph and peak; inputs too."""
    shares = Shares(kind, layers, hidden=64)
    none, some, all_of_them = (estimate(shares, share) for share in (0.0, 0.5, 1.0))
    assert none.graph_bytes < some.graph_bytes < all_of_them.graph_bytes
    assert none.input_bytes <= some.input_bytes <= all_of_them.input_bytes
    assert none.peak_bytes < all_of_them.peak_bytes


def test_what_is_staged_counts():
    """Entries, inputs and dependencies; where it may decide again for as long as it trains."""
    shares = Shares(*CASES[0])
    staged = Staging(num_places=1000, num_entries=10_000, input_entries=50_000, num_dependencies=0)
    online = Staging(num_places=1000, num_entries=10_000, input_entries=50_000, num_dependencies=500)
    plain, once, kept = (estimate(shares, 0.3, staging) for staging in (NOTHING, staged, online))
    at_least = 10_000 * 8 + 50_000 * 4
    assert once.setup_bytes - plain.setup_bytes >= at_least
    assert once.graph_bytes == plain.graph_bytes
    assert kept.graph_bytes - plain.graph_bytes >= at_least
