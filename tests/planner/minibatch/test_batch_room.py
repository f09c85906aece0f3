"""A device's memory shared out: never more than there is, a slot at least, and no slot too many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.minibatch.room import MAX_SLOTS, BatchNeeds, share_out
from gnnplan.profiles.errors import NoPlanFitsError, UserError

BYTES = st.integers(1, 10**12)


@given(BYTES, BYTES, BYTES, st.none() | BYTES, st.integers(1, 2))
def test_what_is_shared_out_is_there(free_bytes, batch_bytes, step_bytes, limit_bytes, num_pools):
    """Batches that wait, the one in work and rows together leave a tenth; what cannot be is refused in one line."""
    needs = BatchNeeds(batch_bytes, step_bytes)
    try:
        room = share_out(free_bytes, needs, limit_bytes=limit_bytes, num_pools=num_pools)
    except (UserError, NoPlanFitsError):
        assert (limit_bytes or 0) > free_bytes or step_bytes + batch_bytes > 0.9 * (limit_bytes or free_bytes) - 1
        return
    taken = room.num_slots * batch_bytes + step_bytes + room.row_bytes
    assert taken <= 0.9 * min(free_bytes, limit_bytes or free_bytes) * (1 + 1e-12)
    assert 1 <= room.num_slots <= MAX_SLOTS
    assert room.row_bytes >= 0


def test_slots_take_half_at_most_and_ten_are_enough():
    """Of 900 bytes beside the step: four and a half batches of 100; of plenty, ten, and rows have the rest."""
    assert share_out(1100, BatchNeeds(100, 90)).num_slots == 4
    plenty = share_out(10**6, BatchNeeds(100, 0))
    assert (plenty.num_slots, plenty.row_bytes) == (10, 900_000 - 1000)


def test_one_batch_may_wait_where_only_one_fits():
    """More than half of what is left, and still."""
    room = share_out(1000, BatchNeeds(800, 100))
    assert (room.num_slots, room.row_bytes) == (1, 0)


def test_each_pool_that_batches_come_from_may_have_held_them_all():
    """Of 900 bytes beside the step: two slots of 100 twice, and the batch in work once more; rows have what is left."""
    room = share_out(1100, BatchNeeds(100, 90), num_pools=2)
    assert (room.num_slots, room.row_bytes) == (2, 900 - 5 * 100)
    plenty = share_out(10**6, BatchNeeds(100, 0), num_pools=2)
    assert (plenty.num_slots, plenty.row_bytes) == (10, 900_000 - 21 * 100)


def test_one_batch_may_wait_though_two_pools_would_not_hold_it():
    """What the allocator holds and does not need it gives back where it must; rows are kept for less."""
    room = share_out(1000, BatchNeeds(500, 100), num_pools=2)
    assert (room.num_slots, room.row_bytes) == (1, 0)


def test_a_limit_is_kept_as_if_there_were_no_more():
    """Of a large device only what the job allows."""
    assert share_out(10**9, BatchNeeds(100, 50), limit_bytes=1000) == share_out(1000, BatchNeeds(100, 50))


@pytest.mark.parametrize(
    ("free_bytes", "limit_bytes", "kind", "message"),
    [
        (
            1000,
            None,
            NoPlanFitsError,
            "batches need 1112 bytes of the device's memory, 1000 are free; make batch_size or fan_outs smaller",
        ),
        (9999, 1000, NoPlanFitsError, "1000 are allowed by mini_batch.device_bytes; make batch_size"),
        (
            1000,
            2000,
            UserError,
            "mini_batch.device_bytes is 2000, and 1000 bytes of the device are free; ask for less",
        ),
    ],
)
def test_what_does_not_fit_says_how_much_is_needed(free_bytes, limit_bytes, kind, message):
    """And what to change. A limit that cannot be kept is a mistake, batches that are too large are none."""
    with pytest.raises(kind) as caught:
        share_out(free_bytes, BatchNeeds(500, 500), limit_bytes=limit_bytes)
    assert message in str(caught.value)
