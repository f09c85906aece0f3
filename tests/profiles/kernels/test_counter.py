"""Counter-based random bits: the published splitmix64, compiled and in Python alike, and bounded integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles.kernels.counter import chained_key
from gnnplan.profiles.kernels.draws import bounded, splitmix_at

BITS_64 = st.integers(0, 2**64 - 1)


def test_stream_is_the_published_one():
    """Outputs of the stream from 1234567 are those its reference implementation prints."""
    outputs = [int(splitmix_at(np.uint64(1234567), np.uint64(i))) for i in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(BITS_64)
def test_compiled_and_python_agree(state):
    """The first output of a stream is the key chained from its start."""
    assert int(splitmix_at(np.uint64(state), np.uint64(0))) == chained_key(state)


def test_order_and_number_of_parts_count():
    """Keys of other parts, of another order and of more parts all differ."""
    keys = [chained_key(*parts) for parts in [(1, 2, 3), (3, 2, 1), (1, 2), (1, 2, 4), (1, 2, 3, 0), (0, 1, 2, 3)]]
    assert len(set(keys)) == len(keys)


@given(BITS_64, st.integers(1, 2**31 - 1))
def test_bounded_is_multiply_high_of_the_upper_half(bits, width):
    """The integer is floor(upper 32 bits * width / 2^32), so it lies in 0..width - 1."""
    value = bounded(np.uint64(bits), width)
    assert value == ((bits >> 32) * width) >> 32
    assert 0 <= value < width


def test_bounded_reaches_both_ends():
    """The smallest bits give 0 and the largest width - 1."""
    assert bounded(np.uint64(0), 2**31 - 1) == 0
    assert bounded(np.uint64(2**64 - 1), 2**31 - 1) == 2**31 - 2
