"""A record by another clock is the same, later or earlier."""

from gnnplan.runtime.epoch_record import EpochRecord


def test_all_times_are_shifted_and_no_duration():
    """What it was held for stays as it is."""
    record = EpochRecord(3, 10.0, 12.0, 0.5, spans=[("l0/multiply", "compute", 10.5, 11.0)], paused_s=2.0)
    shifted = record.shifted(lambda at_s: at_s + 100.0)
    assert (shifted.start_s, shifted.end_s, shifted.paused_s) == (110.0, 112.0, 2.0)
    assert shifted.spans == [("l0/multiply", "compute", 110.5, 111.0)]
    assert (shifted.epoch, shifted.loss) == (3, 0.5)
