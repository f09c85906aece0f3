"""A cache decision that does not fit its plan is named by its key, and one that was decided for it fits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.joint_cache.consistency import cache_fault
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision, RegionDecision
from gnnplan.planner.joint_cache.region import decide_rows
from gnnplan.profiles.machine import Link
from tests.planner.joint_cache.cases import cases, program_of

LINK = Link(bytes_per_s=1e9)
PLENTY = 2**20
# Two workers of a host read four rows of another host's worker; each is sent two of them for both.
HOSTS, SENT = (0, 0, 1), ((0, 0, 0), (0, 0, 0), (4, 4, 0))
NOTHING = ((0,) * 3,) * 3
REGION = RegionDecision(
    num_rows=(4, 0), device_rows=(0, 0, 0), written_rows=(2, 2, 0), sent_counts=((0, 0, 0), (0, 0, 0), (2, 2, 0))
)
SHARED = CacheDecision(num_rows=(0, 0, 0), fresh_counts=NOTHING, region=REGION)
KEPT = CacheDecision(num_rows=(4, 4, 0), fresh_counts=NOTHING)


def placement_of(hosts, region_bytes=PLENTY):
    """Workers by the indices of their hosts, each of which has a region of so many bytes."""
    workers = tuple(
        WorkerPlace(
            host=f"h{index}",
            host_index=index,
            device_index=0,
            profile="t4",
            link=LINK,
            memory_bytes=1,
            region_bytes=region_bytes,
        )
        for index in hosts
    )
    return Placement(workers=workers, profiles={}, device_link=LINK)


@settings(deadline=None)
@given(cases(), st.integers(1, 3))
def test_what_was_decided_fits(case, interval):
    """Whatever devices and hosts have room for, one worker and empty ones included."""
    halo, hosts, device_rows, region_rows = case
    cache = decide_rows(halo, device_rows, hosts, region_rows, refresh_interval=interval)
    assert cache_fault(cache, halo.send_counts(), placement_of(hosts), program_of()) is None


@settings(deadline=None)
@given(cases(), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_a_row_too_many_is_found(case, sender, receiver, is_kept):
    """One more that a worker keeps, or one that is sent to it anew."""
    halo, hosts, device_rows, _ = case
    cache = decide_rows(halo, device_rows, hosts)
    kept, fresh = np.array(cache.num_rows), np.array(cache.fresh_counts)
    if is_kept:
        kept[receiver % len(kept)] += 1
    else:
        fresh[sender % len(kept), receiver % len(kept)] += 1
    changes = {"num_rows": tuple(kept.tolist()), "fresh_counts": tuple(map(tuple, fresh.tolist()))}
    fault = cache_fault(cache.model_copy(update=changes), halo.send_counts(), placement_of(hosts), program_of())
    assert fault == "decision.cache: send_counts less fresh_counts must be the num_rows each worker keeps"


def test_nothing_kept_asks_for_nothing():
    """No counts, no region."""
    assert cache_fault(NO_CACHE, SENT, placement_of(HOSTS, 0), program_of()) is None


ROWS = "decision.cache: send_counts less fresh_counts must be the num_rows each worker keeps"
WORKERS = "decision.cache: num_rows and fresh_counts must each have 3 workers"
EDITS = {
    "a worker too few": (KEPT, {"num_rows": (4, 4)}, WORKERS),
    "no counts": (KEPT, {"fresh_counts": ()}, WORKERS),
    "a short row": (KEPT, {"fresh_counts": ((0, 0, 0), (0, 0, 0), (0, 0))}, WORKERS),
    "fewer kept": (KEPT, {"num_rows": (4, 3, 0)}, ROWS),
    "more fresh than sent": (KEPT, {"fresh_counts": ((0, 1, 0), (0, 0, 0), (0, 0, 0)), "num_rows": (4, 3, 0)}, ROWS),
    "no region": (SHARED, {"region": None}, ROWS),
    "more on a device than sent": (SHARED, {"num_rows": (5, 0, 0)}, ROWS),
}


@pytest.mark.parametrize("edit", EDITS)
def test_counts_that_do_not_add_up_are_named(edit):
    """As edited plan files have them."""
    cache, changes, wanted = EDITS[edit]
    assert cache_fault(cache, SENT, placement_of(HOSTS), program_of()) is None
    assert cache_fault(cache.model_copy(update=changes), SENT, placement_of(HOSTS), program_of()) == wanted


REGION_EDITS = {
    "a device too few": ({"device_rows": (0, 0)}, "device_rows, written_rows and sent_counts must each have 3 workers"),
    "a writer too many": ({"written_rows": (2, 2, 0, 0)}, "device_rows, written_rows and sent_counts must each have 3"),
    "no square": ({"sent_counts": NOTHING[:2]}, "device_rows, written_rows and sent_counts must each have 3 workers"),
    "a host too few": ({"num_rows": (4,)}, "num_rows must have 2 hosts"),
    "sent by nobody": ({"sent_counts": ((0, 1, 0), *REGION.sent_counts[1:])}, "sent_counts must be of the rows in"),
    "a row of nobody": ({"written_rows": (2, 1, 0)}, "host 0 has 4 rows, its workers write 3"),
    "an unread host": ({"num_rows": (4, 1)}, "host 1 has 1 rows, its workers write 0"),
}


@pytest.mark.parametrize("edit", REGION_EDITS)
def test_a_region_that_does_not_fit_is_named(edit):
    """By the host or the key at fault."""
    changes, wanted = REGION_EDITS[edit]
    cache = SHARED.model_copy(update={"region": REGION.model_copy(update=changes)})
    fault = cache_fault(cache, SENT, placement_of(HOSTS), program_of())
    assert fault.startswith(f"decision.cache.region: {wanted}")


@pytest.mark.parametrize(("interval", "needed"), [(1, 192), (4, 256)])
def test_a_region_has_room_to_the_byte(interval, needed):
    """Stamps and four rows of five features, and where embeddings are reused of three products too."""
    cache = SHARED.model_copy(update={"refresh_interval": interval})
    assert cache_fault(cache, SENT, placement_of(HOSTS, needed), program_of()) is None
    wanted = f"host h0 needs a region of {needed} bytes and has one of {needed - 1} (region_bytes)"
    fault = cache_fault(cache, SENT, placement_of(HOSTS, needed - 1), program_of())
    assert fault == f"decision.cache.region: {wanted}"
